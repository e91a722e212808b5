"""bit_and, bit_or and bit_xor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from reshape.operators.aggregates.base import AggregateLogic, Groups, nullable, present, unsupported
from reshape.operators.aggregates.description import OfColumn
from reshape.operators.aggregates.registry import spark_function


@spark_function("BitAndAgg")
@dataclass(frozen=True, slots=True)
class BitAnd(OfColumn):
    """Bits that all values have."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return BitsLogic(fields[0], "bit_and", np.bitwise_and, start=-1)


@spark_function("BitOrAgg")
@dataclass(frozen=True, slots=True)
class BitOr(OfColumn):
    """Bits that some value has."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return BitsLogic(fields[0], "bit_or", np.bitwise_or, start=0)


@spark_function("BitXorAgg")
@dataclass(frozen=True, slots=True)
class BitXor(OfColumn):
    """Bits that an odd number of values has."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return BitsLogic(fields[0], "bit_xor", np.bitwise_xor, start=0)


class BitsLogic(AggregateLogic):
    """Whole numbers put together bit by bit, of the type that they have; null without values."""

    def __init__(self, field: pa.Field, name: str, combine: np.ufunc, start: int) -> None:
        if not pat.is_integer(field.type):
            raise unsupported(name, field)
        self._combine = combine
        self._start = start
        self.state_types = (field.type,)
        self.output_type = field.type

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, groups = present(columns[0], groups)
        numbers = values.to_numpy()
        found = np.full(groups.count, self._start, dtype=numbers.dtype)
        self._combine.at(found, groups.codes, numbers)
        return [nullable(found, groups.sizes == 0, self.output_type)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self.update(states, groups)

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[0]
