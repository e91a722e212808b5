"""Spark's analyzer as a reader of expressions: what it makes of them says which columns and functions are meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reshape.errors import FlowError, ReshapeError
from reshape.plan.types import to_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession


class NotSupported(ReshapeError):
    """An expression that a flow cannot run, with what it can.

    >>> print(reshape.NotSupported("agg", "rand()", "use columns and expressions of one row"))
    agg cannot use rand(); use columns and expressions of one row
    """

    def __init__(self, what: str, expression: str, instead: str) -> None:
        super().__init__(what, expression, instead)
        self.what = what
        self.expression = expression
        self.instead = instead

    def __str__(self) -> str:
        return f"{self.what} cannot use {self.expression}; {self.instead}"


class Input:
    """The rows that expressions are about: a DataFrame that a flow reads, or the output of an operator.

    Spark can compute expressions of the first in the source's own job (``computes``). For the second there is an empty
    DataFrame of the same schema, and only its plain columns can be used.
    """

    def __init__(self, df: DataFrame, *, computes: bool) -> None:
        self.df = df
        self.computes = computes
        self._attributes = scala_list(analyzed(df).output())
        self._numbers = {attribute.exprId().id(): number for number, attribute in enumerate(self._attributes)}

    @classmethod
    def of_operator(cls, spark: SparkSession, schema: pa.Schema) -> Input:
        from pyspark.sql import DataFrame
        from pyspark.sql.types import StructField, StructType

        # Made whole in the JVM: column by column it takes hundreds of calls, a tenth of a second for a wide operator.
        session: Any = spark._jsparkSession
        jvm: Any = spark._jvm
        nullable = StructType([StructField(field.name, field.dataType) for field in to_spark(schema)])
        rows = session.createDataFrame(jvm.java.util.ArrayList(), session.parseDataType(nullable.json()))
        return cls(DataFrame(rows, spark), computes=False)

    @property
    def columns(self) -> list[str]:
        return [str(attribute.name()) for attribute in self._attributes]

    def number(self, expression: Any) -> int | None:
        """The number of the column that an expression is; None if it is more than a column."""
        if kind(expression) != "AttributeReference":
            return None
        return self._numbers.get(expression.exprId().id())

    def covers(self, expression: Any) -> bool:
        """Whether an expression is about these rows alone, not about what the analyzer has put between."""
        return all(one.exprId().id() in self._numbers for one in scala_list(expression.references().toSeq()))

    def column(self, number: int) -> Column:
        """A column by number, also where names are there twice or have dots."""
        return as_column(self._attributes[number])

    def ask(self, what: str, build: Callable[[DataFrame], DataFrame]) -> Any:
        """The analyzed plan of a query on these rows. Unknown columns get an error that lists the known ones."""
        from pyspark.errors import AnalysisException

        try:
            return analyzed(build(self.df))
        except AnalysisException as error:
            condition = error.getCondition() or ""
            names = ", ".join(self.columns)
            if condition.startswith("UNRESOLVED_COLUMN"):
                name = (error.getMessageParameters() or {}).get("objectName", "?").replace("`", "")
                raise FlowError(f"{what}: column {name!r} is not among {names}") from error
            if condition.startswith(("MISSING_ATTRIBUTES", "CANNOT_RESOLVE_DATAFRAME_COLUMN")):
                raise FlowError(
                    f"{what}: a column of another DataFrame is used; name columns of the flow as texts or by "
                    f"F.col(name): {names}"
                ) from error
            raise

    def refuse(self, what: str, expression: Any) -> NotSupported:
        """The error for an expression where only a plain column will do."""
        return NotSupported(
            what,
            expression.sql(),
            "behind another operator only plain columns can be used; compute it in the DataFrame that the flow reads, "
            f"or by mapInArrow before. Columns here: {', '.join(self.columns)}",
        )


def analyzed(df: DataFrame) -> Any:
    return df._jdf.queryExecution().analyzed()


def as_column(expression: Any) -> Column:
    """An expression that the analyzer has resolved, as a column of the same DataFrame."""
    from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.sql.classic.column import Column as ClassicColumn

    context = SparkContext._active_spark_context
    assert context is not None
    gateway: Any = context._gateway
    # By its full name: package by package the JVM would be asked for each part of it.
    utils = JavaClass("org.apache.spark.sql.classic.ExpressionUtils", gateway._gateway_client)
    return ClassicColumn(utils.column(expression))


def unnamed(expression: Any) -> Any:
    """An expression without its alias."""
    return expression.child() if kind(expression) == "Alias" else expression


def kind(expression: Any) -> str:
    """The class of an expression or plan, by its short name."""
    return str(expression.getClass().getSimpleName())


def scala_list(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.length())]


def named_expressions(source: Input, what: str, columns: Sequence[Any]) -> list[Any]:
    """Plain expressions, resolved; aggregates, generators and the like are not."""
    plan = source.ask(what, lambda df: df.select(*columns))
    if kind(plan) != "Project":
        raise NotSupported(what, ", ".join(map(str, columns)), "use columns and expressions of one row")
    return scala_list(plan.projectList())
