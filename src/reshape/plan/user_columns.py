"""A user's own aggregate as a column of PySpark's: a grouped Arrow UDF that carries it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reshape.errors import FlowError
from reshape.operators.aggregates.user_defined import UserAggregate
from reshape.plan.analysis import kind
from reshape.plan.group_functions import value_of_group
from reshape.plan.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

_WANTED = ("state_type", "output_type", "init", "update", "merge", "finish")


def aggregate_column(function: UserAggregate, columns: Sequence[Any]) -> Column:
    """Checks that the object is an aggregate."""
    from pyspark.sql.pandas.functions import arrow_udf

    missing = [name for name in _WANTED if not hasattr(function, name)]
    if missing:
        raise FlowError(
            f"aggregate: {type(function).__name__} has no {', '.join(missing)}; an aggregate has init(), update(state, "
            "rows), merge(state, other), finish(state) and the Arrow types state_type and output_type"
        )
    if not columns:
        raise FlowError(f"aggregate: name at least one column for {type(function).__name__}")
    named = [_named(column) for column in columns]
    make: Any = arrow_udf  # its types know no function with hints
    udf = make(value_of_group(function, [name for name, _ in named]), spark_type(function.output_type))
    made: Column = udf(*(column for _, column in named))
    return made


def _named(column: Any) -> tuple[str, Any]:
    """What an aggregate calls a column, and the column without that name: Spark would show it as part of another."""
    from pyspark.sql.classic.column import Column as ClassicColumn
    from pyspark.sql.functions import col

    given: Any = col(column) if isinstance(column, str) else column
    node = given._jc.node()
    match kind(node):
        case "Alias":
            made: Any = _column_class()
            return str(node.name().head()), ClassicColumn(made(node.child()))
        case "UnresolvedAttribute":
            return str(node.nameParts().last()), given
        case "ExpressionColumnNode" if kind(node.expression()) == "AttributeReference":
            return str(node.expression().name()), given
        case _:
            return str(node.sql()), given


def _column_class() -> Any:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None  # there is a column of it
    jvm: Any = context._jvm
    return jvm.org.apache.spark.sql.Column
