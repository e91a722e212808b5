"""count(*), count(columns), count(distinct columns) and count_if."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.operators.aggregates.base import AggregateLogic, Groups, as_sums, complete
from reshape.operators.aggregates.description import Aggregate, OfColumn, OfColumns, SparkCall
from reshape.operators.aggregates.distinct import Distinct, DistinctLogic
from reshape.operators.aggregates.filtered import Filtered
from reshape.operators.aggregates.registry import spark_function


@dataclass(frozen=True, slots=True)
class CountAll(Aggregate):
    """count(*): rows."""

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (cls("result"),)

    @property
    def reads(self) -> tuple[int, ...]:
        return ()

    def renumbered(self, number: Callable[[int], int]) -> Self:
        return self

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return CountLogic()

    def text(self, names: Sequence[str]) -> str:
        return "count(*)"


@dataclass(frozen=True, slots=True)
class CountRows(OfColumns):
    """Rows without a null in any of these columns."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return CountLogic()

    def text(self, names: Sequence[str]) -> str:
        return f"count({', '.join(names)})"


@dataclass(frozen=True, slots=True)
class CountDistinct(OfColumns):
    """Different rows of these columns, those with a null left out."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return DistinctLogic(fields, CountLogic())

    def text(self, names: Sequence[str]) -> str:
        return f"count(distinct {', '.join(names)})"


@spark_function("CountIf")
@dataclass(frozen=True, slots=True)
class CountIf(Filtered):
    """Rows where a column is true, as Spark's analyzer has it; its optimizer counts the values of another column."""

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (cls("result", CountAll("result"), 2), *Filtered.examples())

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        return cls(call.name, CountAll(call.name), call.column())


@spark_function("Count")
@dataclass(frozen=True, slots=True)
class Count(OfColumn):
    """Values that are not null."""

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        several = (*CountAll.examples(), *CountRows.examples(), *CountDistinct.examples(), *Distinct.examples())
        return (cls("result", 1), *several)

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return CountLogic()

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        if call.arguments > 1:
            return CountRows.of_call(call)
        if call.is_constant() and not call.distinct:
            return CountAll(call.name)
        return cls(call.name, call.column())


class CountLogic(AggregateLogic):
    """Rows, or with columns those that have a value in all of them."""

    nullable: bool = False
    state_types = (pa.int64(),)
    output_type = pa.int64()

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [pa.array(complete(columns, groups)[1].sizes)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        # Exact: counts of rows stay far below 2**53.
        return [pa.array(groups.sums(states[0].to_numpy().astype(np.float64)).astype(np.int64))]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[0]

    def sums(self, states: Sequence[pa.Array]) -> list[npt.NDArray[np.float64]]:
        return as_sums(states)
