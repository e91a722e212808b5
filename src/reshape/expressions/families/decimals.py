"""Decimals: exact in 128 or 256 bits, rounded half up to the scale that Spark's plan gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reshape.expressions.arrays import Mask, Numbers, nulls_after, nulls_of
from reshape.expressions.table import Value
from reshape.expressions.tree import Call
from reshape.expressions.types import is_decimal

# Digits that fit any 64-bit integer, and Spark's and Arrow's 128-bit decimals.
LONG_DIGITS = 18
DIGITS = 38


def refuses_arithmetic(call: Call) -> str | None:
    """Exact where the result's type has room for every digit: then nothing is rounded and nothing overflows."""
    if not all(map(is_decimal, call.argument_types)):
        return "a decimal with a number of another type is not in the table"
    if _natural_type(call) != call.type:
        return f"a result of more than {DIGITS} digits, which Spark rounds"
    return None


def _natural_type(call: Call) -> pa.DataType | None:
    left, right = call.argument_types
    if call.function == "Multiply":
        precision, scale = left.precision + right.precision + 1, left.scale + right.scale
    else:
        scale = max(left.scale, right.scale)
        precision = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
    return pa.decimal128(precision, scale) if precision <= DIGITS else None


def arithmetic(call: Call, values: Sequence[Value]) -> Value:
    operation = {"Add": pc.add, "Subtract": pc.subtract, "Multiply": pc.multiply}[call.function]
    return pc.cast(operation(*values), call.type)


def refuses_division(call: Call) -> str | None:
    """Spark divides to 38 places or more and then rounds again to the result's scale.

    Both roundings together differ from one only if the quotient is just below a tie, closer than half a unit of the
    38th place. A quotient by a divisor of p digits is a tie or more than 1 / (2 * 10^p * 10^scale) away from one.
    """
    if call.function != "Divide" or not all(map(is_decimal, call.argument_types)):
        return f"{call.function} of these decimals is not in the table"
    dividend, divisor = call.argument_types
    shift = call.type.scale - dividend.scale + divisor.scale
    if divisor.precision + max(-shift, 0) + call.type.scale > DIGITS:
        return "a quotient so long that Spark's two roundings may show"
    return None


def division(call: Call, values: Sequence[Value]) -> Value:
    nulls = nulls_of(*values)
    dividend, divisor = map(unscaled, values)
    zero = (divisor == 0).astype(bool)
    shift = call.type.scale - (values[0].type.scale - values[1].type.scale)
    divisor = np.where(zero, 1, divisor)
    if shift >= 0:
        dividend = dividend * 10**shift
    else:
        divisor = divisor * 10**-shift
    nulls = nulls_after(call, nulls, zero, "DIVIDE_BY_ZERO", legacy_null=True)
    return fitting(call, _rounded_quotient(dividend, divisor), nulls)


def fitting(call: Call, numbers: Numbers, nulls: Mask) -> Value:
    """Unscaled integers of the result's scale as decimals; what does not fit is an error or null."""
    end = 10**call.type.precision
    too_large = ((numbers >= end) | (numbers <= -end)).astype(bool)
    if too_large.any():
        nulls = nulls_after(call, nulls, too_large, "NUMERIC_VALUE_OUT_OF_RANGE", legacy_null=True)
        numbers = np.where(too_large, 0, numbers)
    return decimal_array(numbers, nulls, call.type)


def _rounded_quotient(dividend: Numbers, divisor: Numbers) -> Numbers:
    """Rounded to the nearest, half away from zero, of Python's integers."""
    quotient = (2 * np.abs(dividend) + np.abs(divisor)) // (2 * np.abs(divisor))
    return np.asarray(np.where((dividend < 0) != (divisor < 0), -quotient, quotient))


def refuses_sign_change(call: Call) -> str | None:
    """Spark rounds the result to 34 digits on its way."""
    if call.type.precision > 34:
        return "the sign of a decimal of more than 34 digits"
    return None


def sign_changed(call: Call, value: pa.Array) -> Value:
    return pc.cast(pc.negate(value) if call.function == "UnaryMinus" else pc.abs(value), call.type)


def unscaled(array: pa.Array) -> Numbers:
    """The decimals times ten to their scale, as Python's integers; nulls are zeros."""
    low, high = words(array)
    if array.type.precision <= LONG_DIGITS:
        return np.asarray(low.view(np.int64).astype(object))
    return np.asarray(high.astype(object) * 2**64 + low.astype(object))


def words(array: pa.Array) -> tuple[Any, Any]:
    """The low and high 64 bits of decimals; nulls are zeros."""
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0, array.type))
    pairs = np.frombuffer(array.buffers()[1], dtype=np.int64).reshape(-1, 2)
    pairs = pairs[array.offset : array.offset + len(array)]
    return pairs[:, 0].view(np.uint64), pairs[:, 1]


def longs(array: pa.Array) -> Numbers:
    """The decimals times ten to their scale as 64-bit integers, which hold all of up to 18 digits."""
    assert array.type.precision <= LONG_DIGITS
    return np.asarray(words(array)[0].view(np.int64))


def decimal_array(numbers: Numbers, nulls: Mask, kind: pa.DataType) -> pa.Array:
    """Decimals of unscaled integers (Python's or 64-bit ones), each within the type's digits."""
    pairs = np.zeros((len(numbers), 2), dtype=np.int64)
    if numbers.dtype == object:
        pairs[:, 0] = (numbers & (2**64 - 1)).astype(np.uint64).view(np.int64)
        pairs[:, 1] = (numbers >> 64).astype(np.int64)
    else:
        pairs[:, 0] = numbers
        pairs[:, 1] = numbers >> 63
    validity = pa.array(~nulls).buffers()[1] if nulls.any() else None
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(pairs.tobytes())])


def _stays_long(numbers: Numbers, shift: int) -> bool:
    """Whether 64 bits hold these numbers times ten to `shift` too, so that Python's slower integers are not needed."""
    if numbers.dtype == object or shift > LONG_DIGITS or not len(numbers):
        return False
    return bool(max(int(numbers.max()), -int(numbers.min())) * 10**shift < 2**63)


def rescaled(call: Call, numbers: Numbers, scale: int, nulls: Mask) -> Value:
    """Unscaled integers of one scale as decimals of the call's type: rounded half up, checked for overflow."""
    shift = call.type.scale - scale
    if shift != 0 and not (shift > 0 and _stays_long(numbers, shift)):
        numbers = numbers.astype(object)
    if shift >= 0:
        return fitting(call, numbers * 10**shift, nulls)
    return fitting(call, _rounded_quotient(numbers, np.asarray(10**-shift, dtype=object)), nulls)
