"""Spark's plans and expressions, as the JVM gateway shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reshape.errors import ReshapeError
from reshape.plan.java_classes import java_classes, static_method

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from reshape.operators.hash_join import JoinKind

_DATASET = "org.apache.spark.sql.classic.Dataset"

_JOINS: dict[str, JoinKind] = {
    "Inner": "inner",
    "Cross": "inner",
    "LeftOuter": "left",
    "RightOuter": "right",
    "FullOuter": "full",
    "LeftSemi": "left_semi",
    "LeftAnti": "left_anti",
}

# Keys of hosts are compared so by themselves.
_NORMALISING = ("KnownFloatingPointNormalized", "NormalizeNaNAndZero")


class NotSupported(ReshapeError):
    """An expression that a flow cannot run, with what it can. It becomes the reason why Spark does."""

    def __init__(self, what: str, expression: str, instead: str) -> None:
        super().__init__(what, expression, instead)
        self.what = what
        self.expression = expression
        self.instead = instead

    def __str__(self) -> str:
        return f"{self.what} cannot use {self.expression}; {self.instead}"


def analyzed(df: DataFrame) -> Any:
    """Its analyzed plan."""
    return df._jdf.queryExecution().analyzed()


def dataframe_of(spark: SparkSession, plan: Any) -> DataFrame:
    """The rows of a logical plan."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    java = java_classes(spark.sparkContext._gateway)
    return ClassicDataFrame(java.named(_DATASET).ofRows(spark._jsparkSession, plan), spark)


def as_column(expression: Any) -> Column:
    """An expression that the analyzer has resolved, as a column of the same DataFrame."""
    from pyspark import SparkContext
    from pyspark.sql.classic.column import Column as ClassicColumn

    context = SparkContext._active_spark_context
    assert context is not None
    utils = java_classes(context._gateway).named("org.apache.spark.sql.classic.ExpressionUtils")
    return ClassicColumn(utils.column(expression))


def unnamed(expression: Any) -> Any:
    """An expression without its alias."""
    return expression.child() if kind(expression) == "Alias" else expression


def plain_key(key: Any) -> Any:
    """The key of a join or a window without what Spark wraps around floats."""
    while kind(key) in _NORMALISING:
        key = key.child()
    return key


def join_kind(join_type: Any) -> JoinKind | None:
    """None for a kind of join that hosts do not have."""
    return _JOINS.get(str(join_type.toString()))


def words_of(expression: Any) -> str:
    """An expression as people write it."""
    try:
        return str(expression.sql())
    except Exception:  # some have no SQL
        return kind(expression)


def kind(expression: Any) -> str:
    """The class of an expression or plan, by its short name."""
    return str(static_method(expression, "org.apache.commons.lang3.ClassUtils", "getSimpleName")(expression))


def scala_list(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.length())]
