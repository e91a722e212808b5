"""Aggregates that need all values of a group: collect_list, collect_set, median and percentile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from reshape.kernels.codes import sorted_segments
from reshape.kernels.columns import Indices
from reshape.kernels.ordering import Ordering, SortKey
from reshape.kernels.sort_keys import sorted_order
from reshape.operators.aggregates.base import (
    OPERATOR,
    AggregateLogic,
    Groups,
    as_doubles,
    complete,
    nullable,
    present,
    unsupported,
)
from reshape.operators.aggregates.description import Aggregate, OfColumn, SparkCall
from reshape.operators.aggregates.distinct import DistinctLogic
from reshape.operators.aggregates.list_states import (
    each_alone,
    flattened,
    lengths_of,
    lists_of,
    shown_lists,
    spark_list,
    spread_over,
)
from reshape.operators.aggregates.registry import spark_function
from reshape.operators.errors import NegativeFrequency

Doubles = npt.NDArray[np.float64]


@spark_function("CollectList")
@dataclass(frozen=True, slots=True)
class CollectList(OfColumn):
    """All values, or all that are not null, in no particular order."""

    ignore_nulls: bool = True

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (cls("result", 1), cls("result", 1, ignore_nulls=False))

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        return cls(call.name, call.column(), bool(call.function.ignoreNulls()))

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return CollectListLogic(fields[0], self.ignore_nulls)


@spark_function("CollectSet")
@dataclass(frozen=True, slots=True)
class CollectSet(CollectList):
    """The different values, in no particular order."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return DistinctLogic(fields, CollectListLogic(fields[0], self.ignore_nulls))


@spark_function("Median")
@dataclass(frozen=True, slots=True)
class Median(OfColumn):
    """percentile(column, 0.5)."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return PercentileLogic(fields, Percentile(self.name, self.column, (0.5,)))


@spark_function("Percentile")
@dataclass(frozen=True, slots=True)
class Percentile(OfColumn):
    """Exact, interpolated between the two nearest values. `as_list`: Spark's form with an array of percentages.
    `reverse`: counted from the largest value. `frequency`: a column that says how often each value counts."""

    percentages: tuple[float, ...]
    as_list: bool = False
    reverse: bool = False
    frequency: int | None = None

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (
            cls("result", 1, (0.25,)),
            cls("result", 1, (0.0, 0.9), as_list=True, reverse=True),
            cls("result", 1, (0.3,), frequency=0),
        )

    def __post_init__(self) -> None:
        if not all(0.0 <= share <= 1.0 for share in self.percentages):
            raise ValueError(f"percentages of {self.name!r} must be between 0 and 1, got {self.percentages}")
        if not self.as_list and len(self.percentages) != 1:
            raise ValueError(f"{self.name!r} has {len(self.percentages)} percentages, which only a list can hold")

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.column,) if self.frequency is None else (self.column, self.frequency)

    def renumbered(self, number: Callable[[int], int]) -> Self:
        frequency = None if self.frequency is None else number(self.frequency)
        return replace(self, column=number(self.column), frequency=frequency)

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return PercentileLogic(fields, self)

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        percentages, as_list = percentages_of(call)
        every_row = str(call.function.frequencyExpression().sql()) in ("1", "1L")
        frequency = None if every_row else call.column(2)
        return cls(call.name, call.column(), percentages, as_list, bool(call.function.reverse()), frequency)

    @staticmethod
    def place(count: Doubles, share: float) -> Doubles:
        """Where the percentile lies among so many values in order, the first at 0."""
        position: Doubles = (count - 1) * share
        return position


@spark_function("PercentileDisc")
@dataclass(frozen=True, slots=True)
class PercentileDisc(Percentile):
    """The first value that so many of the values do not exceed."""

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        if bool(call.function.legacyCalculation()):
            raise call.refused("set spark.sql.legacy.percentileDiscCalculation to false")
        percentages, as_list = percentages_of(call)
        return cls(call.name, call.column(), percentages, as_list, bool(call.function.reverse()))

    @staticmethod
    def place(count: Doubles, share: float) -> Doubles:
        position: Doubles = np.maximum(np.ceil(count * share) - 1, 0)
        return position


def percentages_of(call: SparkCall) -> tuple[tuple[float, ...], bool]:
    """The percentages of a call, and whether they were given as an array."""
    expression = call.function.percentageExpression()
    shares = expression.eval(None)
    if str(expression.dataType().typeName()) != "array":
        return (float(str(shares)),), False
    kind = expression.dataType().elementType()
    return tuple(float(str(share)) for share in shares.toObjectArray(kind)), True


class CollectListLogic(AggregateLogic):
    """All values that are not null, or all there are."""

    algebraic: bool = False
    merging_shrinks: bool = False
    nullable: bool = False

    def __init__(self, field: pa.Field, ignore_nulls: bool) -> None:
        self._kind = field.type
        self._ignore_nulls = ignore_nulls
        self.state_types = (pa.large_list(field.type),)
        self.output_type = spark_list(field.type, nulls=not ignore_nulls and field.nullable)

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values = columns[0]
        if self._ignore_nulls:
            values, groups = present(values, groups)
        return [lists_of(values, groups, self._kind)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [lists_of(*flattened(states[0], groups), self._kind)]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        return shown_lists(states[0].flatten(), lengths_of(states[0]), self.output_type)


class PercentileLogic(AggregateLogic):
    """Spark's `percentile`: exact, linear between the two nearest values, a double whatever the input is."""

    algebraic: bool = False
    merging_shrinks: bool = False

    def __init__(self, fields: Sequence[pa.Field], of: Percentile) -> None:
        kind = fields[0].type
        if not (pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind)):
            raise unsupported("percentile", fields[0])
        if len(fields) > 1 and not pat.is_integer(fields[1].type):
            raise unsupported("percentile with a frequency", fields[1])
        self._of = of
        self._frequency = fields[1].name if len(fields) > 1 else None
        self._kinds = [pa.float64(), pa.int64()][: len(fields)]
        self.state_types = tuple(pa.large_list(kind) for kind in self._kinds)
        self.output_type = spark_list(pa.float64()) if of.as_list else pa.float64()

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        columns, groups = complete(columns, groups)
        columns[0] = pa.array(as_doubles(columns[0]))
        if self._frequency is not None:
            weights = columns[1].cast(pa.int64()).to_numpy()
            if (weights < 0).any():
                raise NegativeFrequency(OPERATOR, self._frequency, int(weights.min()))
            some = weights > 0
            columns = [columns[0].filter(pa.array(some)), pa.array(weights[some])]
            groups = groups.only(some)
        return self._lists(columns, groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self._lists(*spread_over(states, groups))

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        ordered = Weighed(states) if self._frequency is not None else Ordered(states)
        absent = (ordered.counts == 0) | (len(self._of.percentages) == 0)
        found = [self._found(ordered, absent, share) for share in self._of.percentages]
        if not self._of.as_list:
            return nullable(found[0], absent, pa.float64())
        flat = np.stack(found, axis=1)[~absent].reshape(-1) if found else np.zeros(0)
        return shown_lists(pa.array(flat), ~absent * len(found), self.output_type, absent)

    def _lists(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [lists_of(column, groups, kind) for column, kind in zip(columns, self._kinds, strict=True)]

    def _found(self, ordered: Ordered, absent: npt.NDArray[np.bool_], share: float) -> Doubles:
        result = np.zeros(len(absent))
        some = np.flatnonzero(~absent)
        counts = ordered.counts[some]
        position = self._of.place(counts.astype(np.float64), share)
        lower, higher = np.floor(position), np.ceil(position)
        below, above = (
            ordered.at(some, counts - 1 - index if self._of.reverse else index)
            for index in (lower.astype(np.int64), higher.astype(np.int64))
        )
        with np.errstate(invalid="ignore"):
            between = (higher - position) * below + (position - lower) * above
        # On a value both weights are zero, and between equal values the sum would round.
        result[some] = np.where((lower == higher) | (below == above), below, between)
        return result


class Ordered:
    """The values of each group in order, and how many they are."""

    def __init__(self, states: Sequence[pa.Array]) -> None:
        self.counts = lengths_of(states[0])
        self._starts = np.cumsum(self.counts) - self.counts
        self._values = sorted_segments(states[0].flatten().to_numpy(zero_copy_only=False), self.counts)

    def at(self, groups: Indices, places: Indices) -> Doubles:
        """The value at a place of each of these groups."""
        found: Doubles = self._values[self._starts[groups] + places]
        return found


class Weighed(Ordered):
    """The same where a value stands for as many as its weight says."""

    def __init__(self, states: Sequence[pa.Array]) -> None:
        (values, weights), groups = spread_over(states, each_alone(states[0]))
        order = sorted_order([pa.array(groups.codes), values], Ordering((SortKey(0), SortKey(1))))
        self._values = values.to_numpy()[order]
        self._ends = np.cumsum(weights.to_numpy()[order])
        ends = np.concatenate([[0], self._ends])[np.cumsum(groups.sizes)]
        self.counts = np.diff(ends, prepend=0)
        self._starts = ends - self.counts

    def at(self, groups: Indices, places: Indices) -> Doubles:
        found: Doubles = self._values[np.searchsorted(self._ends, self._starts[groups] + places, side="right")]
        return found
