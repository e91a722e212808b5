"""Casts. Those that parse texts or print floats are not here: Java has ways of its own for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.expressions.arrays import (
    ANSI,
    Mask,
    Numbers,
    array_of,
    nulls_after,
    nulls_of,
    numbers_of,
)
from reshape.expressions.families import decimals, moments
from reshape.expressions.table import SessionFacts, Value, entry
from reshape.expressions.tree import Call
from reshape.expressions.types import is_decimal, is_float, is_instant, is_integer, is_local_time
from reshape.expressions.zones import read_zone

# From this scale on small decimals are printed with an exponent.
_PLAIN_SCALE = 6
# Integers below 10^15 and powers up to 10^22 are exact as doubles, so that one division rounds once.
_EXACT_DIGITS, _EXACT_SCALE = 15, 22


def _read(expression: Any, facts: SessionFacts) -> dict[str, Any]:
    zone = {}
    if {str(expression.dataType().catalogString()), str(expression.child().dataType().catalogString())} & {"timestamp"}:
        zone = read_zone(expression, facts)
    return {"mode": str(expression.evalMode().toString()), "legacy_dates": facts.legacy_dates, **zone}


def _kind(type_: pa.DataType) -> str:
    for name, test in _KINDS:
        if test(type_):
            return name
    return str(type_)


_KINDS: list[tuple[str, Callable[[pa.DataType], bool]]] = [
    ("integer", is_integer),
    ("float", is_float),
    ("decimal", is_decimal),
    ("boolean", pat.is_boolean),
    ("string", pat.is_string),
    ("binary", pat.is_binary),
    ("date", pat.is_date32),
    ("timestamp", is_instant),
    ("timestamp_ntz", is_local_time),
]


def _refusal(call: Call) -> str | None:
    source, target = call.arguments[0].type, call.type
    if source == target:
        return None
    pair = _kind(source), _kind(target)
    if pair not in _CASTS:
        return f"the cast from {source} to {target} is not in the table"
    if pair == ("decimal", "string") and source.scale > _PLAIN_SCALE:
        return "small decimals of this scale are printed in several ways"
    if pair == ("date", "string") and call.option("legacy_dates"):
        return "spark.sql.legacy.timeParserPolicy is LEGACY"
    if pair == ("decimal", "float") and pat.is_float32(target):
        return "the cast from decimal to float is not in the table"
    if call.option("mode") not in _MODES:
        return f"mode {call.option('mode')} is not in the table"
    return None


_MODES = ("ANSI", "LEGACY", "TRY")


def _raises(call: Call) -> bool:
    """Casts that lose nothing do not fail; those of dates to timestamps fail in all modes."""
    source, target = call.arguments[0].type, call.type
    pair = _kind(source), _kind(target)
    if pair in (("date", "timestamp"), ("date", "timestamp_ntz")):
        return True
    if call.option("mode") != ANSI or pair[1] not in ("integer", "decimal"):
        return False
    if pair == ("integer", "integer"):
        return bool(target.bit_width < source.bit_width)
    return pair[0] != "boolean"


@entry(
    "Cast",
    holds_for="between integers, floats, booleans, decimals (not from float or double to decimal, nor from decimal to "
    "float); integers, booleans, dates and decimals of scale up to 6 to string; string to binary; timestamps to date; "
    "date to timestamps",
    refusal=_refusal,
    options=_read,
    raises=_raises,
)
def cast(call: Call, values: Sequence[Value]) -> Value:
    value = values[0]
    if value.type == call.type:
        return value
    return _CASTS[_kind(value.type), _kind(call.type)](call, value)


def _integer_to_integer(call: Call, value: pa.Array) -> Value:
    nulls, numbers = nulls_of(value), numbers_of(value)
    result = numbers.astype(call.type.to_pandas_dtype())
    return array_of(result, _overflowed(call, nulls, result != numbers), call.type)


def _overflowed(call: Call, nulls: Mask, failed: Mask) -> Mask:
    return nulls_after(call, nulls, failed, "CAST_OVERFLOW", legacy_null=False)


def _to_float(call: Call, value: pa.Array) -> Value:
    with np.errstate(all="ignore"):
        return array_of(numbers_of(value).astype(call.type.to_pandas_dtype()), nulls_of(value), call.type)


def _float_to_integer(call: Call, value: pa.Array) -> Value:
    """Towards zero. Without ANSI rules as Java: NaN is 0, the ends of int or long hold, narrower types then wrap."""
    nulls, numbers = nulls_of(value), numbers_of(value).astype(np.float64)
    width = np.iinfo(np.int64 if call.type.bit_width == 64 else np.int32)
    low, high = float(width.min), float(width.max)
    with np.errstate(all="ignore"):
        inside = np.where(np.isnan(numbers) | (numbers >= high) | (numbers <= low), 0, numbers)
        saturated = np.trunc(inside).astype(width.dtype)
    saturated = np.where(numbers >= high, width.max, saturated)
    saturated = np.where(numbers <= low, width.min, saturated).astype(width.dtype)
    narrow = np.iinfo(call.type.to_pandas_dtype())
    with np.errstate(all="ignore"):
        failed = ~((np.floor(numbers) <= float(narrow.max)) & (np.ceil(numbers) >= float(narrow.min)))
    return array_of(saturated.astype(narrow.dtype), _overflowed(call, nulls, failed), call.type)


def _integer_to_decimal(call: Call, value: pa.Array) -> Value:
    return decimals.rescaled(call, numbers_of(value).astype(np.int64), 0, nulls_of(value))


def _decimal_to_decimal(call: Call, value: pa.Array) -> Value:
    source, target = value.type, call.type
    if target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale:
        return pc.cast(value, target)
    return decimals.rescaled(call, decimals.unscaled(value), source.scale, nulls_of(value))


def _decimal_to_integer(call: Call, value: pa.Array) -> Value:
    """Towards zero; without ANSI rules the lowest bits."""
    nulls = nulls_of(value)
    divisor = 10**value.type.scale
    if value.type.precision <= decimals.LONG_DIGITS:
        numbers: Numbers = decimals.longs(value)
        whole = (numbers - np.fmod(numbers, divisor)) // divisor
    else:
        big = decimals.unscaled(value)
        whole = np.where(big < 0, -(-big // divisor), big // divisor)
    bits = call.type.bit_width
    lowest = (whole & (2**64 - 1)).astype(np.uint64).view(np.int64) if whole.dtype == object else whole
    result = lowest.astype(call.type.to_pandas_dtype())
    failed = ((whole >= 2 ** (bits - 1)) | (whole < -(2 ** (bits - 1)))).astype(bool)
    return array_of(result, _overflowed(call, nulls, failed), call.type)


def _decimal_to_double(call: Call, value: pa.Array) -> Value:
    kind = value.type
    if kind.precision <= _EXACT_DIGITS and kind.scale <= _EXACT_SCALE:
        result = decimals.longs(value).astype(np.float64) / float(10**kind.scale)
    else:
        # Python divides integers of any size with one rounding.
        divisor = 10**kind.scale
        result = np.array([number / divisor for number in decimals.unscaled(value).tolist()], dtype=np.float64)
    return array_of(result, nulls_of(value), call.type)


def _to_boolean(call: Call, value: pa.Array) -> Value:
    numbers = decimals.unscaled(value) if is_decimal(value.type) else numbers_of(value)
    return array_of((numbers != 0).astype(bool), nulls_of(value), call.type)


def _boolean_to_number(call: Call, value: pa.Array) -> Value:
    return array_of(numbers_of(value).astype(call.type.to_pandas_dtype()), nulls_of(value), call.type)


def _boolean_to_decimal(call: Call, value: pa.Array) -> Value:
    return decimals.rescaled(call, numbers_of(value).astype(np.int64), 0, nulls_of(value))


def _by_arrow(call: Call, value: pa.Array) -> Value:
    return pc.cast(value, call.type)


_CASTS: dict[tuple[str, str], Callable[[Call, pa.Array], Value]] = {
    ("integer", "integer"): _integer_to_integer,
    ("integer", "float"): _to_float,
    ("integer", "decimal"): _integer_to_decimal,
    ("integer", "boolean"): _to_boolean,
    ("integer", "string"): _by_arrow,
    ("float", "integer"): _float_to_integer,
    ("float", "float"): _to_float,
    ("float", "boolean"): _to_boolean,
    ("decimal", "integer"): _decimal_to_integer,
    ("decimal", "float"): _decimal_to_double,
    ("decimal", "decimal"): _decimal_to_decimal,
    ("decimal", "boolean"): _to_boolean,
    ("decimal", "string"): _by_arrow,
    ("boolean", "integer"): _boolean_to_number,
    ("boolean", "float"): _boolean_to_number,
    ("boolean", "decimal"): _boolean_to_decimal,
    ("boolean", "string"): _by_arrow,
    ("string", "binary"): _by_arrow,
    ("date", "string"): moments.date_to_string,
    ("date", "timestamp"): moments.date_to_instant,
    ("date", "timestamp_ntz"): moments.date_to_local,
    ("timestamp", "date"): moments.instant_to_date,
    ("timestamp_ntz", "date"): moments.local_to_date,
}
