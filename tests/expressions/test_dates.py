"""Dates and times: the calendar of all years, and clocks of zones that change, as Java has them."""

import random
from typing import Any

import pyarrow as pa
import pytest

from reshape.expressions.translate import NotExact

from .comparing import Rows, assert_same, translated
from .samples import DAY, EXTREME_INSTANTS, TYPES, batch

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Africa/Monrovia",
    "+05:30",
    "Asia/Kathmandu",
]
PARTS = ["year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "weekofyear"]


@pytest.fixture(scope="module")
def rows(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return Rows.of(spark, batch(), tmp_path_factory.mktemp("rows"))


def test_dates(rows: Rows) -> None:
    assert_same(
        rows,
        [f"{part}(date1)" for part in PARTS]
        + [f"trunc(date1, '{unit}')" for unit in ("week", "MM", "mon", "quarter", "year", "yyyy")]
        + ["date_add(date1, 3)", "date_add(date1, int1)", "date_sub(date1, short1)", "datediff(date1, date2)"]
        + ["date_add(date1, byte1)", "last_day(date1)", "unix_date(date1)", "date_from_unix_date(int1)"],
    )


def test_local_times(rows: Rows) -> None:
    parts = [f"{part}(ntz1)" for part in (*PARTS, "hour", "minute", "second")]
    assert_same(rows, [*parts, "cast(ntz1 as date)", "cast(date1 as timestamp_ntz)"])


@pytest.fixture(scope="module")
def moments(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Timestamps and dates of all ages, most of them of the last and next centuries, and all days around 2018."""
    draw = random.Random(7)
    spans = [DAY * 365 * years for years in (1, 100, 1000, 200_000)]
    instants = [draw.randrange(-draw.choice(spans), draw.choice(spans)) for _ in range(1000)]
    days = [*range(17_200, 17_900), *(instant // DAY for instant in instants[:300])]
    columns = {"ts1": pa.array(instants, type=TYPES["ts"][0]), "date1": pa.array(days, type=pa.date32())}
    return Rows.of(spark, pa.RecordBatch.from_pydict(columns), tmp_path_factory.mktemp("moments"))


@pytest.mark.parametrize("zone", ZONES)
def test_zones(rows: Rows, moments: Rows, spark: Any, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        parts = [f"{part}(ts1)" for part in ("year", "month", "day", "hour", "minute", "second", "dayofweek")]
        for some in (rows, moments):
            assert_same(some, [*parts, "cast(ts1 as date)", "cast(date1 as timestamp)", "unix_micros(ts1)"])
        units = ("week", "month", "quarter", "year", "day", "hour", "minute", "second")
        cuts = [f"date_trunc('{unit}', ts1)" for unit in units]
        if zone in ("UTC", "+05:30"):
            assert_same(moments, cuts)
        else:
            assert all(isinstance(answer, NotExact) for answer in translated(rows, cuts))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_ends_of_time(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first and last dates and timestamps that Spark can hold."""
    moments = [*EXTREME_INSTANTS, 0]
    days = [2**31 - 1, -(2**31), 106_751_990, -106_751_990, 106_751_991]
    extreme = pa.RecordBatch.from_pydict(
        {
            "ts1": pa.array(moments, type=TYPES["ts"][0]),
            "ntz1": pa.array(moments, type=TYPES["ntz"][0]),
            "date1": pa.array(days, type=pa.date32()),
        }
    )
    rows = Rows.of(spark, extreme, tmp_path_factory.mktemp("extreme"))
    assert_same(
        rows,
        [f"{part}(ts1)" for part in ("year", "hour", "second")]
        + [f"{part}(date1)" for part in PARTS]
        + ["cast(ts1 as date)", "cast(ntz1 as date)", "cast(date1 as string)", "cast(date1 as timestamp_ntz)"]
        + ["cast(date1 as timestamp)", "date_add(date1, 1)", "date_trunc('year', ts1)", "trunc(date1, 'year')"]
        + ["last_day(date1)", "ts1 < timestamp'2020-01-01 00:00:00'"],
    )
