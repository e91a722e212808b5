"""listagg (string_agg): the texts of a group in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.kernels.hashing import validity
from reshape.kernels.keys import comparable
from reshape.kernels.ordering import Ordering, SortKey
from reshape.kernels.sort_keys import sorted_order
from reshape.operators.aggregates.base import AggregateLogic, Groups, unsupported
from reshape.operators.aggregates.description import Aggregate, OfColumn, SparkCall
from reshape.operators.aggregates.list_states import each_alone, lists_of, shown_lists, spread_over
from reshape.operators.aggregates.registry import spark_function


@spark_function("ListAgg")
@dataclass(frozen=True, slots=True)
class ListAgg(OfColumn):
    """The values that are not null with a delimiter between them, by `order`; without one in no particular order."""

    delimiter: str | bytes = ""
    order: tuple[SortKey, ...] = ()

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        by_number = (SortKey.descending(1), SortKey(0))
        return (cls("result", 3), cls("result", 3, ", ", by_number))

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.column, *(key.column for key in self.order))

    def renumbered(self, number: Callable[[int], int]) -> Self:
        order = tuple(replace(key, column=number(key.column)) for key in self.order)
        return replace(self, column=number(self.column), order=order)

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        found = call.function.delimiter().eval(None)
        if found is None:
            delimiter: str | bytes = ""
        else:
            delimiter = bytes(found) if isinstance(found, bytes | bytearray) else str(found)
        orders = call.function.orderExpressions()
        order = tuple(
            SortKey(
                call.column(2 + place),
                str(orders.apply(place).direction().sql()) == "ASC",
                str(orders.apply(place).nullOrdering().sql()) == "NULLS FIRST",
            )
            for place in range(orders.size())
        )
        return cls(call.name, call.column(), delimiter, order)

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return ListAggLogic(fields, self)

    def text(self, names: Sequence[str]) -> str:
        return f"listagg({', '.join(names)})"


class ListAggLogic(AggregateLogic):
    """Keeps all values, and what they are ordered by; they are put together at the end."""

    algebraic: bool = False
    merging_shrinks: bool = False

    def __init__(self, fields: Sequence[pa.Field], of: ListAgg) -> None:
        kind = fields[0].type
        if not (pat.is_string(kind) or pat.is_large_string(kind) or pat.is_binary(kind) or pat.is_large_binary(kind)):
            raise unsupported("listagg", fields[0])
        for field in fields[1:]:
            if not comparable(field.type):
                raise unsupported("listagg ordered by values", field)
        delimiter = of.delimiter
        binary = pat.is_binary(kind) or pat.is_large_binary(kind)
        self._delimiter = pa.scalar(delimiter.encode() if binary and isinstance(delimiter, str) else delimiter, kind)
        self._ordering = Ordering((SortKey(0), *(replace(key, column=i + 1) for i, key in enumerate(of.order))))
        self._kinds = [field.type for field in fields]
        self.state_types = tuple(pa.large_list(kind) for kind in self._kinds)
        self.output_type = kind

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        valid = validity(columns[0])
        if valid is not None:
            columns, groups = [column.filter(pa.array(valid)) for column in columns], groups.only(valid)
        return self._lists(columns, groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self._lists(*spread_over(states, groups))

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        (values, *keys), groups = spread_over(states, each_alone(states[0]))
        if keys and len(values):
            order = sorted_order([pa.array(groups.codes), *keys], self._ordering)
            values = values.take(pa.array(order))
        absent = np.asarray(groups.sizes == 0)
        return pc.binary_join(shown_lists(values, groups.sizes, pa.list_(self.output_type), absent), self._delimiter)

    def _lists(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [lists_of(column, groups, kind) for column, kind in zip(columns, self._kinds, strict=True)]
