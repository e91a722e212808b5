"""Flows never hang for lack of slots, and end when they are told to, wherever they are. The session has four slots."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.driver import slot_watch
from reshape.errors import FlowCancelled, FlowFailed, TooFewSlots
from reshape.flows import Flow
from reshape.query import Query

T = TypeVar("T")

# What does not hang is through in some seconds; a busy machine may take longer.
LIMIT_S = 180.0


@pytest.fixture
def within(spark: SparkSession) -> Iterator[Callable[[Callable[[], T]], T]]:
    """Runs something that must not hang; if it does, the session goes on without it."""

    def run(call: Callable[[], T]) -> T:
        future: Future[T] = Future()

        def work() -> None:
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, name="test-within", daemon=True).start()
        try:
            return future.result(LIMIT_S)
        except TimeoutError:
            pytest.fail(f"it hangs: nothing came of it within {LIMIT_S:.0f} s")
        finally:
            if not future.done() or future.exception() is not None:
                spark.sparkContext.cancelAllJobs()

    yield run
    wait_for("jobs to end", lambda: not spark.sparkContext.statusTracker().getActiveJobsIds())
    wait_for("threads to end", lambda: not left_over())


def left_over() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("reshape")]


def wait_for(what: str, condition: Callable[[], Any], limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {limit_s:.0f} s for {what}"
        time.sleep(0.05)


def totals(spark: SparkSession, name: str, **options: Any) -> Flow:
    rows = spark.range(0, 1000, 1, 2).selectExpr("id % 10 AS k", "id AS v")
    return reshape.flow(rows, name=name, **options).groupBy("k").count()


def gated(spark: SparkSession, name: str, gate: Path, **options: Any) -> Flow:
    """Its rows come when the gate is there."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            deadline = time.monotonic() + LIMIT_S
            while not gate.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            yield batch

    rows = spark.range(0, 1000, 1, 2).selectExpr("id % 10 AS k", "id AS v")
    return reshape.flow(rows.mapInArrow(wait, rows.schema), name=name, **options).groupBy("k").count()


Within = Callable[[Callable[[], Any]], Any]


# Results that meet


@pytest.mark.parametrize(
    ("meet", "rows"),
    [
        (lambda a, b: a.union(b), 20),
        (lambda a, b: a.join(b, "k"), 10),
    ],
    ids=["union", "join"],
)
def test_two_results_in_one_job(
    spark: SparkSession, within: Within, meet: Callable[[DataFrame, DataFrame], DataFrame], rows: int
) -> None:
    a, b = totals(spark, "a").toDF(), totals(spark, "b").toDF()
    b = b.withColumnRenamed("count", "other")
    assert within(meet(a, b).count) == rows


def test_results_that_have_been_there_before_meet_later(spark: SparkSession, within: Within) -> None:
    """Each has two hosts of four slots: neither is known to be met by the other when it is made."""
    a = totals(spark, "a").toDF()
    assert within(a.count) == 10
    b = totals(spark, "b").toDF().withColumnRenamed("count", "other")
    assert within(b.count) == 10
    assert within(a.join(b, "k").count) == 10


@pytest.mark.parametrize("hosts", [{}, {"hosts": 2}], ids=["as it is", "two hosts"])
def test_a_flow_that_reads_the_result_of_another(spark: SparkSession, within: Within, hosts: dict[str, int]) -> None:
    inner = totals(spark, "inner", **hosts).toDF().where("count > 1")
    outer = reshape.flow(inner, name="outer").groupBy("k").count().toDF()
    assert within(outer.count) == 10


def test_a_flow_for_which_what_it_reads_leaves_no_room(spark: SparkSession) -> None:
    inner = totals(spark, "inner", hosts=3).toDF()
    with pytest.raises(
        TooFewSlots, match=r"has 4 task slots; this flow needs 1 for its hosts, 3 for those of inner-\w+"
    ):
        reshape.flow(inner).groupBy("k").count().toDF()


def test_results_that_cannot_meet_say_so_and_the_session_goes_on(
    spark: SparkSession, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_watch, "STUCK_S", 3.0)
    a, b = totals(spark, "a", hosts=2).toDF(), totals(spark, "b", hosts=2).toDF()
    said = (
        r"of the session's 4 task slots, 2 by the hosts of flow [ab]-\w+, 2 by the hosts of flow [ab]-\w+ are held "
        r"and 0 are free; wanted are 1 for the sources of [ab]-\w+.*hosts=1.*local\[5\]"
    )
    with pytest.raises(Exception, match=said):
        within(a.union(b).count)
    assert within(a.count) == 10


# Turns


@pytest.fixture
def scheduler_log(spark: SparkSession) -> Iterator[Callable[[], str]]:
    """What Spark's scheduler warns of. Spark writes some lines a moment after a call, but before those of the next."""
    jvm: Any = spark.sparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    scheduler = log4j.LogManager.getLogger("org.apache.spark.scheduler.DAGScheduler")
    writer = jvm.java.io.StringWriter()
    appender = log4j.core.appender.WriterAppender.createAppender(None, None, writer, "of a test", False, True)
    appender.start()
    before = scheduler.getLevel()
    scheduler.addAppender(appender)
    scheduler.setLevel(log4j.Level.WARN)
    yield lambda: str(writer.toString())
    scheduler.setLevel(before)
    scheduler.removeAppender(appender)


def test_a_started_flow_waits_for_its_turn(
    spark: SparkSession, within: Within, tmp_path: Path, scheduler_log: Callable[[], str]
) -> None:
    gate = tmp_path / "gate"
    first = gated(spark, "first", gate, hosts=2).start()
    second = totals(spark, "second", hosts=2).start()
    third = totals(spark, "third", hosts=2).start()
    wait_for("the first to run", lambda: first.status["message"].startswith("running"))
    wait_for("a look at the slots", lambda: "of 4 task slots" in second.status["message"])
    assert second.status["message"].startswith("queued: it needs 3 of 4 task slots, and before it come first-")
    assert "second-" in third.status["message"]
    assert "queued" in repr(third)
    assert third.isActive
    within(third.stop)
    assert third.status["message"] == "stopped"
    with pytest.raises(FlowCancelled):
        third.awaitTermination(0)
    gate.touch()
    for query in (first, second):
        assert within(query.result(LIMIT_S).count) == 10
        assert query.status["message"] == "done"
        query.release()
    assert scheduler_log() == ""  # no job of the third had to be there to be cancelled


def test_a_started_flow_beside_an_action(spark: SparkSession, within: Within, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    query = gated(spark, "started", gate).start()
    wait_for("it to run", lambda: query.status["message"].startswith("running"))
    df = totals(spark, "by an action").toDF()
    opens = threading.Timer(1.0, gate.touch)
    opens.start()
    assert within(df.count) == 10
    assert within(lambda: query.result(LIMIT_S).count()) == 10
    query.release()


def test_waiting_for_a_busy_cluster_is_no_failure(
    spark: SparkSession, within: Within, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks of somebody else hold all slots for longer than flows may wait for each other."""
    monkeypatch.setattr(slot_watch, "STUCK_S", 0.5)
    gate = tmp_path / "gate"

    def busy(numbers: Iterable[int]) -> Iterable[int]:
        while not gate.exists():
            time.sleep(0.02)
        yield from numbers

    others = threading.Thread(target=spark.sparkContext.parallelize(range(4), 4).mapPartitions(busy).count)
    others.start()
    wait_for("four tasks", lambda: sum(running(spark).values()) == 4)
    query = totals(spark, "patient", hosts=2).start()
    wait_for("the query to say so", lambda: "its 2 hosts wait for task slots" in query.status["message"])
    assert query.status["message"].startswith("starting: ")
    assert "0 of 4 are held by hosts of flows, 4 by other tasks" in query.status["message"]
    gate.touch()
    assert within(lambda: query.result(LIMIT_S).count()) == 10
    query.release()
    others.join(LIMIT_S)


def running(spark: SparkSession) -> dict[int, int]:
    tracker = spark.sparkContext.statusTracker()
    infos = {stage: tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()}
    return {stage: info.numActiveTasks for stage, info in infos.items() if info is not None}


# Cancelling


def at_once(query: Query) -> None: ...


def when_it_is_starting(query: Query) -> None:
    wait_for("its turn", lambda: not query.status["message"].startswith("queued"))


def when_it_runs(query: Query) -> None:
    wait_for("its hosts", lambda: query.status["message"].startswith("running"))


@pytest.mark.parametrize("moment", [at_once, when_it_is_starting, when_it_runs])
def test_cancel_at_any_moment(
    spark: SparkSession, within: Within, tmp_path: Path, moment: Callable[[Query], None]
) -> None:
    query = gated(spark, "cancelled", tmp_path / "gate").start()
    moment(query)
    others = [threading.Thread(target=query.stop) for _ in range(2)]
    for other in others:
        other.start()
    within(query.stop)
    for other in others:
        other.join(LIMIT_S)
    assert not query.isActive
    with pytest.raises(FlowCancelled, match=r"cancelled-\w+ was stopped"):
        query.awaitTermination(0)
    # Its sources would wait for the gate, so whatever ends has been ended: the fixture looks for what is left.
    assert within(totals(spark, "after").toDF().count) == 10


def test_a_job_that_is_cancelled_by_others_leaves_nothing(spark: SparkSession, within: Within, tmp_path: Path) -> None:
    """The hosts have all rows of their source and still work when Spark kills them; nobody else would miss them."""
    gate = tmp_path / "gate"

    def dawdle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            gate.with_name("working").touch()
            while not gate.exists():
                time.sleep(0.02)
            yield batch.select(["v"])

    rows = spark.range(0, 100, 1, 2).selectExpr("id % 10 AS k", "id AS v")
    df = reshape.flow(rows, name="killed").repartition("k").mapInArrow(dawdle, "v long").toDF()

    def count() -> None:
        spark.sparkContext.setJobGroup("users own", "a job of the user", True)
        df.count()

    def cancel() -> None:
        wait_for("hosts to work", gate.with_name("working").exists)
        wait_for("sources to end", lambda: len(running(spark)) == 1)
        spark.sparkContext.cancelJobGroup("users own")

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(Exception, match="cancelled part of cancelled job group users own"):
        within(count)
    canceller.join(LIMIT_S)


def test_adaptive_execution_that_needs_a_flow_no_more(spark: SparkSession, within: Within, tmp_path: Path) -> None:
    """The other side of a join turns out to be empty: Spark answers at once, whatever becomes of the flow."""
    gate, working = tmp_path / "gate", tmp_path / "working"
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "true")
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    session.conf.set("spark.sql.shuffle.partitions", "3")

    def dawdle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            working.touch()
            while not gate.exists():
                time.sleep(0.02)
            yield batch

    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            while not working.exists() and not gate.exists():
                time.sleep(0.02)
            yield batch.slice(0, 0)

    rows = session.range(0, 100, 1, 2).selectExpr("id % 10 AS k", "id AS v")
    flow = reshape.flow(rows, name="not needed", hosts=1).repartition("k").mapInArrow(dawdle, "k long, v long")
    empty = session.range(0, 4, 1, 2).selectExpr("id AS k").mapInArrow(nothing, "k long")
    try:
        assert within(flow.toDF().join(empty, "k").count) == 0
        assert working.exists()
    finally:
        gate.touch()  # the fixture waits for its end


def test_a_stream_that_stops_takes_the_flow_of_its_batch_along(
    spark: SparkSession, within: Within, tmp_path: Path
) -> None:
    working = tmp_path / "working"

    def of_batch(batch: DataFrame, number: int) -> None:
        def dawdle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for rows in batches:
                working.touch()
                while True:
                    time.sleep(0.02)
                yield rows

        rows = batch.sparkSession.range(0, 100, 1, 2).selectExpr("id % 10 AS k")
        reshape.flow(rows.mapInArrow(dawdle, rows.schema), name="of a batch").groupBy("k").count().toDF().collect()

    stream = spark.readStream.format("rate").load().writeStream.foreachBatch(of_batch).start()
    try:
        wait_for("its flow to work", working.exists)
    finally:
        within(stream.stop)
    assert not stream.isActive


def test_jobs_keep_the_properties_of_the_users_thread(spark: SparkSession, within: Within, tmp_path: Path) -> None:
    """Those of a flow's sources and of a started flow, and those of the user's thread stay as they are."""
    told = tmp_path / "told"
    told.mkdir()

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            (told / f"{context.partitionId()}-{context.getLocalProperty('spark.scheduler.pool')}").touch()
            yield batch

    rows = spark.range(0, 100, 1, 2).selectExpr("id % 10 AS k", "id AS v")
    flow = reshape.flow(rows.mapInArrow(tell, rows.schema)).groupBy("k").count()
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "mine")
    try:
        query = flow.start()
        within(lambda: query.awaitTermination(LIMIT_S))
        query.release()
        assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") == "mine"
        assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]
    assert {file.name for file in told.iterdir()} == {"0-mine", "1-mine"}


def test_ctrl_c_ends_flows_that_wait(spark: SparkSession, within: Within, tmp_path: Path) -> None:
    from reshape.driver import launch

    queries = [gated(spark, "interrupted", tmp_path / "gate", hosts=2).start() for _ in range(2)]
    wait_for("one to run", lambda: queries[0].status["message"].startswith("running"))
    within(launch._interrupt)
    for query in queries:
        with pytest.raises(FlowFailed, match="Ctrl-C"):
            query.awaitTermination(LIMIT_S)
