"""The handle of a query beside PySpark's StreamingQuery: who it is, how far it is, pausing, listeners."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import reshape
from reshape.errors import FlowCancelled
from reshape.query import Query

# Its sessions come by names of fixtures.
pytestmark = pytest.mark.jvm
ROWS = 12_000
LIMIT_S = 120.0
QUIET_S = 1.0


@pytest.fixture
def by_hosts(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Files of many row groups, that hosts read."""
    path = str(tmp_path / "rows")
    rows = spark.range(0, ROWS, 1, 4).selectExpr("id % 5 AS k", "id AS v")
    rows.write.option("parquet.block.size", 16_384).option("parquet.page.size", 4_096).parquet(path)
    return spark.read.parquet(path)


@pytest.fixture
def by_spark(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 8).selectExpr("id % 5 AS k", "id AS v")


@pytest.fixture(params=["by_hosts", "by_spark"])
def df(request: pytest.FixtureRequest) -> DataFrame:
    found: DataFrame = request.getfixturevalue(request.param)
    return found


def slow(df: DataFrame) -> reshape.Flow:
    return reshape.flow(df, name="handled", cost_s_per_row=0.0005, combine=False).groupBy("k").count()


def gated(df: DataFrame, gate: Path) -> reshape.Flow:
    """Minutes of work, which is over at once when the gate is there: no machine is so slow that it ends before."""

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(batch.num_rows):
                if not gate.exists():
                    time.sleep(0.02)
            yield batch

    return reshape.flow(df, name="handled").repartition("k").mapInArrow(slowly, df.schema).groupBy("k").count()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)


def processed(query: Query) -> int:
    progress = query.lastProgress
    return 0 if progress is None else sum(sum(worker.rows_processed) for worker in progress.workers)


@pytest.fixture
def started(df: DataFrame) -> Iterator[Query]:
    query = slow(df).start()
    yield query
    query.stop()
    query.release()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture
def long(df: DataFrame, gate: Path) -> Iterator[Query]:
    query = gated(df, gate).start()
    yield query
    query.stop()
    query.release()


def totals(df: DataFrame) -> dict[int, int]:
    return {row["k"]: row["count"] for row in df.collect()}


def test_it_has_what_a_streaming_query_has() -> None:
    theirs = {name for name in vars(StreamingQuery) if not name.startswith("_")} - {"processAllAvailable"}
    assert theirs <= set(dir(Query))
    for name in theirs:
        assert isinstance(vars(Query)[name], property) == isinstance(vars(StreamingQuery)[name], property), name


def test_who_it_is(by_spark: DataFrame) -> None:
    flow = slow(by_spark)
    first, second = flow.start(), flow.start()
    other = reshape.flow(by_spark, name="handled").groupBy("v").count().start()
    try:
        assert first.id == second.id != other.id
        assert first.runId != second.runId
        assert first.name == "handled"
    finally:
        for query in (first, second, other):
            query.stop()


def test_progress_grows_up_to_the_end(started: Query, capsys: pytest.CaptureFixture[str]) -> None:
    assert totals(started.result(LIMIT_S)) == dict.fromkeys(range(5), ROWS // 5)
    records = started.recentProgress
    assert 2 < len(records) <= 100
    last = records[-1]
    assert last == started.lastProgress
    parts = [record.part_read for record in records]
    assert None not in parts
    assert parts == sorted(part for part in parts if part is not None)
    assert (last.part_read, last.numInputRows, last.rows_waiting, last.seconds_left) == (1.0, ROWS, 0, 0.0)
    assert processed(started) == ROWS
    assert {worker.label for worker in last.workers} == {"group by (operator 0)"}
    assert max(record.inputRowsPerSecond for record in records) > 0
    assert any(record.seconds_left for record in records[:-1])
    told = json.loads(last.json)
    assert told["runId"] == started.runId
    assert told["sources"][0]["numInputRows"] == ROWS
    assert started.status == {"message": "done", "isDataAvailable": False, "isTriggerActive": False}
    started.explain()
    assert "group by" in capsys.readouterr().out


def test_pause_resume(long: Query, gate: Path) -> None:
    until(lambda: processed(long) > 0, "the first rows")
    long.pause()
    assert long.status["message"].startswith("paused")
    assert long.status["isDataAvailable"]
    assert not long.status["isTriggerActive"]
    before: list[int] = []

    def stands_still() -> bool:
        before.append(processed(long))
        time.sleep(QUIET_S)
        return processed(long) == before[-1]

    until(stands_still, "workers to stop")
    assert before[-1] < ROWS
    assert long.lastProgress is not None
    assert long.lastProgress.paused
    gate.touch()
    long.resume()
    assert totals(long.result(LIMIT_S)) == dict.fromkeys(range(5), ROWS // 5)


def test_stop_while_it_is_paused(long: Query) -> None:
    until(lambda: processed(long) > 0, "the first rows")
    long.pause()
    long.stop()
    assert long.status["message"] == "stopped"
    assert isinstance(long.exception(), FlowCancelled)


class Heard(reshape.QueryListener):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.ended = threading.Event()

    def onQueryStarted(self, event: reshape.QueryStartedEvent) -> None:  # noqa: N802
        self.events.append(f"{event.runId} started")

    def onQueryProgress(self, event: reshape.QueryProgressEvent) -> None:  # noqa: N802
        self.events.append(f"{event.progress.runId} goes on")

    def onQueryTerminated(self, event: reshape.QueryTerminatedEvent) -> None:  # noqa: N802
        self.events.append(f"{event.runId} ended: {event.exception}")
        self.ended.set()


def test_listeners_hear_of_a_query(by_spark: DataFrame) -> None:
    heard = Heard()
    reshape.add_listener(heard)
    try:
        query = slow(by_spark).start()
        query.awaitTermination(LIMIT_S)
        assert heard.ended.wait(LIMIT_S)
    finally:
        reshape.remove_listener(heard)
    run = query.runId
    assert heard.events[0] == f"{run} started"
    assert heard.events[-1] == f"{run} ended: None"
    assert set(heard.events[1:-1]) == {f"{run} goes on"}
    query.release()


def test_the_largest_rows_and_the_running_result(started: Query) -> None:
    started.awaitTermination(LIMIT_S)
    top = started.top(2)
    assert top is not None
    assert (top.rows.num_rows, top.more) == (2, 3)
    shown = started.shown()
    assert shown is not None
    assert shown.toPandas()["count"].tolist() == [ROWS // 5] * 5
    estimates = shown.estimates["count"]
    if isinstance(estimates, str):  # where Spark reads, and where a file is one split
        assert "source 0" in estimates
    else:
        assert {(each.low, each.high) for each in estimates if each is not None} == {(ROWS / 5, ROWS / 5)}
