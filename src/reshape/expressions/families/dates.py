"""Parts of dates and times, days added and counted, dates cut to the start of a week, month, quarter or year."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from reshape.expressions.arrays import array_of, nulls_of, numbers_of
from reshape.expressions.families.moments import (
    DAY_SECONDS,
    MICROS,
    Days,
    days_of,
    first_of_month,
    in_micros,
    local_seconds,
    months_and_day,
)
from reshape.expressions.table import SessionFacts, Value, entry
from reshape.expressions.tree import Call, Literal
from reshape.expressions.types import arguments, is_instant, is_integer, is_local_time
from reshape.expressions.zones import read_zone


def _year(days: Days) -> Days:
    return months_and_day(days)[0] // 12 + 1970


def _day_of_year(days: Days) -> Days:
    months, _ = months_and_day(days)
    return days - first_of_month(months - months % 12) + 1


def _week_of_year(days: Days) -> Days:
    """ISO 8601: a week belongs to the year of its Thursday."""
    return (_day_of_year(days - (days + 3) % 7 + 3) - 1) // 7 + 1


_PARTS: dict[str, Callable[[Days], Days]] = {
    "Year": _year,
    "Quarter": lambda days: months_and_day(days)[0] % 12 // 3 + 1,
    "Month": lambda days: months_and_day(days)[0] % 12 + 1,
    "DayOfMonth": lambda days: months_and_day(days)[1] + 1,
    "DayOfYear": _day_of_year,
    "DayOfWeek": lambda days: (days + 4) % 7 + 1,
    "WeekDay": lambda days: (days + 3) % 7,
    "WeekOfYear": _week_of_year,
    "UnixDate": lambda days: days,
}


@entry(*_PARTS, holds_for="date", refusal=arguments(pat.is_date32))
def part_of_date(call: Call, values: Sequence[Value]) -> Value:
    return array_of(_PARTS[call.function](days_of(values[0])).astype(np.int32), nulls_of(*values), call.type)


@entry("DateFromUnixDate", holds_for="int", refusal=arguments(pat.is_int32))
def date_of_number(call: Call, values: Sequence[Value]) -> Value:
    return array_of(numbers_of(values[0]), nulls_of(*values), call.type)


_TIMES: dict[str, Callable[[Days], Days]] = {
    "Hour": lambda seconds: seconds % DAY_SECONDS // 3600,
    "Minute": lambda seconds: seconds % 3600 // 60,
    "Second": lambda seconds: seconds % 60,
}


def _time(kind: pa.DataType) -> bool:
    return is_instant(kind) or is_local_time(kind)


def _read_zone(expression: Any, facts: SessionFacts) -> dict[str, Any]:
    """Local times need no zone, and reading one takes a while."""
    return read_zone(expression, facts) if str(expression.child().dataType().catalogString()) == "timestamp" else {}


@entry(*_TIMES, holds_for="timestamp (in any zone), timestamp_ntz", refusal=arguments(_time), options=_read_zone)
def part_of_time(call: Call, values: Sequence[Value]) -> Value:
    seconds = local_seconds(call, values[0])
    return array_of(_TIMES[call.function](seconds).astype(np.int32), nulls_of(*values), call.type)


@entry("UnixMicros", holds_for="timestamp", refusal=arguments(is_instant))
def micros(call: Call, values: Sequence[Value]) -> Value:
    return array_of(numbers_of(values[0]), nulls_of(*values), call.type)


@entry("UnixSeconds", holds_for="timestamp", refusal=arguments(is_instant))
def seconds_of(call: Call, values: Sequence[Value]) -> Value:
    return array_of(numbers_of(values[0]) // MICROS, nulls_of(*values), call.type)


@entry("MicrosToTimestamp", holds_for="bigint", refusal=arguments(pat.is_int64))
def timestamp_of_micros(call: Call, values: Sequence[Value]) -> Value:
    return array_of(numbers_of(values[0]), nulls_of(*values), call.type)


@entry("DateAdd", "DateSub", holds_for="date and integer", refusal=arguments(pat.is_date32, is_integer))
def shifted(call: Call, values: Sequence[Value]) -> Value:
    """Wraps around at the ends of 32 bits, as Java's integers do."""
    days = numbers_of(values[0]).astype(np.int32)
    count = numbers_of(values[1]).astype(np.int32)
    moved = days + count if call.function == "DateAdd" else days - count
    return array_of(moved, nulls_of(*values), call.type)


@entry("DateDiff", holds_for="dates", refusal=arguments(pat.is_date32))
def days_between(call: Call, values: Sequence[Value]) -> Value:
    return array_of(numbers_of(values[0]) - numbers_of(values[1]), nulls_of(*values), call.type)


@entry("LastDay", holds_for="date", refusal=arguments(pat.is_date32))
def last_day(call: Call, values: Sequence[Value]) -> Value:
    months, _ = months_and_day(days_of(values[0]))
    return array_of(first_of_month(months + 1) - 1, nulls_of(*values), call.type)


_UNITS = {
    "WEEK": "week",
    "MONTH": "month",
    "MON": "month",
    "MM": "month",
    "QUARTER": "quarter",
    "YEAR": "year",
    "YYYY": "year",
    "YY": "year",
}
_SECONDS = {"DAY": DAY_SECONDS, "DD": DAY_SECONDS, "HOUR": 3600, "MINUTE": 60, "SECOND": 1}


def _start_of_unit(days: Days, unit: str) -> Days:
    if unit == "week":
        return np.asarray(days - (days + 3) % 7)
    months, _ = months_and_day(days)
    length = {"month": 1, "quarter": 3, "year": 12}[unit]
    return first_of_month(months - months % length)


def _unit(call: Call, index: int) -> str | None:
    """The name of the unit, if it is a constant."""
    unit = call.arguments[index]
    return unit.value.upper() if isinstance(unit, Literal) and isinstance(unit.value, str) else None


def _date_unit(call: Call) -> str | None:
    unit = _unit(call, 1)
    if unit is None or unit not in _UNITS:
        return "the unit is none of week, month, quarter, year as constants"
    return arguments(pat.is_date32, pat.is_string)(call)


@entry(
    "TruncDate",
    holds_for="date; week, month, quarter, year as constants",
    refusal=_date_unit,
)
def start_of_date_unit(call: Call, values: Sequence[Value]) -> Value:
    unit = _unit(call, 1)
    assert unit is not None
    return array_of(_start_of_unit(days_of(values[0]), _UNITS[unit]), nulls_of(values[0]), call.type)


def _time_unit(call: Call) -> str | None:
    unit = _unit(call, 0)
    if unit is None or unit not in {**_UNITS, **_SECONDS}:
        return "the unit is none of those from second to year as constants"
    if call.option("zone").instants:
        return "a zone whose clock changes: which of two equal local times is meant differs between Spark's ways"
    return arguments(pat.is_string, is_instant)(call)


@entry(
    "TruncTimestamp",
    holds_for="timestamp; units from second to year as constants; zones whose clock never changes",
    refusal=_time_unit,
    options=read_zone,
    raises=lambda call: True,
)
def start_of_time_unit(call: Call, values: Sequence[Value]) -> Value:
    unit = _unit(call, 0)
    assert unit is not None
    value, zone = values[1], call.option("zone")
    start = local_seconds(call, value)
    if unit in _UNITS:
        start = _start_of_unit(start // DAY_SECONDS, _UNITS[unit]) * DAY_SECONDS
    else:
        start = start - start % _SECONDS[unit]
    return in_micros(call, start - zone.offsets[0], nulls_of(value))
