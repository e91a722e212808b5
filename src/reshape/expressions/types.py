"""Arrow's types as the entries ask for them, and refusals made of them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pat

from reshape.expressions.table import Refusal
from reshape.expressions.tree import Call

Test = Callable[[pa.DataType], bool]


def is_float(kind: pa.DataType) -> bool:
    return bool(pat.is_float32(kind) or pat.is_float64(kind))


def is_integer(kind: pa.DataType) -> bool:
    return bool(pat.is_signed_integer(kind))


def is_decimal(kind: pa.DataType) -> bool:
    return bool(pat.is_decimal128(kind))


def is_instant(kind: pa.DataType) -> bool:
    """Spark's timestamp: microseconds since 1970 UTC, shown in the session's zone."""
    return bool(pat.is_timestamp(kind) and kind.unit == "us" and kind.tz == "UTC")


def is_local_time(kind: pa.DataType) -> bool:
    """Spark's timestamp_ntz."""
    return bool(pat.is_timestamp(kind) and kind.unit == "us" and kind.tz is None)


def is_number(kind: pa.DataType) -> bool:
    return is_integer(kind) or is_float(kind) or is_decimal(kind)


def is_atomic(kind: pa.DataType) -> bool:
    """Types that have one order and one equality in Spark, which entries know."""
    return bool(
        is_number(kind)
        or pat.is_boolean(kind)
        or pat.is_string(kind)
        or pat.is_binary(kind)
        or pat.is_date32(kind)
        or is_instant(kind)
        or is_local_time(kind)
    )


def always(call: Call) -> str | None:
    """Exact for all types."""
    return None


def arguments(*tests: Test) -> Refusal:
    """Refuses calls whose arguments are not of these types, one test an argument; the last is for all that follow."""

    def refusal(call: Call) -> str | None:
        for index, kind in enumerate(call.argument_types):
            if not tests[min(index, len(tests) - 1)](kind):
                return f"{call.function} of {kind} is not in the table"
        return None

    return refusal


def same(test: Test) -> Refusal:
    """Refuses calls whose arguments are not all of one type that passes the test."""
    each = arguments(test)

    def refusal(call: Call) -> str | None:
        kinds = call.argument_types
        for kind in kinds[1:]:
            if kind != kinds[0]:
                return f"{call.function} of {kinds[0]} with {kind} is not in the table"
        return each(call)

    return refusal
