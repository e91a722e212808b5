"""Comparisons, null tests, membership. In Spark NaN equals NaN and is above all numbers, and -0.0 equals 0.0."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from reshape.expressions.table import Value, entry
from reshape.expressions.tree import Call, Literal
from reshape.expressions.types import always, arguments, is_atomic, is_float, same

_ATOMIC = "numbers, booleans, strings, binary, dates, timestamps; both sides of one type"


def equal(left: Value, right: Value) -> Value:
    plain = pc.equal(left, right)
    if not is_float(left.type):
        return plain
    return pc.or_(plain, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def less(left: Value, right: Value) -> Value:
    plain = pc.less(left, right)
    if not is_float(left.type):
        return plain
    return pc.or_(plain, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "EqualTo": equal,
    "LessThan": less,
    "GreaterThan": lambda left, right: less(right, left),
    "LessThanOrEqual": lambda left, right: pc.invert(less(right, left)),
    "GreaterThanOrEqual": lambda left, right: pc.invert(less(left, right)),
}


@entry(*_COMPARE, holds_for=_ATOMIC, refusal=same(is_atomic), scalars=True)
def compare(call: Call, values: Sequence[Value]) -> Value:
    return _COMPARE[call.function](values[0], values[1])


@entry("EqualNullSafe", holds_for=_ATOMIC, refusal=same(is_atomic), scalars=True, strict=False)
def equal_null_safe(call: Call, values: Sequence[Value]) -> Value:
    left, right = values
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both_null, pc.fill_null(equal(left, right), False))


@entry("IsNull", holds_for="all types", refusal=always, scalars=True)
def is_null(call: Call, values: Sequence[Value]) -> Value:
    return pc.is_null(values[0])


@entry("IsNotNull", holds_for="all types", refusal=always, scalars=True)
def is_not_null(call: Call, values: Sequence[Value]) -> Value:
    return pc.is_valid(values[0])


@entry("IsNaN", holds_for="float, double; null gives false", refusal=arguments(is_float), scalars=True)
def is_nan(call: Call, values: Sequence[Value]) -> Value:
    return pc.fill_null(pc.is_nan(values[0]), False)


def _membership(call: Call) -> str | None:
    if reason := same(is_atomic)(call):
        return reason
    members = call.arguments[1:]
    if not members:
        return "an empty list has a meaning that a setting of the session decides"
    if not all(isinstance(member, Literal) for member in members):
        return "the list has more than constants"
    zero = any(isinstance(m, Literal) and m.value == 0 for m in members)
    if call.function == "InSet" and is_float(call.arguments[0].type) and zero:
        return "a set with zero: Spark's own ways differ on whether -0.0 is in it"
    return None


@entry("In", "InSet", holds_for=_ATOMIC + "; the list made of constants", refusal=_membership, scalars=True)
def is_in(call: Call, values: Sequence[Value]) -> Value:
    """Null where the value is null, or where it is not in a list that has a null."""
    value, members = values[0], call.arguments[1:]
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, 1)
    constants = [m.value for m in members if isinstance(m, Literal) and m.value is not None]
    if is_float(value.type):
        # Arrow tells -0.0 from 0.0 here, and adding 0.0 makes them one.
        value = pc.add(value, pa.scalar(0.0, value.type))
        constants = [constant + 0.0 for constant in constants]
    inside = pc.is_in(value, value_set=pa.array(constants, type=value.type))
    if is_float(value.type) and any(map(math.isnan, constants)):
        inside = pc.or_(inside, pc.fill_null(pc.is_nan(value), False))
    outside_null = len(constants) < len(members)
    known = pc.and_(pc.is_valid(value), inside) if outside_null else pc.is_valid(value)
    answer = pc.if_else(known, inside, pa.scalar(None, pa.bool_()))
    return answer[0] if isinstance(values[0], pa.Scalar) else answer
