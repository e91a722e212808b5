"""Partitioned tables, saved tables, views, odd names, projections and filters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reshape.scan.planning import plan_scan
from reshape.scan.scan import Scan

from .conftest import read_all

PARTITIONED = (
    "id",
    "cast(id % 3 as int) as number",
    "if(id % 4 = 0, null, concat('a b/ü=%', id % 2)) as text",
    "date_add(date '2020-02-28', cast(id % 2 as int)) as day",
    "cast(id as string) as value",
)


@pytest.fixture
def partitioned(session: Any, tmp_path: Path) -> Any:
    path = str(tmp_path / "p")
    session.range(24).selectExpr(*PARTITIONED).coalesce(1).write.partitionBy("number", "text", "day").parquet(path)
    return session.read.parquet(path)


def test_partition_values(partitioned: Any, same_as_spark: Callable[[Any], Scan]) -> None:
    scan = same_as_spark(partitioned)
    assert {column.name for column in scan.partition_columns} == {"number", "text", "day"}
    assert None in {split.partition_values[1] for split in scan.splits}
    # Only what is needed, in another order, and twice.
    same_as_spark(partitioned.selectExpr("day as d", "value", "text", "text as again"))
    assert read_all(plan_scan(partitioned.select("number"))).num_rows == 24


def test_pruned_partitions_are_not_read(partitioned: Any, same_as_spark: Callable[[Any], Scan]) -> None:
    scan = same_as_spark(partitioned.where("number = 1 and text is null"))
    assert {split.partition_values[:2] for split in scan.splits} == {(1, None)}
    # A filter on partition columns and others at once is left to the reader.
    same_as_spark(partitioned.where("number = 1 or id > 20"))


def test_types_of_partition_values(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path) -> None:
    schema = "v long, i long, d decimal(7,2), b boolean, t timestamp, n timestamp_ntz, f double, s string, y tinyint"
    path = str(tmp_path / "p")
    names = "id as v, id as i, 1.25 as d, true as b, timestamp '2020-01-01 12:34:56.5' as t"
    more = "timestamp_ntz '1999-01-01 00:00:01' as n, 0.1d as f, '007' as s, cast(-3 as byte) as y"
    rows = session.range(2).selectExpr(*names.split(", "), *more.split(", "))
    rows.write.partitionBy(*rows.columns[1:]).parquet(path)
    same_as_spark(session.read.schema(schema).parquet(path))


def test_saved_tables_and_views(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path) -> None:
    session.range(10).selectExpr("id", "id % 2 as p").write.partitionBy("p").option(
        "path", str(tmp_path / "t")
    ).saveAsTable("scanned")
    try:
        same_as_spark(session.table("scanned").where("p = 1"))
        session.table("scanned").where("id > 3").createOrReplaceTempView("some")
        same_as_spark(session.sql("select p, id as renamed from some where id < 8"))
    finally:
        session.sql("drop table scanned")


def test_names_with_dots_spaces_and_capitals(
    session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path
) -> None:
    rows = session.range(5).selectExpr(
        "id as `a.b`",
        "id + 1 as `with space`",
        "id + 2 as `UPPER`",
        "id + 3 as `ü`",
        "struct(id as `x.y`, id as z) as st",
    )
    rows.write.parquet(str(tmp_path / "t"))
    same_as_spark(session.read.parquet(str(tmp_path / "t")))
    wanted = session.read.schema("upper long, `WITH SPACE` long").parquet(str(tmp_path / "t"))
    same_as_spark(wanted)
    session.conf.set("spark.sql.caseSensitive", "true")
    scan = plan_scan(session.read.schema("upper long, UPPER long").parquet(str(tmp_path / "t")))
    assert sorted(map(repr, read_all(scan).to_pylist())) == [repr({"upper": None, "UPPER": i + 2}) for i in range(5)]


def test_a_name_that_may_be_a_column_or_a_nested_field_is_refused(
    session: Any, reason: Callable[[Any], str], tmp_path: Path
) -> None:
    session.range(5).selectExpr("struct(id as b) as a", "id * 2 as `a.b`").write.parquet(str(tmp_path / "t"))
    assert "dots" in reason(session.read.parquet(str(tmp_path / "t")))


def test_projections_and_filters(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path) -> None:
    session.range(100).selectExpr("id", "cast(id as string) as s", "if(id % 7 = 0, null, id) as n").write.parquet(
        str(tmp_path / "t")
    )
    table = session.read.parquet(str(tmp_path / "t"))
    same_as_spark(
        table.selectExpr("n as first", "id as second", "n as third", "1 as one", "cast(null as int) as nothing")
    )
    same_as_spark(table.where("n > 10 and s < '5'").select("s"))
    same_as_spark(table.where("n is null or id in (1, 2, 3)"))
    assert read_all(plan_scan(table.where("id = -1"))).num_rows == 0


def test_rows_without_columns(session: Any, tmp_path: Path) -> None:
    session.range(100).write.parquet(str(tmp_path / "t"))
    table = session.read.parquet(str(tmp_path / "t"))
    assert read_all(plan_scan(table.select())).num_rows == 100
    assert read_all(plan_scan(table.where("id < 10").select())).num_rows == 10
    assert read_all(plan_scan(table.selectExpr("'x' as x")), batch_rows=7).to_pylist() == [{"x": "x"}] * 100


def test_empty_tables_and_files(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path) -> None:
    session.range(0).selectExpr("id", "'x' as s").write.parquet(str(tmp_path / "none"))
    assert same_as_spark(session.read.parquet(str(tmp_path / "none"))).splits[0].rows == 0
    # One file of three has rows.
    session.range(9).where("id = 4").selectExpr("id", "'x' as s").write.parquet(str(tmp_path / "some"))
    same_as_spark(session.read.parquet(str(tmp_path / "some")))


def test_bucketed_tables(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path) -> None:
    rows = session.range(50).selectExpr("id", "id % 5 as k")
    rows.write.bucketBy(4, "k").option("path", str(tmp_path / "b")).saveAsTable("bucketed")
    try:
        same_as_spark(session.table("bucketed"))
        same_as_spark(session.table("bucketed").where("k = 3"))
    finally:
        session.sql("drop table bucketed")


def test_plans_that_adapt(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path) -> None:
    session.range(20).write.parquet(str(tmp_path / "t"))
    session.conf.set("spark.sql.adaptive.forceApply", "true")
    same_as_spark(session.read.parquet(str(tmp_path / "t")).where("id > 3"))
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    same_as_spark(session.read.parquet(str(tmp_path / "t")).where("id > 3"))
