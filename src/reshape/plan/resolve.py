"""PySpark's own columns, as keys, aggregates and orderings of operators. Names and types follow Spark's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reshape.errors import FlowError
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.aggregates.description import Aggregate
from reshape.operators.aggregates.registry import aggregate_of, registered, supported
from reshape.operators.aggregates.user_defined import UserAggregate, UserDefined
from reshape.plan.analysis import Input, NotSupported, as_column, kind, named_expressions, scala_list, unnamed
from reshape.plan.group_functions import python_aggregate
from reshape.plan.types import unused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData

__all__ = ["NotSupported", "ResolvedGrouping", "ResolvedOrdering", "UserColumn", "resolve_grouping", "resolve_ordering"]

_NUMBERS = ("ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DecimalType")


@dataclass(frozen=True)
class UserColumn:
    """A user's own aggregate of some columns, beside PySpark's in ``agg``."""

    function: UserAggregate
    columns: tuple[Any, ...]
    name: str

    def alias(self, name: str) -> UserColumn:
        return replace(self, name=name)


@dataclass(frozen=True)
class ResolvedGrouping:
    """Keys and aggregates by column number. ``projection`` is what Spark selects in the source, None for all."""

    keys: tuple[int, ...]
    key_names: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    projection: tuple[tuple[Column, str], ...] | None
    texts: tuple[str, ...] = ()  # the projection, for people


@dataclass(frozen=True)
class ResolvedOrdering:
    """``hidden`` are columns that Spark adds in the source; they order the rows and do not appear."""

    ordering: Ordering
    hidden: tuple[tuple[Column, str], ...] = ()
    texts: tuple[str, ...] = ()


class _Columns:
    """Numbers the columns that an operator needs; for a source these and no others are selected."""

    def __init__(self, source: Input, what: str) -> None:
        self._source = source
        self.what = what
        self.chosen: list[tuple[Any, str]] = []

    @property
    def df(self) -> DataFrame:
        return self._source.df

    def key(self, expression: Any, name: str) -> int:
        """A column of the result, under this name."""
        if not self._source.computes:
            return self.plain(expression)
        self._check(expression)
        self.chosen.append((expression, name))
        return len(self.chosen) - 1

    def input(self, expression: Any) -> int:
        """A column that an aggregate reads; one that is there already is not sent twice."""
        if not self._source.computes:
            return self.plain(expression)
        self._check(expression)
        for number, (known, _) in enumerate(self.chosen):
            if known.semanticEquals(expression):
                return number
        name = str(expression.name() if kind(expression) == "AttributeReference" else expression.sql())
        self.chosen.append((expression, unused(name, [known for _, known in self.chosen])))
        return len(self.chosen) - 1

    def _check(self, expression: Any) -> None:
        if not self._source.covers(expression):
            raise NotSupported(
                self.what, expression.sql(), "it changes rows as well; compute it in the DataFrame that the flow reads"
            )

    def plain(self, expression: Any) -> int:
        number = self._source.number(unnamed(expression))
        if number is None:
            raise self._source.refuse(self.what, expression)
        return number


def resolve_grouping(
    source: Input,
    keys: Sequence[Any],
    ask: Callable[[GroupedData], DataFrame],
    users: Sequence[tuple[int, UserColumn]] = (),
) -> ResolvedGrouping:
    """What ``ask`` makes of ``groupBy(*keys)``. User columns come in at their places among the aggregates."""
    if source.df.sparkSession.conf.get("spark.sql.retainGroupColumns") != "true":
        raise FlowError("groupBy: flows show the keys of groups; set spark.sql.retainGroupColumns to true")
    plan = source.ask("groupBy and agg", lambda df: ask(df.groupBy(*keys)))
    if kind(plan) != "Aggregate":
        raise NotSupported("agg", "these expressions", f"it can use {supported()}")
    grouping, listed = scala_list(plan.groupingExpressions()), scala_list(plan.aggregateExpressions())
    names = tuple(str(named.name()) for named in listed[: len(grouping)])
    columns = _Columns(source, "groupBy")
    numbers = tuple(columns.key(unnamed(named), name) for named, name in zip(listed, names, strict=False))
    columns.what = "agg"
    made = [_aggregate(expression, columns) for expression in listed[len(grouping) :]]
    for place, user in users:
        made.insert(place, _user_aggregate(source, user, columns))
    if not source.computes:
        return ResolvedGrouping(numbers, names, tuple(made), None)
    projection = tuple((as_column(expression), name) for expression, name in columns.chosen)
    texts = tuple(_shown(expression, name) for expression, name in columns.chosen)
    return ResolvedGrouping(numbers, names, tuple(made), projection, texts)


def resolve_ordering(source: Input, columns: Sequence[Any], **options: Any) -> ResolvedOrdering:
    """The ordering of ``orderBy(*columns)``."""
    plan = source.ask("orderBy", lambda df: df.orderBy(*columns, **options))
    if kind(plan) != "Sort":
        raise NotSupported(
            "orderBy",
            ", ".join(map(str, columns)),
            f"use columns that are in the flow, or expressions of them: {', '.join(source.columns)}",
        )
    keys: list[SortKey] = []
    hidden: list[tuple[Column, str]] = []
    texts: list[str] = []
    for order in scala_list(plan.order()):
        number = source.number(order.child())
        if number is None:
            if not source.computes:
                raise source.refuse("orderBy", order.child())
            number = len(source.columns) + len(hidden)
            name = unused(str(order.child().sql()), [*source.columns, *(known for _, known in hidden)])
            hidden.append((as_column(order.child()), name))
            texts.append(_shown(order.child(), name))
        ascending = str(order.direction().sql()) == "ASC"
        keys.append(SortKey(number, ascending, str(order.nullOrdering().sql()) == "NULLS FIRST"))
    return ResolvedOrdering(Ordering(tuple(keys)), tuple(hidden), tuple(texts))


def user_column(function: Any, columns: Sequence[Any]) -> UserColumn:
    """Checks that the object is an aggregate."""
    wanted = ("state_type", "output_type", "init", "update", "merge", "finish")
    missing = [name for name in wanted if not hasattr(function, name)]
    if missing:
        raise FlowError(
            f"aggregate: {type(function).__name__} has no {', '.join(missing)}; an aggregate has init(), update(state, "
            "rows), merge(state, other), finish(state) and the Arrow types state_type and output_type"
        )
    if not columns:
        raise FlowError(f"aggregate: name at least one column for {type(function).__name__}")
    shown = ", ".join(column if isinstance(column, str) else str(column)[8:-2] for column in columns)
    return UserColumn(function, tuple(columns), f"{type(function).__name__}({shown})")


def _user_aggregate(source: Input, user: UserColumn, columns: _Columns) -> UserDefined:
    named = named_expressions(source, "aggregate", user.columns)
    numbers = tuple(columns.input(unnamed(expression)) for expression in named)
    return UserDefined(user.name, numbers, user.function, tuple(str(expression.name()) for expression in named))


@dataclass(frozen=True)
class _Call:
    """A `SparkCall` of one aggregate expression."""

    name: str
    expression: Any
    function: Any
    columns: _Columns

    @property
    def distinct(self) -> bool:
        return bool(self.expression.isDistinct())

    @cached_property
    def inputs(self) -> list[Any]:
        return scala_list(self.function.children())

    @property
    def arguments(self) -> int:
        return len(self.inputs)

    def column(self, argument: int = 0, *, uncast: bool = False) -> int:
        expression = self.inputs[argument]
        if kind(expression) == "SortOrder":
            expression = expression.child()
        return self.columns.input(_uncast(expression) if uncast else expression)

    def condition(self) -> int | None:
        found = self.expression.filter()
        return self.columns.input(found.get()) if found.isDefined() else None

    def is_constant(self, argument: int = 0) -> bool:
        return kind(self.inputs[argument]) == "Literal" and self.inputs[argument].value() is not None

    def refused(self, instead: str) -> NotSupported:
        return NotSupported("agg", self.expression.sql(), instead)


def _aggregate(expression: Any, columns: _Columns) -> Aggregate:
    child = unnamed(expression)
    if kind(child) != "AggregateExpression":
        instead = f"each expression must be one of {supported()}, with an alias if you like"
        raise NotSupported("agg", child.sql(), instead)
    function = child.aggregateFunction()
    if kind(function) not in registered() and "replacement" in dir(function):
        function = function.replacement()  # what Spark's optimizer puts in its place: a min for bool_and
    call = _Call(str(expression.name()), child, function, columns)
    if kind(function) == "PythonUDAF":
        return python_aggregate(call, columns.df)
    aggregate = aggregate_of(kind(function), call)
    if aggregate is None:
        raise call.refused(f"it can use {supported()}")
    return aggregate


def _uncast(expression: Any) -> Any:
    """A number without its cast to double."""
    if kind(expression) != "Cast" or str(expression.dataType().typeName()) != "double":
        return expression
    inner = expression.child()
    return inner if kind(inner.dataType()).removesuffix("$") in _NUMBERS else expression


def _shown(expression: Any, name: str) -> str:
    text = str(expression.name() if kind(expression) == "AttributeReference" else expression.sql())
    return name if text == name else f"{text} AS {name}"
