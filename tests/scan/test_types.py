"""Every type of Spark that files hold, written by Spark and by Arrow, is read as Spark reads it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reshape.scan.scan import Scan

PRIMITIVES = (
    "id > 1 as boolean",
    "cast(id - 2 as byte) as byte",
    "cast(id * 7 as short) as short",
    "cast(id * 1000 as int) as int",
    "id as long",
    "cast(id / 3 as float) as float",
    "case id when 0 then double('NaN') when 1 then -0.0d else id / 7 end as double",
    "cast(id as string) as string",
    "cast(concat('é€😀', id) as binary) as binary",
    "cast(id * 1.25 as decimal(7, 2)) as dec_int32",
    "cast(id * 1.25 as decimal(17, 3)) as dec_int64",
    "cast(id * 1234567890123456789012345.25 as decimal(38, 5)) as dec_fixed",
    "date_add(date '0001-01-01', cast(id * 100000 as int)) as date",
    "timestamp_micros(id * 12345678901234567 - 62000000000000000) as ltz",
    "cast(timestamp_micros(id * 12345678901234567 - 62000000000000000) as timestamp_ntz) as ntz",
    "cast(null as string) as nothing",
)

# Each column once more with nulls in it.
WITH_NULLS = "if(id % 3 = 0, null, {0}) as {0}_or_null"


def primitives(spark: Any) -> Any:
    rows = spark.range(20).selectExpr("id", *PRIMITIVES)
    return rows.selectExpr("*", *[WITH_NULLS.format(name) for name in rows.columns])


@pytest.mark.parametrize(
    ("timestamps", "legacy_format"),
    [("INT96", "false"), ("INT96", "true"), ("TIMESTAMP_MICROS", "false"), ("TIMESTAMP_MILLIS", "false")],
)
def test_what_spark_wrote(
    session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path, timestamps: Any, legacy_format: Any
) -> None:
    session.conf.set("spark.sql.parquet.outputTimestampType", timestamps)
    session.conf.set("spark.sql.parquet.writeLegacyFormat", legacy_format)
    primitives(session).coalesce(1).write.parquet(str(tmp_path / "t"))
    scan = same_as_spark(session.read.parquet(str(tmp_path / "t")))
    assert [split.rows for split in scan.splits] == [20]


def test_nested_types(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path) -> None:
    session.range(30).selectExpr(
        "named_struct('a', id, 'B', cast(id as string), 'in', named_struct('d', date_add(date '2020-01-01', 1))) as s",
        "if(id % 4 = 0, null, transform(sequence(0, id % 3), x -> if(x = 1, null, x))) as l",
        "map(cast(id as string), id / 2, 'x', null) as m",
        "array(named_struct('a', id, 'b', array(cast(id as decimal(9, 1))))) as ls",
        "if(id % 5 = 0, null, named_struct('a', id)) as null_s",
        "map('k', named_struct('t', timestamp_micros(id))) as ms",
    ).write.parquet(str(tmp_path / "t"))
    same_as_spark(session.read.parquet(str(tmp_path / "t")))


def test_lists_as_old_writers_stored_them_are_refused(
    session: Any, reason: Callable[[Any], str], same_as_spark: Callable[[Any], Scan], tmp_path: Path
) -> None:
    session.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    session.range(3).selectExpr("id", "array(id, null) as l", "array(struct(id)) as ls").write.parquet(
        str(tmp_path / "t")
    )
    table = session.read.parquet(str(tmp_path / "t"))
    assert "not stored as l.list.element" in reason(table.select("l"))
    assert "not stored as ls.list.element.id" in reason(table.select("ls"))
    same_as_spark(table.select("id"))


def arrow_table() -> pa.Table:
    return pa.table(
        {
            "i8": pa.array([1, None, -128], pa.int8()),
            "i16": pa.array([1, None, -32768], pa.int16()),
            "u8": pa.array([255, None, 0], pa.uint8()),
            "u16": pa.array([65535, None, 0], pa.uint16()),
            "u32": pa.array([2**32 - 1, None, 0], pa.uint32()),
            "u64": pa.array([2**64 - 1, None, 0], pa.uint64()),
            "large": pa.array(["a", None, "ü"], pa.large_string()),
            "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
            "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
            "large_binary": pa.array([b"ab", None, b"cd"], pa.large_binary()),
            "ltz": pa.array([-5, None, 2**50], pa.timestamp("us", "Europe/Berlin")),
            "ltz_ms": pa.array([-5, None, 2**40], pa.timestamp("ms", "UTC")),
            "ntz": pa.array([-5, None, 2**50], pa.timestamp("us")),
            "seconds": pa.array([-5, None, 2**30], pa.timestamp("s")),
            "date": pa.array([-800_000, None, 18_000], pa.int32()).cast(pa.date32()),
            "decimal": pa.array([Decimal("1.25"), None, Decimal("-9.50")], pa.decimal128(20, 2)),
            "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
            "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            "list_of_values": pa.array([[1], [2, 3], []], pa.list_(pa.field("item", pa.int64(), nullable=False))),
            "lists": pa.array([[["a", None], None], None, []], pa.list_(pa.list_(pa.large_string()))),
            "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": None}]),
        }
    )


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "none"])
def test_what_arrow_wrote(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path, codec: Any) -> None:
    path = str(tmp_path / "t.parquet")
    pq.write_table(arrow_table(), path, compression=codec)
    same_as_spark(session.read.parquet(path))


def test_decimals_as_arrow_stores_them_in_integers(
    session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path
) -> None:
    values = [Decimal("1.25"), None, Decimal("-9.50")]
    table = pa.table({"short": pa.array(values, pa.decimal128(8, 2)), "long": pa.array(values, pa.decimal128(17, 2))})
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path, store_decimal_as_integer=True)
    assert pq.read_metadata(path).schema.column(0).physical_type == "INT32"
    same_as_spark(session.read.parquet(path))


@pytest.mark.parametrize(
    ("column", "word"),
    [
        (pa.array([1], pa.timestamp("ns")), "nanoseconds"),
        (pa.array([1], pa.duration("us")), "duration"),
    ],
)
def test_what_spark_and_arrow_read_differently_is_refused(
    session: Any, tmp_path: Path, reason: Callable[[Any], str], column: Any, word: Any
) -> None:
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": column}), path)
    session.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    assert word in reason(session.read.parquet(path))


def test_intervals_are_refused(session: Any, tmp_path: Path, reason: Callable[[Any], str]) -> None:
    session.sql("select interval '1 02:03' day to minute as i").write.parquet(str(tmp_path / "t"))
    assert "interval" in reason(session.read.parquet(str(tmp_path / "t")))
