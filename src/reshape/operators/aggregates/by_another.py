"""max_by and min_by: the value of one column where another one has its largest or smallest value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from reshape.kernels.hashing import validity
from reshape.kernels.keys import comparable
from reshape.kernels.ordering import Ordering, SortKey
from reshape.kernels.sort_keys import sorted_order
from reshape.operators.aggregates.base import AggregateLogic, Groups, unsupported
from reshape.operators.aggregates.best_rows import best_rows
from reshape.operators.aggregates.description import Aggregate, OfColumns, SparkCall
from reshape.operators.aggregates.list_states import lengths_of, listed, shown_lists, spark_list, spread_over
from reshape.operators.aggregates.registry import spark_function

# So many rows of a group are still a small state.
_FEW = 64


@spark_function("MaxBy")
@dataclass(frozen=True, slots=True)
class MaxBy(OfColumns):
    """The first column where the second, which must not be null, is largest; of several such rows any."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return ByAnotherLogic(fields, "max_by", largest=True)


@spark_function("MinBy")
@dataclass(frozen=True, slots=True)
class MinBy(OfColumns):
    """The first column where the second, which must not be null, is smallest; of several such rows any."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return ByAnotherLogic(fields, "min_by", largest=False)


@spark_function("MaxMinByK")
@dataclass(frozen=True, slots=True)
class BestBy(OfColumns):
    """The first column of the `most` rows where the second is largest (or smallest), the best first, as a list."""

    most: int
    largest: bool

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (cls("result", (1, 0), 3, largest=True), cls("result", (1, 0), 2, largest=False))

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        function = call.function
        return cls(call.name, (call.column(0), call.column(1)), int(function.k()), largest=not function.reverse())

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return BestByLogic(fields, self)

    def text(self, names: Sequence[str]) -> str:
        return f"{'max_by' if self.largest else 'min_by'}({', '.join(names)}, {self.most})"


class ByAnotherLogic(AggregateLogic):
    """Keeps the best row of each group: the value, and what it was chosen by (null: there is no row)."""

    def __init__(self, fields: Sequence[pa.Field], name: str, *, largest: bool) -> None:
        _check_order(fields[1], name)
        self._largest = largest
        self.state_types = tuple(field.type for field in fields)
        self.output_type = fields[0].type

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        value, by, groups = _ranked(columns, groups)
        rows = best_rows(by, groups, largest=self._largest)
        chosen = pa.array(rows, mask=rows < 0)
        return [value.take(chosen), by.take(chosen)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self.update(states, groups)

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[0]


class BestByLogic(AggregateLogic):
    """Keeps the best rows of each group, in order."""

    def __init__(self, fields: Sequence[pa.Field], of: BestBy) -> None:
        _check_order(fields[1], "max_by" if of.largest else "min_by")
        self._most = of.most
        self.algebraic = of.most <= _FEW
        self._order = SortKey(1, ascending=not of.largest)
        self._kinds = [field.type for field in fields]
        self.state_types = tuple(pa.large_list(kind) for kind in self._kinds)
        self.output_type = spark_list(self._kinds[0], nulls=True)

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        value, by, groups = _ranked(columns, groups)
        order = sorted_order([pa.array(groups.codes), by], Ordering((SortKey(0), self._order)))
        starts = np.cumsum(groups.sizes) - groups.sizes
        place = np.arange(len(order)) - np.repeat(starts, groups.sizes)
        chosen = pa.array(order[place < self._most])
        kept = np.minimum(groups.sizes, self._most)
        return [listed(column.take(chosen), kept, kind) for column, kind in zip((value, by), self._kinds, strict=True)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self.update(*spread_over(states, groups))

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        sizes = lengths_of(states[0])
        return shown_lists(states[0].flatten(), sizes, self.output_type, sizes == 0)


def _check_order(field: pa.Field, name: str) -> None:
    if not comparable(field.type):
        raise unsupported(name, field)


def _ranked(columns: Sequence[pa.Array], groups: Groups) -> tuple[pa.Array, pa.Array, Groups]:
    """The rows that have something to be ranked by."""
    value, by = columns
    valid = validity(by)
    if valid is None:
        return value, by, groups
    mask = pa.array(valid)
    return value.filter(mask), by.filter(mask), groups.only(valid)
