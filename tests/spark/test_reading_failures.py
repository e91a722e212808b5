"""Flows whose hosts read, in the background and when something goes wrong: the cause is told, and nothing stays."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import reshape
from reshape.errors import FlowCancelled, FlowFailed
from reshape.flows import Flow
from reshape.query import Query

ROWS = 40_000
# Only what hangs takes as long.
LIMIT_S = 120.0


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four files of several row groups."""
    rows = pa.table({"k": pa.array(np.arange(ROWS) % 5), "v": pa.array(np.arange(ROWS))})
    for number in range(4):
        pq.write_table(rows.slice(number * ROWS // 4, ROWS // 4), tmp_path / f"{number}.parquet", row_group_size=2_000)
    return tmp_path


@pytest.fixture
def df(spark: SparkSession, table: Path) -> DataFrame:
    return spark.read.parquet(str(table))


def by_hosts(df: DataFrame, **options: Any) -> Flow:
    return reshape.flow(df, joins="all", scan="arrow", hosts=2, workers=4, **options)


def slow(df: DataFrame) -> Flow:
    """It would take a quarter of an hour, most of it with rows that wait."""
    return by_hosts(df, cost_s_per_row=0.1)


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def assert_nothing_left(spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    until(lambda: not tracker.getActiveJobsIds(), "jobs run on")
    threads: list[str] = []

    def are_gone() -> bool:
        threads[:] = [thread.name for thread in threading.enumerate() if thread.name.startswith("reshape")]
        return not threads

    until(are_gone, f"threads are left: {threads}")


def is_reading(query: Query) -> bool:
    assert query.isActive, query.exception()
    progress = query.lastProgress
    return progress is not None and any(sum(worker.rows_processed) for worker in progress.workers)


def totals(df: DataFrame) -> dict[int, int]:
    return {row["k"]: row["count"] for row in df.collect()}


def test_partial_results_appear_and_the_result_can_be_had_again(spark: SparkSession, df: DataFrame) -> None:
    query = by_hosts(df.where("v < 4000"), cost_s_per_row=0.001).groupBy("k").count().start()
    assert totals(query.result(LIMIT_S)) == dict.fromkeys(range(5), 800)
    assert totals(query.result()) == totals(query.result()) == dict.fromkeys(range(5), 800)
    assert query.first_partial is not None
    assert query.first_partial.processed < 4_000
    shown = query.shown()
    assert shown is not None
    assert shown.final
    assert sum(shown.table["count"].to_pylist()) == 4_000
    query.release()
    del query
    assert_nothing_left(spark)


@pytest.mark.parametrize("change", ["removed", "truncated", "replaced"])
def test_a_file_that_changes_is_named(spark: SparkSession, df: DataFrame, table: Path, change: str) -> None:
    flow = by_hosts(df).groupBy("k").count()
    result = flow.toDF()
    file = table / "2.parquet"
    if change == "removed":
        file.unlink()
    elif change == "truncated":
        os.truncate(file, 1_000)
    else:
        pq.write_table(pa.table({"k": [1], "v": [1]}), table / "new")
        (table / "new").replace(file)
    query = flow.start()
    with pytest.raises(
        FlowFailed, match=r"source-0-host\d: SplitChanged: .*2\.parquet changed after the scan"
    ) as error:
        query.awaitTermination(LIMIT_S)
    assert "Make the DataFrame anew" in error.value.cause
    with pytest.raises(Exception, match=r"SplitChanged: .*2\.parquet changed after the scan"):
        result.collect()
    del result
    assert_nothing_left(spark)


def test_a_page_that_is_corrupt(spark: SparkSession, df: DataFrame, table: Path) -> None:
    file = table / "1.parquet"
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[4:600] = b"\xff" * 596
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    query = by_hosts(df).groupBy("k").agg(F.sum("v")).start()
    with pytest.raises(FlowFailed, match=r"source-0-host\d: SplitUnreadable: .*1\.parquet cannot be read"):
        query.awaitTermination(LIMIT_S)
    assert_nothing_left(spark)


def test_an_expression_that_spark_would_fail_at(spark: SparkSession, df: DataFrame) -> None:
    wrong = df.selectExpr("k", "10 div (v - 7) AS x")
    query = by_hosts(wrong).groupBy("k").agg(F.max("x")).start()
    with pytest.raises(FlowFailed, match=r"source-0-host\d: EvaluationFailed: \[DIVIDE_BY_ZERO\]"):
        query.awaitTermination(LIMIT_S)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        wrong.groupBy("k").agg(F.max("x")).collect()
    assert_nothing_left(spark)


def test_a_function_that_raises(spark: SparkSession, df: DataFrame) -> None:
    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            raise ZeroDivisionError("one over nothing")
        yield from ()

    query = by_hosts(df).repartition("k").mapInArrow(broken, "x long").start()
    with pytest.raises(FlowFailed, match=r"repartition \(operator 0\), worker \d: ZeroDivisionError: one over nothing"):
        query.awaitTermination(LIMIT_S)
    assert_nothing_left(spark)


def test_cancel(spark: SparkSession, df: DataFrame) -> None:
    query = slow(df).groupBy("k").count().start()
    until(lambda: is_reading(query), "no row is processed")
    query.stop()
    with pytest.raises(FlowCancelled):
        query.awaitTermination(LIMIT_S)
    assert_nothing_left(spark)


def test_a_job_that_spark_ends(spark: SparkSession, df: DataFrame) -> None:
    """Nobody tells the flow: the hosts are killed, and there is no job of a source that would miss them."""
    query = slow(df).groupBy("k").count().start()
    until(lambda: is_reading(query), "no row is processed")
    spark.sparkContext.cancelAllJobs()
    with pytest.raises(Exception, match="cancel"):
        query.awaitTermination(LIMIT_S)
    assert_nothing_left(spark)
