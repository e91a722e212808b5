"""count(*), count(column) and count(distinct columns)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reshape.kernels.codes import different_pairs
from reshape.kernels.hashing import validity
from reshape.kernels.keys import KeyColumns, check_keys, normalised
from reshape.operators.aggregates.base import OPERATOR, AggregateLogic, Groups, as_sums
from reshape.operators.aggregates.description import Aggregate, OfColumn, OfColumns, SparkCall
from reshape.operators.aggregates.lists import flattened
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
class CountDistinct(OfColumns):
    """Different rows of these columns, those with a null left out."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return CountDistinctLogic(fields)

    def text(self, names: Sequence[str]) -> str:
        return f"count(distinct {', '.join(names)})"


@spark_function("Count", "count, countDistinct", takes_distinct=True)
@dataclass(frozen=True, slots=True)
class Count(OfColumn):
    """Values that are not null."""

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (cls("result", 1), *CountAll.examples(), *CountDistinct.examples())

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return CountLogic()

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        if call.distinct:
            return CountDistinct.of_call(call)
        if call.arguments != 1:
            raise call.refused("count one column, or different rows of several with countDistinct")
        return CountAll(call.name) if call.is_constant() else cls(call.name, call.column())


class CountLogic(AggregateLogic):
    """Rows, or with a column its values that are not null."""

    nullable: ClassVar[bool] = False
    state_types = (pa.int64(),)
    output_type = pa.int64()

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        valid = validity(columns[0]) if columns else None
        return [pa.array(groups.sizes if valid is None else groups.only(valid).sizes)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        # Exact: counts of rows stay far below 2**53.
        return [pa.array(groups.sums(states[0].to_numpy().astype(np.float64)).astype(np.int64))]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[0]

    def sums(self, states: Sequence[pa.Array]) -> list[npt.NDArray[np.float64]]:
        return as_sums(states)


class CountDistinctLogic(AggregateLogic):
    """Keeps the different values of each group."""

    algebraic: ClassVar[bool] = False
    nullable: ClassVar[bool] = False
    output_type = pa.int64()

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        check_keys(f"{OPERATOR}: count distinct", pa.schema(fields), range(len(fields)))
        kinds = [pa.field(str(i), field.type) for i, field in enumerate(fields)]
        self._value_type = fields[0].type if len(fields) == 1 else pa.struct(kinds)
        self.state_types = (pa.large_list(self._value_type),)

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        keep = None
        for column in columns:
            valid = validity(column)
            if valid is not None:
                keep = valid if keep is None else keep & valid
        if keep is not None:
            columns, groups = [column.filter(pa.array(keep)) for column in columns], groups.only(keep)
        columns = [normalised(column) for column in columns]
        values = (
            columns[0]
            if len(columns) == 1
            else pa.StructArray.from_arrays(columns, fields=[self._value_type.field(i) for i in range(len(columns))])
        )
        return [self._distinct(values, groups)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [self._distinct(*flattened(states[0], groups))]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        return pc.list_value_length(states[0]).cast(pa.int64())

    def _distinct(self, values: pa.Array, groups: Groups) -> pa.Array:
        codes, first = KeyColumns([values], len(values)).codes()
        group, code = different_pairs(groups.codes, codes, len(first))
        offsets = np.zeros(groups.count + 1, dtype=np.int64)
        np.cumsum(np.bincount(group, minlength=groups.count), out=offsets[1:])
        kept = values.take(pa.array(first[code]))
        return pa.LargeListArray.from_arrays(pa.array(offsets), kept, type=self.state_types[0])
