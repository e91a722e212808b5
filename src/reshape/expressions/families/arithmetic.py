"""Arithmetic of integers and floats. Integers wrap around unless ANSI rules make that an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from reshape.expressions.arrays import (
    ANSI,
    TRY,
    Mask,
    Numbers,
    array_of,
    is_ansi,
    nulls_after,
    nulls_of,
    numbers_of,
    read_fail_on_error,
    read_mode,
)
from reshape.expressions.families import decimals
from reshape.expressions.table import Value, entry, may_raise
from reshape.expressions.tree import Call
from reshape.expressions.types import arguments, is_decimal, is_float, is_integer, is_number, same

_OPERATE: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
}


def _sum_or_product(call: Call) -> str | None:
    if any(map(is_decimal, call.argument_types)):
        return decimals.refuses_arithmetic(call)
    return same(is_number)(call)


@entry(
    *_OPERATE,
    holds_for="integers, float, double (both of one type); decimals whose result needs at most 38 digits",
    refusal=_sum_or_product,
    options=read_mode,
    raises=lambda call: is_ansi(call) and is_integer(call.type),
)
def operate(call: Call, values: Sequence[Value]) -> Value:
    if is_decimal(call.type):
        return decimals.arithmetic(call, values)
    nulls = nulls_of(*values)
    left, right = map(numbers_of, values)
    with np.errstate(all="ignore"):
        result = _OPERATE[call.function](left, right)
    if is_float(call.type):
        return array_of(result, nulls, call.type)
    overflow = _overflow(call.function, left, right, result)
    nulls = nulls_after(call, nulls, overflow, _overflow_condition(call.type), legacy_null=False)
    return array_of(result, nulls, call.type)


def _overflow(function: str, left: Numbers, right: Numbers, result: Numbers) -> Mask:
    if function == "Add":
        return ((left ^ result) & (right ^ result)) < 0
    if function == "Subtract":
        return ((left ^ right) & (left ^ result)) < 0
    if result.dtype.itemsize < 8:
        return np.asarray(left.astype(np.int64) * right != result)
    # Floats tell which products may be too large; those few are computed exactly.
    suspects = np.abs(left.astype(np.float64) * right) >= 2.0**62
    for row in np.flatnonzero(suspects):
        suspects[row] = int(left[row]) * int(right[row]) != int(result[row])
    return suspects


def _overflow_condition(kind: pa.DataType) -> str:
    return "BINARY_ARITHMETIC_OVERFLOW" if kind.bit_width < 32 else "ARITHMETIC_OVERFLOW"


def _division(call: Call) -> str | None:
    mode = call.option("mode")
    if mode == TRY and call.function != "Divide":
        return f"{call.function} in TRY mode is not in the table"
    if mode != ANSI and may_raise(call.arguments[0]):
        return "the dividend may raise, and Spark does not look at it where the divisor is zero"
    if any(map(is_decimal, call.argument_types)):
        return decimals.refuses_division(call)
    return same(is_number)(call)


@entry(
    "Divide",
    holds_for="double; decimals where rounding twice, as Spark does, gives the same as rounding once",
    refusal=_division,
    options=read_mode,
    raises=is_ansi,
    order=(1, 0),
)
def divide(call: Call, values: Sequence[Value]) -> Value:
    if is_decimal(call.type):
        return decimals.division(call, values)
    nulls = nulls_of(*values)
    left, right = map(numbers_of, values)
    with np.errstate(all="ignore"):
        result = left / right
    nulls = nulls_after(call, nulls, right == 0, "DIVIDE_BY_ZERO", legacy_null=True)
    return array_of(result, nulls, call.type)


def _not_decimal(call: Call) -> str | None:
    if any(map(is_decimal, call.argument_types)):
        return f"{call.function} of decimals is not in the table"
    return _division(call)


@entry("IntegralDivide", holds_for="bigint", refusal=_not_decimal, options=read_mode, raises=is_ansi, order=(1, 0))
def integral_divide(call: Call, values: Sequence[Value]) -> Value:
    """Rounds towards zero. The one overflow, least value by -1, wraps around."""
    nulls = nulls_of(*values)
    left, right = map(numbers_of, values)
    zero = right == 0
    with np.errstate(all="ignore"):
        result = left - np.fmod(left, np.where(zero, 1, right))
        result = result // np.where(zero, 1, right)
    overflow = (left == np.iinfo(np.int64).min) & (right == -1)
    result = np.where(overflow, left, result)
    nulls = nulls_after(call, nulls, overflow, "ARITHMETIC_OVERFLOW", legacy_null=False)
    nulls = nulls_after(call, nulls, zero, "DIVIDE_BY_ZERO", legacy_null=True)
    return array_of(result, nulls, call.type)


@entry(
    "Remainder",
    "Pmod",
    holds_for="integers, float, double",
    refusal=_not_decimal,
    options=read_mode,
    raises=is_ansi,
    order=(1, 0),
)
def remainder(call: Call, values: Sequence[Value]) -> Value:
    nulls = nulls_of(*values)
    left, right = map(numbers_of, values)
    zero = right == 0
    if is_integer(call.type):
        # Java computes bytes and shorts as ints.
        wide = np.promote_types(left.dtype, np.int32)
        left, right = left.astype(wide), np.where(zero, 1, right).astype(wide)
    with np.errstate(all="ignore"):
        result = np.fmod(left, right)
        if call.function == "Pmod":
            result = np.where(result < 0, np.fmod(result + right, right), result)
    result = result.astype(call.type.to_pandas_dtype())
    nulls = nulls_after(call, nulls, zero, "REMAINDER_BY_ZERO", legacy_null=True)
    return array_of(result, nulls, call.type)


def _sign(call: Call) -> str | None:
    return decimals.refuses_sign_change(call) if is_decimal(call.type) else arguments(is_number)(call)


@entry(
    "UnaryMinus",
    "Abs",
    holds_for="integers, float, double, decimals of up to 34 digits",
    refusal=_sign,
    options=read_fail_on_error,
    raises=lambda call: is_ansi(call) and is_integer(call.type),
)
def sign_changed(call: Call, values: Sequence[Value]) -> Value:
    if is_decimal(call.type):
        return decimals.sign_changed(call, values[0])
    nulls = nulls_of(*values)
    numbers = numbers_of(values[0])
    result = np.negative(numbers) if call.function == "UnaryMinus" else np.abs(numbers)
    if is_float(call.type):
        return array_of(result, nulls, call.type)
    overflow = numbers == np.iinfo(numbers.dtype).min
    nulls = nulls_after(call, nulls, overflow, "ARITHMETIC_OVERFLOW", legacy_null=False)
    return array_of(result, nulls, call.type)


_BITS: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}


@entry(*_BITS, holds_for="integers, both of one type", refusal=same(is_integer))
def bits(call: Call, values: Sequence[Value]) -> Value:
    left, right = map(numbers_of, values)
    return array_of(_BITS[call.function](left, right), nulls_of(*values), call.type)


@entry("BitwiseNot", holds_for="integers", refusal=arguments(is_integer))
def bits_inverted(call: Call, values: Sequence[Value]) -> Value:
    return array_of(np.invert(numbers_of(values[0])), nulls_of(*values), call.type)


@entry("Sqrt", holds_for="double", refusal=arguments(pat.is_float64))
def square_root(call: Call, values: Sequence[Value]) -> Value:
    with np.errstate(all="ignore"):
        return array_of(np.sqrt(numbers_of(values[0])), nulls_of(*values), call.type)
