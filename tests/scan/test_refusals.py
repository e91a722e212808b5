"""What is no plain scan goes Spark's way, with a reason that people understand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812


@pytest.fixture
def path(tmp_path: Path) -> Any:
    pq.write_table(pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"]}), tmp_path / "t.parquet")
    return str(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda df: df.hint("merge").join(df, "id"), "a join"),
        (lambda df: df.limit(2), "a limit"),
        (lambda df: df.groupBy("s").count(), "an aggregation"),
        (lambda df: df.distinct(), "an aggregation"),
        (lambda df: df.sample(0.5, seed=1), "a sample"),
        (lambda df: df.orderBy("s"), "a sort"),
        (lambda df: df.repartition(2), "a repartition"),
        (lambda df: df.union(df), "a union"),
        (lambda df: df.select(F.explode(F.split("s", ""))), "a generator"),
        (lambda df: df.select(F.udf(lambda number: f"{number}")("id")), "outside of Spark"),
        (lambda df: df.mapInArrow(lambda batches: batches, df.schema), "outside of Spark"),
        (lambda df: df.select(F.input_file_name()), "input_file_name"),
        (lambda df: df.select("id", "_metadata.file_path"), "about the file"),
        (lambda df: df.select("id", "_metadata.row_index"), "about the file"),
        (lambda df: df.select(F.monotonically_increasing_id()), "monotonically_increasing_id"),
        (lambda df: df.where(F.rand() > 0.5), "rand"),
        (lambda df: df.where("id = (select max(id) from range(3))"), "a subquery"),
        (lambda df: df.where("false"), "rows that the driver holds"),
        (lambda df: df.sparkSession.range(3), "a range"),
    ],
)
def test_what_is_no_plain_scan(session: Any, reason: Callable[[Any], str], path: Path, change: Any, words: Any) -> None:
    assert words in reason(change(session.read.parquet(path)))


def test_cached_rows(session: Any, reason: Callable[[Any], str], path: Path) -> None:
    table = session.read.parquet(path).cache()
    try:
        assert "cached" in reason(table.where("id > 1"))
    finally:
        table.unpersist(blocking=True)


def test_other_formats_and_interfaces(session: Any, reason: Callable[[Any], str], path: Path, tmp_path: Path) -> None:
    session.range(3).write.json(str(tmp_path / "json"))
    assert "Parquet only" in reason(session.read.json(str(tmp_path / "json")))
    session.conf.set("spark.sql.sources.useV1SourceList", "")
    assert "DataSource V2" in reason(session.read.parquet(path))


@pytest.mark.parametrize("option", ["ignoreCorruptFiles", "IGNOREMISSINGFILES"])
def test_lenient_options(session: Any, reason: Callable[[Any], str], path: Path, option: Any) -> None:
    assert "Spark alone knows" in reason(session.read.option(option, "true").parquet(path))


def test_lenient_settings(session: Any, reason: Callable[[Any], str], path: Path) -> None:
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    assert "ignoreMissingFiles" in reason(session.read.parquet(path))


def test_char_padding(session: Any, reason: Callable[[Any], str], tmp_path: Path) -> None:
    session.sql(f"create table padded (c char(5)) using parquet location '{tmp_path / 'padded'}'")
    try:
        session.sql("insert into padded values ('a')")
        assert reason(session.table("padded"))
    finally:
        session.sql("drop table padded")


def test_files_that_changed_or_broke_since_they_were_listed(
    session: Any, reason: Callable[[Any], str], path: Path
) -> None:
    table = session.read.parquet(path)
    pq.write_table(pa.table({"id": [1], "s": ["longer than before"]}), path)
    assert "changed after the scan was planned" in reason(table)
    table = session.read.schema("id long").parquet(path)
    with open(path, "r+b") as file:
        file.truncate(30)
    assert "t.parquet" in reason(session.read.schema("id long").parquet(path))


def test_what_spark_itself_cannot_run(session: Any, reason: Callable[[Any], str], path: Path) -> None:
    # A filter on partitions that fails while files are listed.
    folder = f"{path}.partitioned"
    session.range(2).selectExpr("id", "'x' as p").write.partitionBy("p").parquet(folder)
    assert "Spark did not plan it" in reason(session.read.parquet(folder).where("cast(p as int) = 1"))


def test_fields_found_by_id(session: Any, reason: Callable[[Any], str], path: Path) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    session.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    schema = StructType([StructField("id", LongType(), True, {"parquet.field.id": 1})])
    assert "field ids" in reason(session.read.schema(schema).parquet(path))


def test_sessions_that_read_encrypted_files(session: Any, reason: Callable[[Any], str], path: Path) -> None:
    options = {"parquet.encryption.kms.client.class": "none"}
    assert "encrypted" in reason(session.read.options(**options).parquet(path))
