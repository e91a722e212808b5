"""Spark's plans and expressions, as the JVM gateway shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reshape.errors import ReshapeError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
