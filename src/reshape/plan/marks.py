"""What Spark's plan cannot say of a user's function travels with the function, as an attribute of it.

Marked functions are plain functions that also do their work where Spark itself calls them. They are pickled by value,
so Spark's workers need nothing of ours for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.errors import FlowError
from reshape.operators.aggregates.user_defined import UserAggregate
from reshape.plan.analysis import kind
from reshape.plan.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

_AGGREGATE = "reshape_aggregate"
_ORDERED = "reshape_ordered"
_WANTED = ("state_type", "output_type", "init", "update", "merge", "finish")


def aggregate_column(function: UserAggregate, columns: Sequence[Any]) -> Column:
    """A user's own aggregate of some columns, as a grouped Arrow UDF."""
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
    names, plain = [name for name, _ in named], [column for _, column in named]

    def computed(*arrays: pa.Array) -> pa.Scalar:
        rows = pa.RecordBatch.from_arrays(list(arrays), names)
        state = function.update(function.init(), rows) if rows.num_rows else function.init()
        return pa.scalar(function.finish(state), function.output_type)

    computed.__name__ = computed.__qualname__ = type(function).__name__
    setattr(computed, _AGGREGATE, (function, tuple(names)))
    make: Any = arrow_udf  # its types know no function with hints
    made: Column = make(computed, spark_type(function.output_type))(*plain)
    return made


def aggregate_of(function: Callable[..., Any]) -> tuple[UserAggregate, tuple[str, ...]] | None:
    """The user's aggregate that a grouped UDF stands for, and what it calls its columns."""
    found: tuple[UserAggregate, tuple[str, ...]] | None = getattr(function, _AGGREGATE, None)
    return found


def in_order(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of batches that needs the rows of a key in the order in which they were sent."""

    def ordered(batches: Iterator[Any]) -> Iterator[Any]:
        return iter(function(batches))

    ordered.__name__ = getattr(function, "__name__", type(function).__name__)
    ordered.__qualname__ = getattr(function, "__qualname__", type(function).__qualname__)
    setattr(ordered, _ORDERED, True)
    return ordered


def needs_order(function: Callable[..., Any]) -> bool:
    return bool(getattr(function, _ORDERED, False))


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
