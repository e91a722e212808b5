"""sum and mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.kernels.hashing import fixed_words, validity
from reshape.operators.aggregates.base import (
    OPERATOR,
    AggregateLogic,
    Groups,
    as_doubles,
    as_sums,
    nullable,
    present,
    unsupported,
)
from reshape.operators.aggregates.description import Aggregate, OfColumn, SparkCall
from reshape.operators.aggregates.registry import spark_function
from reshape.operators.aggregates.wide_integers import decimals, grouped_sums
from reshape.operators.errors import OutOfRange

_MOST_DIGITS = 38  # of a Spark decimal

# More than any sum of 38-digit decimals has, so that a mean is rounded once, where Spark rounds it.
_EXACT = Context(prec=100, rounding=ROUND_HALF_UP)


class EvalMode(StrEnum):
    """What becomes of a result that does not fit its type, in Spark's words: an error (ANSI), null (TRY: try_sum,
    try_avg), or, with spark.sql.ansi.enabled off, null for decimals and the lowest 64 bits for integers (LEGACY)."""

    ANSI = "ANSI"
    TRY = "TRY"
    LEGACY = "LEGACY"


@spark_function("Sum")
@dataclass(frozen=True, slots=True)
class Sum(OfColumn):
    """Integers give a long, decimal(p, s) gives decimal(min(38, p + 10), s), floats give a double."""

    mode: EvalMode = EvalMode.ANSI

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return tuple(cls("result", 1, mode) for mode in EvalMode)

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        return cls(call.name, call.column(), EvalMode(str(call.function.evalContext().evalMode())))

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        kind = fields[0].type
        if pat.is_floating(kind) or pat.is_null(kind):
            return SumOfDoubles()
        if pat.is_integer(kind) or pat.is_decimal(kind):
            return SumOfIntegers(fields[0], self.mode)
        raise unsupported("sum", fields[0])


@spark_function("Average")
@dataclass(frozen=True, slots=True)
class Mean(OfColumn):
    """A double, or decimal(min(38, p + 4), min(38, s + 4)) of a decimal(p, s)."""

    mode: EvalMode = EvalMode.ANSI

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return tuple(cls("result", 1, mode) for mode in EvalMode)

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        return cls(call.name, call.column(), EvalMode(str(call.function.evalMode())))

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        kind = fields[0].type
        if pat.is_decimal(kind):
            return MeanOfDecimals(fields[0], self.mode)
        if pat.is_integer(kind) or pat.is_floating(kind) or pat.is_null(kind):
            return MeanOfDoubles()
        raise unsupported("mean", fields[0])


class SumOfDoubles(AggregateLogic):
    """Floats of any width; null without values."""

    state_types = (pa.float64(),)
    output_type = pa.float64()

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, groups = present(columns[0], groups)
        return [nullable(groups.sums(as_doubles(values)), groups.sizes == 0, pa.float64())]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self.update(states, groups)

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[0]

    def sums(self, states: Sequence[pa.Array]) -> list[npt.NDArray[np.float64]]:
        return as_sums(states)


class SumOfIntegers(AggregateLogic):
    """Integers and decimals: exact in a wider state, so that only a result that does not fit is an error, or null."""

    def __init__(self, field: pa.Field, mode: EvalMode) -> None:
        self._column = field.name
        self._mode = mode
        kind = field.type
        if pat.is_decimal(kind):
            self.output_type = pa.decimal128(min(_MOST_DIGITS, kind.precision + 10), kind.scale)
            self.state_types = (pa.decimal256(76, kind.scale),)
            self._words = 4
        else:
            self.output_type = pa.int64()
            self.state_types = (pa.decimal128(_MOST_DIGITS, 0),)
            self._words = 2

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, groups = present(columns[0], groups)
        words = fixed_words(values)
        assert words is not None
        return [
            decimals(grouped_sums(words, groups, self._words)[: self._words], self.state_types[0], groups.sizes == 0)
        ]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self.update(states, groups)

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        if pat.is_decimal(self.output_type):
            return self._as_decimals(states[0])
        return self._as_longs(states[0])

    def _as_decimals(self, sums: pa.Array) -> pa.Array:
        try:
            return sums.cast(self.output_type)
        except pa.ArrowInvalid:
            if self._mode == EvalMode.ANSI:
                raise OutOfRange(OPERATOR, "sum", self._column, str(self.output_type)) from None
        beyond = pa.scalar(Decimal(1).scaleb(self.output_type.precision - self.output_type.scale), sums.type)
        fits = pc.and_(pc.less(sums, beyond), pc.greater(sums, pc.negate(beyond)))
        return pc.if_else(fits, sums, None).cast(self.output_type)

    def _as_longs(self, sums: pa.Array) -> pa.Array:
        words = fixed_words(sums)
        assert words is not None
        low, high = (word.view(np.int64) for word in words)
        valid = validity(sums)
        shown = np.ones(len(low), dtype=np.bool_) if valid is None else valid
        fits = high == low >> 63
        if self._mode == EvalMode.TRY:
            shown = shown & fits
        elif self._mode == EvalMode.ANSI and not (fits | ~shown).all():
            raise OutOfRange(OPERATOR, "sum", self._column, "bigint")
        return nullable(low, ~shown, pa.int64())

    def sums(self, states: Sequence[pa.Array]) -> list[npt.NDArray[np.float64]]:
        return as_sums(states)


class MeanOfDoubles(AggregateLogic):
    """Adds doubles, as Spark does also for integers."""

    state_types = (pa.float64(), pa.int64())
    output_type = pa.float64()

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, groups = present(columns[0], groups)
        return [pa.array(groups.sums(as_doubles(values))), pa.array(groups.sizes)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        sums, counts = (groups.sums(as_doubles(state)) for state in states)
        return [pa.array(sums), pa.array(counts.astype(np.int64))]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        sums, counts = states[0].to_numpy(), states[1].to_numpy()
        return nullable(sums / np.maximum(counts, 1), counts == 0, pa.float64())

    def sums(self, states: Sequence[pa.Array]) -> list[npt.NDArray[np.float64]]:
        return as_sums(states)


class MeanOfDecimals(AggregateLogic):
    """Exact sum over count, rounded half up to four digits more."""

    def __init__(self, field: pa.Field, mode: EvalMode) -> None:
        self._sum = SumOfIntegers(field, mode)
        self._column = field.name
        self._mode = mode
        kind = field.type
        self.state_types = (*self._sum.state_types, pa.int64())
        self.output_type = pa.decimal128(min(_MOST_DIGITS, kind.precision + 4), min(_MOST_DIGITS, kind.scale + 4))

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [*self._sum.update(columns, groups), pa.array(present(columns[0], groups)[1].sizes)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        counts = groups.sums(as_doubles(states[1])).astype(np.int64)
        return [*self._sum.merge(states[:1], groups), pa.array(counts)]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        # Spark holds the sum as the type of sum(column) and fails, or has null, where that overflows.
        sums = self._sum.finish(states[:1])
        unit = Decimal(1).scaleb(-self.output_type.scale)
        means = [
            None if total is None else _EXACT.quantize(_EXACT.divide(total, Decimal(count)), unit)
            for total, count in zip(sums.to_pylist(), states[1].to_pylist(), strict=True)
        ]
        beyond = Decimal(1).scaleb(self.output_type.precision - self.output_type.scale)
        fitting = [mean if mean is None or abs(mean) < beyond else None for mean in means]
        if self._mode == EvalMode.ANSI and fitting != means:
            raise OutOfRange(OPERATOR, "mean", self._column, str(self.output_type))
        return pa.array(fitting, type=self.output_type)

    def sums(self, states: Sequence[pa.Array]) -> list[npt.NDArray[np.float64]]:
        return as_sums(states)
