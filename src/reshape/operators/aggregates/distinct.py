"""An aggregate of the different values alone: sum(distinct v), count(distinct a, b)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa

from reshape.kernels.codes import different_pairs
from reshape.kernels.keys import KeyColumns, check_keys, normalised
from reshape.operators.aggregates.base import OPERATOR, AggregateLogic, Groups
from reshape.operators.aggregates.description import Aggregate
from reshape.operators.aggregates.list_states import each_alone, flattened, listed


@dataclass(frozen=True, slots=True)
class Distinct(Aggregate):
    """Any aggregate, of the different rows of the columns that it reads."""

    of: Aggregate

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        from reshape.operators.aggregates.sums import Sum

        return (cls("result", Sum("result", 1)),)

    @property
    def reads(self) -> tuple[int, ...]:
        return self.of.reads

    def renumbered(self, number: Callable[[int], int]) -> Self:
        return replace(self, of=self.of.renumbered(number))

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return DistinctLogic(fields, self.of.logic(fields))

    def text(self, names: Sequence[str]) -> str:
        return self.of.text(names).replace("(", "(distinct ", 1)


class DistinctLogic(AggregateLogic):
    """Keeps the different rows of each group; another aggregate makes the value of them."""

    algebraic: bool = False

    def __init__(self, fields: Sequence[pa.Field], of: AggregateLogic) -> None:
        check_keys(f"{OPERATOR}: distinct", pa.schema(fields), range(len(fields)))
        kinds = [pa.field(str(i), field.type) for i, field in enumerate(fields)]
        self._of = of
        self._single = len(fields) == 1
        self._value_type = fields[0].type if self._single else pa.struct(kinds)
        self.nullable = of.nullable
        self.output_type = of.output_type
        self.state_types = (pa.large_list(self._value_type),)

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        columns = [normalised(column) for column in columns]
        rows = columns[0] if self._single else pa.StructArray.from_arrays(columns, fields=list(self._value_type))
        return [self._distinct(rows, groups)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [self._distinct(*flattened(states[0], groups))]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        rows, groups = flattened(states[0], each_alone(states[0]))
        return self._of.finish(self._of.update([rows] if self._single else rows.flatten(), groups))

    def _distinct(self, rows: pa.Array, groups: Groups) -> pa.Array:
        codes, first = KeyColumns([rows], len(rows)).codes()
        group, code = different_pairs(groups.codes, codes, len(first))
        kept = rows.take(pa.array(first[code]))
        return listed(kept, np.bincount(group, minlength=groups.count), self._value_type)
