"""Flows in the background: partial results, progress, cancelling, errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.errors import FlowCancelled, FlowFailed
from reshape.query import Query

FREE_BATCHES = 6


def held(gate: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A source that gives some batches and then waits for a file to appear. Some, because each of the pipes between the
    JVM and Python holds back up to 64 KiB."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            limit = time.monotonic() + 120
            while number >= FREE_BATCHES and not gate.exists() and time.monotonic() < limit:
                time.sleep(0.02)
            yield batch

    return wait


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "open"


@pytest.fixture
def slow(spark: SparkSession, gate: Path) -> DataFrame:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    rows = spark.range(0, 200_000, 1, 2).selectExpr("id % 5 AS k", "id AS v")
    return rows.mapInArrow(held(gate), rows.schema)


def until_shown(query: Query, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while sum(shown(query).values()) == 0:
        assert query.isActive, f"ended early: {query.exception()}"
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def shown(query: Query) -> dict[int, int]:
    table = query.partial()
    return {} if table is None else dict(zip(table["k"].to_pylist(), table["count"].to_pylist(), strict=True))


def left_over() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("reshape")]


def test_partial_results_appear_while_the_flow_runs(slow: DataFrame, gate: Path) -> None:
    query = reshape.flow(slow).groupBy("k").count().start()
    until_shown(query)
    before = shown(query)
    assert sum(before.values()) < 200_000
    gate.touch()
    assert {row["k"]: row["count"] for row in query.result(120).collect()} == dict.fromkeys(range(5), 40_000)
    query.release()
    del query
    assert left_over() == []


def test_stop_stops_everything(spark: SparkSession, slow: DataFrame) -> None:
    query = reshape.flow(slow).groupBy("k").count().start()
    until_shown(query)
    query.stop()
    assert not query.isActive
    with pytest.raises(FlowCancelled):
        query.awaitTermination(120)
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + 120
    while tracker.getActiveJobsIds() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert tracker.getActiveJobsIds() == []
    del query
    assert left_over() == []


def test_the_first_cause_is_reported(spark: SparkSession) -> None:
    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            raise ZeroDivisionError("one over nothing")
        yield from ()

    rows = spark.range(0, 1000, 1, 2).selectExpr("id % 5 AS k", "id AS v")
    query = reshape.flow(rows).repartition("k").mapInArrow(broken, "x long").start()
    with pytest.raises(FlowFailed, match=r"repartition \(operator 0\), worker \d: ZeroDivisionError: one over nothing"):
        query.awaitTermination(120)
