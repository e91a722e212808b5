"""Rounding, the largest and the smallest of several values, and NaN replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.expressions.arrays import ANSI, LEGACY, Numbers, array_of, is_ansi, nulls_of, numbers_of
from reshape.expressions.evaluate import evaluate, evaluate_where
from reshape.expressions.families import decimals
from reshape.expressions.families.booleans import truth
from reshape.expressions.families.comparison import less
from reshape.expressions.table import SessionFacts, Value, entry, lazy_entry
from reshape.expressions.tree import Call, Literal
from reshape.expressions.types import arguments, is_atomic, is_decimal, is_float, same

_TO_WHOLE: dict[str, Callable[[Numbers, Any], Numbers]] = {
    "Floor": lambda numbers, divisor: numbers // divisor,
    "Ceil": lambda numbers, divisor: -(-numbers // divisor),
}


def _whole(call: Call) -> str | None:
    source = call.arguments[0].type
    if not is_decimal(source) or not is_decimal(call.type):
        return f"{call.function} of {source} is not in the table"
    needed = source.precision - source.scale + (1 if source.scale else 0)
    if call.type.scale != 0 or call.type.precision < needed:
        return "a result that may not fit"
    return None


@entry(*_TO_WHOLE, holds_for="decimals", refusal=_whole)
def whole(call: Call, values: Sequence[Value]) -> Value:
    numbers = decimals.unscaled(values[0])
    return decimals.decimal_array(
        _TO_WHOLE[call.function](numbers, 10 ** values[0].type.scale), nulls_of(*values), call.type
    )


def _rounding(call: Call) -> str | None:
    value, places = call.arguments
    if not is_decimal(value.type) or not isinstance(places, Literal) or places.value is None:
        return "only decimals are rounded exactly, to a constant number of places"
    if places.value < 0 or places.value < call.type.scale:
        return "rounding in front of the point is not in the table"
    if call.type.precision - call.type.scale < value.type.precision - value.type.scale:
        return "a result that may not fit"
    if call.type.scale < value.type.scale and value.type.precision - value.type.scale + 1 > (
        call.type.precision - call.type.scale
    ):
        return "a result that may not fit"
    return None


def _no_mode(expression: Any, facts: SessionFacts) -> dict[str, Any]:
    return {"mode": LEGACY}


@entry("Round", holds_for="decimals; a constant number of places", refusal=_rounding, options=_no_mode)
def rounded(call: Call, values: Sequence[Value]) -> Value:
    """Half up, away from zero."""
    value = values[0]
    return decimals.rescaled(call, decimals.unscaled(value), value.type.scale, nulls_of(value))


@entry(
    "Greatest", "Least", holds_for="the types of comparisons, all of one type", refusal=same(is_atomic), strict=False
)
def extreme(call: Call, values: Sequence[Value]) -> Value:
    """Nulls are left out; of equal values the first one stays, which tells 0.0 from -0.0."""
    best = values[0]
    for value in values[1:]:
        better = less(best, value) if call.function == "Greatest" else less(value, best)
        replaces = pc.or_(pc.fill_null(better, False), pc.and_(pc.is_null(best), pc.is_valid(value)))
        best = pc.if_else(replaces, value, best)
    return best


@lazy_entry("NaNvl", holds_for="float, double", refusal=same(is_float))
def instead_of_nan(call: Call, batch: pa.RecordBatch) -> Value:
    value = evaluate(call.arguments[0], batch)
    not_a_number = pc.fill_null(pc.is_nan(value), False)
    return pc.if_else(not_a_number, evaluate_where(call.arguments[1], batch, truth(not_a_number)), value)


@entry("NormalizeNaNAndZero", holds_for="float, double", refusal=arguments(is_float))
def normalized(call: Call, values: Sequence[Value]) -> Value:
    """One NaN of all, and 0.0 for -0.0."""
    numbers = numbers_of(values[0])
    return array_of(
        np.where(np.isnan(numbers), np.nan, numbers + 0.0).astype(numbers.dtype), nulls_of(*values), call.type
    )


@entry("KnownFloatingPointNormalized", holds_for="float, double", refusal=arguments(is_float), scalars=True)
def unchanged(call: Call, values: Sequence[Value]) -> Value:
    return values[0]


def _short(call: Call) -> str | None:
    short = arguments(lambda kind: is_decimal(kind) and kind.precision <= decimals.LONG_DIGITS)
    return short(call)


@entry("UnscaledValue", holds_for="decimals of up to 18 digits", refusal=_short)
def unscaled_value(call: Call, values: Sequence[Value]) -> Value:
    """What Spark adds up in the place of short decimals."""
    return array_of(decimals.longs(values[0]), nulls_of(*values), call.type)


def _overflow_mode(expression: Any, facts: SessionFacts) -> dict[str, Any]:
    return {"mode": LEGACY if expression.nullOnOverflow() else ANSI}


@entry("MakeDecimal", holds_for="bigint", refusal=arguments(pat.is_int64), options=_overflow_mode, raises=is_ansi)
def make_decimal(call: Call, values: Sequence[Value]) -> Value:
    """The reverse of `UnscaledValue`."""
    return decimals.fitting(call, numbers_of(values[0]), nulls_of(*values))
