"""An aggregate of some rows of each group: sum(v) FILTER (WHERE condition)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa

from reshape.operators.aggregates.base import AggregateLogic, Groups
from reshape.operators.aggregates.description import Aggregate


@dataclass(frozen=True, slots=True)
class Filtered(Aggregate):
    """Any aggregate, of the rows where a boolean column is true. Groups without such a row are there all the same."""

    of: Aggregate
    condition: int

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        from reshape.operators.aggregates.sums import Sum

        return (cls("result", Sum("result", 1), 2),)

    @property
    def reads(self) -> tuple[int, ...]:
        return (*self.of.reads, self.condition)

    def renumbered(self, number: Callable[[int], int]) -> Self:
        return replace(self, of=self.of.renumbered(number), condition=number(self.condition))

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return FilteredLogic(self.of.logic(fields[:-1]))

    def text(self, names: Sequence[str]) -> str:
        return f"{self.of.text(names[:-1])} filter (where {names[-1]})"


class FilteredLogic(AggregateLogic):
    """Leaves rows out before another aggregate gets them; the last column says which."""

    def __init__(self, of: AggregateLogic) -> None:
        self._of = of
        self.algebraic = of.algebraic
        self.merging_shrinks = of.merging_shrinks
        self.nullable = of.nullable
        self.state_types = of.state_types
        self.output_type = of.output_type

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        *values, condition = columns
        chosen = condition.fill_null(False) if condition.null_count else condition
        mask = np.asarray(chosen.to_numpy(zero_copy_only=False), dtype=np.bool_)
        return self._of.update([value.filter(chosen) for value in values], groups.only(mask))

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self._of.merge(states, groups)

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        return self._of.finish(states)
