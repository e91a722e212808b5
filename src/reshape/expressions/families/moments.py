"""Dates, timestamps and the calendar: days and microseconds since 1970, the Gregorian calendar for all years."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.expressions.arrays import Mask, array_of, nulls_of, numbers_of
from reshape.expressions.errors import EvaluationFailed
from reshape.expressions.table import Value
from reshape.expressions.tree import Call
from reshape.expressions.types import is_instant

Days = npt.NDArray[Any]

MICROS = 1_000_000
DAY_SECONDS = 86_400
# Microseconds of 64 bits end in this year of about 292,000 either way.
_LAST_DAY = (2**63 - 1) // (DAY_SECONDS * MICROS)
_FOUR_DIGIT_YEARS = (-719_528, 2_932_896)


def months_and_day(days: Days) -> tuple[Days, Days]:
    """Months since January 1970, and the day of the month counted from 0."""
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    return months.astype(np.int64), days - months.astype("datetime64[D]").astype(np.int64)


def first_of_month(months: Days) -> Days:
    """The days since 1970 on which months begin."""
    return np.asarray(months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64))


def days_of(value: pa.Array) -> Days:
    return numbers_of(value).astype(np.int64)


def local_seconds(call: Call, value: pa.Array) -> npt.NDArray[np.int64]:
    """Whole seconds of the local time since 1970, in the call's zone for timestamps that have one."""
    seconds = numbers_of(value) // MICROS
    return seconds + call.option("zone").offset_at(seconds) if is_instant(value.type) else seconds


def instant_to_date(call: Call, value: pa.Array) -> Value:
    return array_of(local_seconds(call, value) // DAY_SECONDS, nulls_of(value), call.type)


def local_to_date(call: Call, value: pa.Array) -> Value:
    return array_of(local_seconds(call, value) // DAY_SECONDS, nulls_of(value), call.type)


def date_to_instant(call: Call, value: pa.Array) -> Value:
    nulls, days = nulls_of(value), days_of(value)
    checked_range(call, nulls, np.abs(days) > _LAST_DAY - 1)
    return array_of(call.option("zone").start_of_day(days) * MICROS, nulls, call.type)


def date_to_local(call: Call, value: pa.Array) -> Value:
    nulls, days = nulls_of(value), days_of(value)
    checked_range(call, nulls, np.abs(days) > _LAST_DAY - 1)
    return array_of(days * DAY_SECONDS * MICROS, nulls, call.type)


def checked_range(call: Call, nulls: Mask, failed: Mask) -> None:
    """Raises in all modes, as Java's exact arithmetic does."""
    failed = failed & ~nulls
    if failed.any():
        raise EvaluationFailed("overflow", call.function, f"{int(failed.sum())} rows of a batch have no {call.type}")


def date_to_string(call: Call, value: pa.Array) -> Value:
    """ISO 8601; years of more than four digits have a sign."""
    nulls, days = nulls_of(value), days_of(value)
    texts = np.datetime_as_string(np.clip(days, *_FOUR_DIGIT_YEARS).astype("datetime64[D]")).astype(object)
    for row in np.flatnonzero((days < _FOUR_DIGIT_YEARS[0]) | (days > _FOUR_DIGIT_YEARS[1])):
        months, day = months_and_day(days[row : row + 1])
        year = int(months[0] // 12 + 1970)
        sign = "-" if year < 0 else "+"
        texts[row] = f"{sign}{abs(year):04d}-{int(months[0] % 12) + 1:02d}-{int(day[0]) + 1:02d}"
    return pa.array(texts, type=pa.string(), mask=nulls)
