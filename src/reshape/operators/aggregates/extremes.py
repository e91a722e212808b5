"""min, max, first and last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from reshape.kernels.hashing import validity
from reshape.kernels.keys import comparable
from reshape.operators.aggregates.base import AggregateLogic, Groups, as_doubles, present, unsupported
from reshape.operators.aggregates.best_rows import best_rows
from reshape.operators.aggregates.description import Aggregate, OfColumn, SparkCall
from reshape.operators.aggregates.registry import spark_function

_ALL_BUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@spark_function("Min")
@dataclass(frozen=True, slots=True)
class Min(OfColumn):
    """NaN is greater than all numbers, strings are ordered by their bytes. Of zeros Spark keeps one that it met; which
    of them, where both signs are there, nobody promises."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return ExtremeLogic(fields[0], "min")


@spark_function("Max")
@dataclass(frozen=True, slots=True)
class Max(OfColumn):
    """NaN is greater than all numbers, strings are ordered by their bytes. Of zeros Spark keeps one that it met; which
    of them, where both signs are there, nobody promises."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return ExtremeLogic(fields[0], "max")


@spark_function("First")
@dataclass(frozen=True, slots=True)
class First(OfColumn):
    """The first value (or the first that is not null) that a worker met; which one that is, nobody promises."""

    ignore_nulls: bool = False

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (cls("result", 1), cls("result", 1, ignore_nulls=True))

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return FirstLogic(fields[0], self.ignore_nulls)

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        return cls(call.name, call.column(), bool(call.function.ignoreNulls()))


@spark_function("Last")
@dataclass(frozen=True, slots=True)
class Last(First):
    """The last value (or the last that is not null) that a worker met; which one that is, nobody promises."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return FirstLogic(fields[0], self.ignore_nulls, last=True)


class ExtremeLogic(AggregateLogic):
    """min or max."""

    def __init__(self, field: pa.Field, which: str) -> None:
        kind = field.type
        if not comparable(kind):
            raise unsupported(which, field)
        self._which = which
        self._kind = kind
        self.state_types = (kind,)
        self.output_type = kind

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        array = columns[0]
        if pat.is_null(self._kind):
            return [pa.nulls(groups.count)]
        if pat.is_struct(self._kind):
            values, groups = present(array, groups)
            rows = best_rows(values, groups, largest=self._which == "max")
            return [values.take(pa.array(rows, mask=rows < 0))]
        if pat.is_duration(self._kind):  # Arrow has no such extremes of it
            return [self._extremes(array.cast(pa.int64()), groups).cast(self._kind)]
        if not pat.is_floating(self._kind):
            return [self._extremes(array, groups)]
        values, groups = present(array, groups)
        best = self._extremes(pa.array(_ordered(_bits(values))), groups)
        absent = validity(best)
        floats = _ordered(best.fill_null(0).to_numpy()).view(np.float64)
        return [pa.array(floats, mask=None if absent is None else ~absent).cast(self._kind)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self.update(states, groups)

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[0]

    def _extremes(self, array: pa.Array, groups: Groups) -> pa.Array:
        table = pa.table({"group": pa.array(groups.codes), "value": array})
        found = table.group_by("group", use_threads=False).aggregate([("value", self._which)])
        places = np.full(groups.count, -1, dtype=np.int64)
        places[found["group"].to_numpy()] = np.arange(len(found))
        best = found[f"value_{self._which}"].combine_chunks()
        return best.take(pa.array(places, mask=places < 0)).cast(array.type)


class FirstLogic(AggregateLogic):
    """The first value met (or the last), or the first that is not null."""

    def __init__(self, field: pa.Field, ignore_nulls: bool, *, last: bool = False) -> None:
        self._ignore_nulls = ignore_nulls
        self._last = last
        self.state_types = (field.type, pa.bool_())
        self.output_type = field.type

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        array = columns[0]
        if self._ignore_nulls:
            array, groups = present(array, groups)
        return self._first(array, groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        met = states[1].to_numpy(zero_copy_only=False)
        return self._first(states[0].filter(states[1]), groups.only(met))

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[0]

    def _first(self, array: pa.Array, groups: Groups) -> list[pa.Array]:
        rows = groups.last_rows() if self._last else groups.first_rows()
        return [array.take(pa.array(rows, mask=rows < 0)), pa.array(rows >= 0)]


def _bits(values: pa.Array) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Floats as the bits of doubles; zeros keep their sign, and all NaN are the same, a positive one."""
    doubles = as_doubles(values)
    return np.where(np.isnan(doubles), np.nan, doubles).view(np.int64)


def _ordered(bits: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Doubles as integers of the same order, NaN the greatest; its own inverse."""
    return bits ^ ((bits >> 63) & _ALL_BUT_SIGN)
