"""PySpark's own columns, understood by Spark's own analyzer.

An expression is applied to an empty DataFrame of the right schema; what the analyzer makes of it says which column and
which function is meant, so names, aliases and types follow Spark's rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reshape.errors import ReshapeError
from reshape.plan import aggregates as agg
from reshape.plan.ordering import Ordering, SortKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BY_COLUMN: dict[str, Any] = {
    "Sum": agg.Sum,
    "Min": agg.Min,
    "Max": agg.Max,
    "Average": agg.Mean,
    "VarianceSamp": agg.VarSamp,
    "VariancePop": agg.VarPop,
    "StddevSamp": agg.StddevSamp,
    "StddevPop": agg.StddevPop,
    "Median": agg.Median,
    "CollectList": agg.CollectList,
}

SUPPORTED = (
    "count, countDistinct, sum, min, max, mean (avg), variance, var_samp, var_pop, stddev, stddev_samp, stddev_pop, "
    "median, percentile, collect_list, first"
)


class NotSupported(ReshapeError):
    """An expression that a flow cannot run, with what it can."""

    def __init__(self, what: str, expression: str, instead: str) -> None:
        super().__init__(what, expression, instead)
        self.what = what
        self.expression = expression
        self.instead = instead

    def __str__(self) -> str:
        return f"{self.what} cannot use {self.expression}; {self.instead}"


def resolve_aggregates(empty: DataFrame, keys: Sequence[Any], expressions: Sequence[Any]) -> tuple[agg.Aggregate, ...]:
    """The aggregates of ``groupBy(*keys).agg(*expressions)`` on a DataFrame like this one."""
    grouped = empty.groupBy(*keys)
    result = grouped.agg(*expressions)
    plan = result._jdf.queryExecution().analyzed()
    columns = list(empty.columns)
    made = []
    listed = _sequence(plan.aggregateExpressions())
    for expression in listed[len(keys) :]:
        made.append(_aggregate(expression, columns))
    return tuple(made)


def resolve_ordering(empty: DataFrame, columns: Sequence[Any], **options: Any) -> Ordering:
    """The ordering of ``orderBy(*columns)`` on a DataFrame like this one."""
    plan = empty.orderBy(*columns, **options)._jdf.queryExecution().analyzed()
    keys = []
    for order in _sequence(plan.order()):
        number = _column(order.child(), list(empty.columns), "orderBy")
        ascending = str(order.direction().sql()) == "ASC"
        keys.append(SortKey(number, ascending, str(order.nullOrdering().sql()) == "NULLS FIRST"))
    return Ordering(tuple(keys))


def resolve_keys(empty: DataFrame, keys: Sequence[Any]) -> tuple[int, ...]:
    """Column numbers of grouping keys."""
    plan = empty.groupBy(*keys).count()._jdf.queryExecution().analyzed()
    return tuple(_column(key, list(empty.columns), "groupBy") for key in _sequence(plan.groupingExpressions()))


def _aggregate(expression: Any, columns: list[str]) -> agg.Aggregate:
    name = expression.name()
    child = expression.child() if _kind(expression) == "Alias" else expression
    if _kind(child) != "AggregateExpression":
        raise NotSupported("agg", child.sql(), f"each expression must be one of {SUPPORTED}, with an alias if you like")
    function = child.aggregateFunction()
    kind = _kind(function)
    inputs = _sequence(function.children())
    if child.filter().isDefined():
        raise NotSupported("agg", child.sql(), "filter the DataFrame before")
    if child.isDistinct() and kind != "Count":
        raise NotSupported("agg", child.sql(), "only count takes distinct values")
    if kind == "Count":
        if child.isDistinct():
            return agg.CountDistinct(name, tuple(_column(column, columns, "agg") for column in inputs))
        if len(inputs) == 1 and _kind(inputs[0]) == "Literal":
            return agg.CountAll(name)
        return agg.Count(name, _only(inputs, columns))
    if kind == "First":
        return agg.First(name, _column(inputs[0], columns, "agg"), bool(function.ignoreNulls()))
    if kind == "Percentile":
        share = function.percentageExpression().eval(None)
        if not isinstance(share, float | int):
            raise NotSupported("agg", child.sql(), "ask for one percentage at a time")
        return agg.Percentile(name, _column(inputs[0], columns, "agg"), (float(share),))
    if kind in _BY_COLUMN:
        made: agg.Aggregate = _BY_COLUMN[kind](name, _column(inputs[0], columns, "agg"))
        return made
    raise NotSupported("agg", child.sql(), f"it can use {SUPPORTED}")


def _only(inputs: Sequence[Any], columns: list[str]) -> int:
    if len(inputs) != 1:
        raise NotSupported("agg", "count of several columns", "count one column, or use countDistinct")
    return _column(inputs[0], columns, "agg")


def _column(expression: Any, columns: list[str], what: str) -> int:
    if _kind(expression) == "Alias":
        expression = expression.child()
    if _kind(expression) != "AttributeReference":
        raise NotSupported(
            what,
            expression.sql(),
            "use a plain column; compute it in the DataFrame that the flow reads, or by mapInArrow",
        )
    return columns.index(expression.name())


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def _sequence(seq: Any) -> list[Any]:
    return [seq.apply(index) for index in range(seq.length())]
