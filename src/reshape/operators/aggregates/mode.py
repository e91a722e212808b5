"""mode: the value that a group has most often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices
from reshape.kernels.keys import comparable, normalised
from reshape.operators.aggregates.base import AggregateLogic, Groups, present, unsupported
from reshape.operators.aggregates.best_rows import best_rows
from reshape.operators.aggregates.description import Aggregate, OfColumn, SparkCall
from reshape.operators.aggregates.list_states import each_alone, listed, spread_over, weighed
from reshape.operators.aggregates.registry import spark_function


class Tie(StrEnum):
    """Which of several values that a group has equally often."""

    ANY = "any"
    SMALLEST = "smallest"
    LARGEST = "largest"


@spark_function("Mode")
@dataclass(frozen=True, slots=True)
class Mode(OfColumn):
    """The value that a group has most often; nulls do not count."""

    tie: Tie = Tie.ANY

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return tuple(cls("result", 1, tie) for tie in Tie)

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        reverse = call.function.reverseOpt()
        tie = Tie.ANY if reverse.isEmpty() else (Tie.SMALLEST if reverse.get() else Tie.LARGEST)
        return cls(call.name, call.column(), tie)

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return ModeLogic(fields[0], self.tie)


class ModeLogic(AggregateLogic):
    """Keeps the different values of each group with their counts."""

    algebraic: bool = False

    def __init__(self, field: pa.Field, tie: Tie) -> None:
        if not comparable(field.type):
            raise unsupported("mode", field)
        self._tie = tie
        self._kind = field.type
        self.state_types = (pa.large_list(field.type), pa.large_list(pa.int64()))
        self.output_type = field.type

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, groups = present(columns[0], groups)
        return self._counted(normalised(values), np.ones(len(values), dtype=np.int64), groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        (values, counts), groups = spread_over(states, groups)
        return self._counted(values, counts.to_numpy(), groups)

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        (values, counts), groups = spread_over(states, each_alone(states[0]))
        numbers = counts.to_numpy()
        most = np.zeros(groups.count, dtype=np.int64)
        np.maximum.at(most, groups.codes, numbers)
        among = np.flatnonzero(numbers == most[groups.codes])
        values, groups = values.take(pa.array(among)), groups.only(among)
        if self._tie == Tie.ANY:
            rows = groups.first_rows()
        else:
            rows = best_rows(values, groups, largest=self._tie == Tie.LARGEST)
        return values.take(pa.array(rows, mask=rows < 0))

    def _counted(self, values: pa.Array, counts: Indices, groups: Groups) -> list[pa.Array]:
        different, sums, sizes = weighed(values, counts, groups)
        return [listed(different, sizes, self._kind), listed(pa.array(sums), sizes, pa.int64())]
