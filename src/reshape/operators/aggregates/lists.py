"""Aggregates that need all values of a group: collect_list, median and percentile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.kernels.codes import sorted_segments
from reshape.operators.aggregates.base import AggregateLogic, Groups, as_doubles, nullable, present, unsupported
from reshape.operators.aggregates.description import Aggregate, OfColumn, SparkCall
from reshape.operators.aggregates.registry import spark_function


@spark_function("CollectList", "collect_list")
@dataclass(frozen=True, slots=True)
class CollectList(OfColumn):
    """All values that are not null, in no particular order."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return CollectListLogic(fields[0])


@spark_function("Median", "median")
@dataclass(frozen=True, slots=True)
class Median(OfColumn):
    """percentile(column, 0.5)."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return PercentileLogic(fields[0], (0.5,), as_list=False)


@spark_function("Percentile", "percentile")
@dataclass(frozen=True, slots=True)
class Percentile(OfColumn):
    """Exact, interpolated between the two nearest values. `as_list`: Spark's form with an array of percentages."""

    percentages: tuple[float, ...]
    as_list: bool = False

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (cls("result", 1, (0.25,)), cls("result", 1, (0.0, 0.9), as_list=True))

    def __post_init__(self) -> None:
        if not all(0.0 <= share <= 1.0 for share in self.percentages):
            raise ValueError(f"percentages of {self.name!r} must be between 0 and 1, got {self.percentages}")
        if not self.as_list and len(self.percentages) != 1:
            raise ValueError(f"{self.name!r} has {len(self.percentages)} percentages, which only a list can hold")

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return PercentileLogic(fields[0], self.percentages, self.as_list)

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        if str(call.function.frequencyExpression().sql()) not in ("1", "1L"):
            raise call.refused("percentile cannot weigh values by a frequency")
        if bool(call.function.reverse()):
            raise call.refused("use percentile(column, 1 - percentage)")
        shares = call.function.percentageExpression().eval(None)
        as_list = not isinstance(shares, float | int)
        percentages = tuple(float(share) for share in shares.toDoubleArray()) if as_list else (float(shares),)
        return cls(call.name, call.column(), percentages, as_list)


def lists_of(values: pa.Array, groups: Groups, kind: pa.DataType) -> pa.Array:
    """The values of each group as a list. Large lists: a partition may have more than 2**31 values."""
    offsets = np.zeros(groups.count + 1, dtype=np.int64)
    np.cumsum(groups.sizes, out=offsets[1:])
    return pa.LargeListArray.from_arrays(
        pa.array(offsets), values.take(pa.array(groups.order)), type=pa.large_list(kind)
    )


def flattened(lists: pa.Array, groups: Groups) -> tuple[pa.Array, Groups]:
    """The values of all lists, each in the group of its list."""
    lengths = pc.list_value_length(lists).to_numpy()
    return lists.flatten(), Groups(np.repeat(groups.codes, lengths), groups.count)


def spark_list(kind: pa.DataType) -> pa.DataType:
    """Spark's array type for values that are never null."""
    return pa.list_(pa.field("element", kind, nullable=False))


class CollectListLogic(AggregateLogic):
    """All values that are not null."""

    algebraic: ClassVar[bool] = False
    merging_shrinks: ClassVar[bool] = False
    nullable: ClassVar[bool] = False

    def __init__(self, field: pa.Field) -> None:
        self._kind = field.type
        self.state_types = (pa.large_list(field.type),)
        self.output_type = spark_list(field.type)

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [lists_of(*present(columns[0], groups), self._kind)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [lists_of(*flattened(states[0], groups), self._kind)]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        lists = states[0]
        offsets = np.zeros(len(lists) + 1, dtype=np.int32)
        np.cumsum(pc.list_value_length(lists).to_numpy(), out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), lists.flatten(), type=self.output_type)


class PercentileLogic(AggregateLogic):
    """Spark's `percentile`: exact, linear between the two nearest values, a double whatever the input is."""

    algebraic: ClassVar[bool] = False
    merging_shrinks: ClassVar[bool] = False

    def __init__(self, field: pa.Field, percentages: Sequence[float], as_list: bool) -> None:
        if not (pat.is_integer(field.type) or pat.is_floating(field.type) or pat.is_decimal(field.type)):
            raise unsupported("percentile", field)
        self._percentages = percentages
        self._as_list = as_list
        self.state_types = (pa.large_list(pa.float64()),)
        self.output_type = spark_list(pa.float64()) if as_list else pa.float64()

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, groups = present(columns[0], groups)
        return [lists_of(pa.array(as_doubles(values)), groups, pa.float64())]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [lists_of(*flattened(states[0], groups), pa.float64())]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        lengths = pc.list_value_length(states[0]).to_numpy()
        values = states[0].flatten().to_numpy(zero_copy_only=False)
        ordered = sorted_segments(values, lengths)
        starts = np.cumsum(lengths) - lengths
        absent = lengths == 0
        found = [self._interpolated(ordered, starts, lengths, absent, share) for share in self._percentages]
        if not self._as_list:
            return nullable(found[0], absent, pa.float64())
        flat = np.stack(found, axis=1)[~absent].reshape(-1)
        offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
        np.cumsum(~absent * len(found), out=offsets[1:])
        mask = pa.array(absent) if absent.any() else None
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat), type=self.output_type, mask=mask)

    @staticmethod
    def _interpolated(
        ordered: npt.NDArray[np.float64],
        starts: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        absent: npt.NDArray[np.bool_],
        share: float,
    ) -> npt.NDArray[np.float64]:
        result = np.zeros(len(starts))
        some = ~absent
        position = (lengths[some] - 1) * share
        lower, higher = np.floor(position), np.ceil(position)
        below = ordered[starts[some] + lower.astype(np.int64)]
        above = ordered[starts[some] + higher.astype(np.int64)]
        with np.errstate(invalid="ignore"):
            between = (higher - position) * below + (position - lower) * above
        # On a value both weights are zero, and between equal values the sum would round.
        result[some] = np.where((lower == higher) | (below == above), below, between)
        return result
