"""Small tables for random queries: all usual types, nulls, duplicates, and one without rows; as Parquet."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import SparkSession

from .expressions import Column

TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "decimal": pa.decimal128(10, 2),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "boolean": pa.bool_(),
}
# Rows by table, and the kinds of its columns.
ROWS = {"wide": 60, "keyed": 90, "short": 12, "tall": 150, "empty": 0}
SHAPES: dict[str, tuple[str, ...]] = {
    "wide": ("int", "bigint", "double", "decimal", "string", "date", "timestamp", "boolean"),
    "keyed": ("int", "int", "string", "decimal"),
    "short": ("int", "string", "date", "boolean"),
    "tall": ("int", "bigint", "string", "double", "timestamp"),
    "empty": ("int", "bigint", "string", "decimal", "date"),
}
EMPTY = "empty"
NULLS = 0.12
HOT = 0.4  # of the rows have the first of the values
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)

TABLES: dict[str, tuple[Column, ...]] = {
    table: tuple(Column(f"{kind}_{number}", kind) for number, kind in enumerate(kinds))
    for table, kinds in SHAPES.items()
}


def make_small_tables(folder: Path) -> None:
    for name, kinds in SHAPES.items():
        rng = Random(f"table {name}")
        columns = {
            column.text: pa.array([_value(rng, kind) for _ in range(ROWS[name])], TYPES[kind])
            for column, kind in zip(TABLES[name], kinds, strict=True)
        }
        table = pa.table(columns)
        home = folder / name
        home.mkdir(parents=True)
        half = -(-ROWS[name] // 2)
        for number, part in enumerate((table.slice(0, half), table.slice(half))):
            parquet.write_table(part, home / f"part-{number}.parquet")


def register_small_tables(spark: SparkSession, folder: Path) -> None:
    for name in SHAPES:
        spark.read.parquet((folder / name).as_uri()).createOrReplaceTempView(name)


def _value(rng: Random, kind: str) -> Any:
    if rng.random() < NULLS:
        return None
    place = 0 if rng.random() < HOT else rng.randrange(8)
    match kind:
        case "int":
            return (1, 0, 2, 3, -5, 7, 12, 40_000)[place]
        case "bigint":
            return (1, 0, 2, -9, 11, 5_000_000_000, 3, 12)[place]
        case "double":
            return (0.25, 0.0, -0.0, 1.5, -2.0, math.nan, math.inf, 1024.75)[place]
        case "decimal":
            return Decimal(("1.50", "0.00", "-7.25", "100.00", "0.01", "99999999.99", "3", "2.5")[place])
        case "string":
            return ("a", "", "b", "Zebra", "a b", "ä%_", "12", "A")[place]
        case "date":
            return date(2020, 2, 29) + timedelta(days=(0, 1, -1, 400, -9_000, 30, 31, 7)[place])
        case "timestamp":
            return EPOCH + timedelta(hours=(0, 1, 25, -800_000, 17, 36, 2, 9_999)[place], microseconds=place)
        case _:
            return place % 2 == 0
