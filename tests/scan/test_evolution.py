"""Files of one table whose schemas differ: read as Spark reads them, or refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reshape.scan.scan import Scan


def write(folder: Path, **tables: Any) -> Any:
    folder.mkdir(exist_ok=True)
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return str(folder)


def test_missing_and_reordered_columns(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path) -> None:
    path = write(
        tmp_path / "t",
        a=pa.table({"x": [1, 2], "y": ["a", "b"], "l": [[1], []]}),
        b=pa.table({"y": ["c"], "x": [3]}),
        c=pa.table({"l": [[5]], "other": [1.5]}),
    )
    table = session.read.schema("x long, y string, l array<long>, never date").parquet(path)
    same_as_spark(table)
    same_as_spark(table.where("x > 1"))
    same_as_spark(table.where("x is null").select("y"))
    same_as_spark(session.read.option("mergeSchema", "true").parquet(path))


def test_widened_columns(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path) -> None:
    path = write(
        tmp_path / "t",
        narrow=pa.table(
            {
                "i": pa.array([1, -(2**31)], pa.int32()),
                "s": pa.array([1, -128], pa.int8()),
                "f": pa.array([0.1, None], pa.float32()),
                "n": pa.array([2**31 - 1, None], pa.int32()),
                "d": pa.array([Decimal("1.25"), None], pa.decimal128(5, 2)),
            }
        ),
        wide=pa.table(
            {
                "i": pa.array([2**40], pa.int64()),
                "s": pa.array([2**14], pa.int16()),
                "f": [0.1],
                "n": [0.5],
                "d": pa.array([Decimal("12345678901.2345")], pa.decimal128(20, 4)),
            }
        ),
    )
    table = session.read.schema("i long, s short, f double, n double, d decimal(20, 4)").parquet(path)
    same_as_spark(table)
    same_as_spark(table.where("i < 5"))


def test_widening_is_left_to_spark_where_its_reader_is_the_other_one(
    session: Any, reason: Callable[[Any], str], same_as_spark: Callable[[Any], Scan], tmp_path: Path
) -> None:
    path = write(tmp_path / "t", narrow=pa.table({"i": pa.array([1], pa.int32())}))
    session.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    assert "INT32 and wanted as bigint" in reason(session.read.schema("i long").parquet(path))
    same_as_spark(session.read.parquet(path))


@pytest.mark.parametrize(
    ("stored", "wanted", "words"),
    [
        (pa.array([1], pa.int64()), "int", "INT64 and wanted as int"),
        (pa.array([300], pa.int32()), "tinyint", "INT32 and wanted as tinyint"),
        (pa.array(["a"]), "long", "String"),
        (pa.array([1.5]), "float", "DOUBLE"),
        (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), "decimal(5, 1)", "Decimal"),
        (pa.array([5], pa.timestamp("us")), "timestamp", "no zone"),
        (pa.array([1]), "array<long>", "int64"),
        (pa.array([[1]]), "long", "list"),
        (pa.array([{"a": 1}]), "struct<a long, b long>", "no field b"),
        (pa.array([{"a": 1, "b": 2}]), "struct<b long, a long>", "order"),
        (pa.array([{"a": pa.scalar(1, pa.int32())}], pa.struct([("a", pa.int32())])), "struct<a long>", "INT32"),
    ],
)
def test_other_changes_of_type_are_refused(
    session: Any, reason: Callable[[Any], str], tmp_path: Path, stored: Any, wanted: Any, words: Any
) -> None:
    path = write(tmp_path / "t", a=pa.table({"x": stored}))
    assert words in reason(session.read.schema(f"x {wanted}").parquet(path))


def test_columns_that_differ_by_case_only(session: Any, reason: Callable[[Any], str], tmp_path: Path) -> None:
    path = write(tmp_path / "t", a=pa.table({"x": [1], "X": [2]}))
    assert "more than one column named x" in reason(session.read.schema("x long").parquet(path))


def test_one_odd_file_among_many_is_found_before_anything_is_read(
    session: Any, reason: Callable[[Any], str], tmp_path: Path
) -> None:
    good = {f"f{number}": pa.table({"x": [number]}) for number in range(9)}
    path = write(tmp_path / "t", **good, odd=pa.table({"x": ["text"]}))
    assert re.search(r"odd\.parquet.*wanted as bigint", reason(session.read.schema("x long").parquet(path)))


def test_defaults_of_added_columns_are_left_to_spark(
    session: Any, reason: Callable[[Any], str], tmp_path: Path
) -> None:
    session.sql(f"create table grown (a int) using parquet location '{tmp_path / 'grown'}'")
    try:
        session.sql("insert into grown values (1)")
        session.sql("alter table grown add column b int default 7")
        assert "default" in reason(session.table("grown"))
    finally:
        session.sql("drop table grown")
