"""A driver on one of several machines: runs what it is told on standard input, and says what came out, one JSON per
line.

Sources stop behind their first batch, or hosts behind theirs, until a file is there; what they touch tells who has come
so far.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

import reshape
from reshape.driver.source_tasks import SourceTasks
from reshape.machine.java import ensure_java
from reshape.protocol.reports import MayBegin, SourceBegins

ROWS = 3_000
PARTITIONS = 6
# Only what hangs takes as long.
LIMIT_S = 150.0
OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def session(master: str, local_dir: str) -> SparkSession:
    ensure_java()
    address = os.environ["SPARK_LOCAL_IP"]
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        "spark.local.dir": local_dir,
        "spark.driver.bindAddress": address,
        "spark.driver.host": address,
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "3",
        "spark.driver.extraJavaOptions": OPTIONS,
        "spark.executor.extraJavaOptions": OPTIONS,
        # A machine that says nothing is given up sooner than after two minutes.
        "spark.network.timeout": "20s",
        "spark.network.timeoutInterval": "2s",
        "spark.executor.heartbeatInterval": "2s",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.efficiency.enabled": "false",
    }
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def rows(df: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in df.collect())


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, PARTITIONS).selectExpr("id % 20 AS k", "id AS v")


def flows(spark: SparkSession, place: Path) -> dict[str, bool]:
    """Flows beside the same queries in plain Spark; files are at a place that all machines have."""
    facts = numbers(spark)
    names = spark.range(0, 40, 1, 2).selectExpr("id % 30 AS k", "concat('n', id) AS name")
    facts.write.parquet(str(place / "facts"))
    files = spark.read.parquet(str(place / "facts"))
    totals = [F.count("*").alias("n"), F.sum("v").alias("total")]
    before = Window.partitionBy("k").orderBy("v")
    order = F.col("v").desc()

    def flow(df: DataFrame) -> reshape.Flow:
        return reshape.flow(df, joins="all")

    found = {
        "join": rows(flow(facts).join(names, "k").toDF()) == rows(facts.join(names, "k")),
        "join of files": rows(flow(files).join(names, "k").toDF()) == rows(files.join(names, "k")),
        "sort": [*flow(facts).orderBy(order).toDF().collect()] == [*facts.orderBy(order).collect()],
        "window": rows(flow(files).withColumn("n", F.row_number().over(before)).toDF())
        == rows(files.withColumn("n", F.row_number().over(before))),
        "toArrow": flow(files).groupBy("k").agg(*totals).toArrow().sort_by("k")
        == files.groupBy("k").agg(*totals).toArrow().sort_by("k"),
    }
    query = flow(files).groupBy("k").agg(*totals).start()
    found["start"] = rows(query.result(LIMIT_S)) == rows(files.groupBy("k").agg(*totals))
    query.release()
    return found


def stop_behind(place: Path, who: str, which: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows as they are, but one of the functions stops behind its first batch: ``which`` of them may be all, or the
    first run of the first partition."""
    limit_s = LIMIT_S

    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import socket

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        stops = which == "all" or (which == "first" and not context.partitionId() and not context.attemptNumber())
        deadline = time.monotonic() + limit_s
        for batch in batches:
            yield batch
            if stops:
                (place / f"{who}-{context.partitionId()}-{socket.gethostname()}").touch()
            while stops and not (place / "gate").exists() and time.monotonic() < deadline:
                time.sleep(0.02)

    return passed


def is_copy(tasks: SourceTasks, task: SourceBegins) -> bool:
    """By Spark's books, in which it is soon."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        for fate in tasks._unsuccessful(task.stage):
            if fate.task == task.task:
                return fate.speculative
        time.sleep(0.02)
    return False


def stopped(spark: SparkSession, place: Path, source: str, host: str) -> dict[str, Any]:
    """A flow that stops in the middle. ``copies``: those that were told to wait; each opens the gate. A copy of the
    first partition's task asks when that has asked: on a busy machine it may be the quicker one, and have sent all."""
    begins: Callable[..., MayBegin | None] = SourceTasks.begins
    copies: list[int] = []
    asked = threading.Event()

    def noted(self: SourceTasks, name: str, task: SourceBegins) -> MayBegin | None:
        if task.partition == 0 and source == "first" and not asked.is_set():
            if is_copy(self, task):
                asked.wait(LIMIT_S)
            answer = begins(self, name, task)
            asked.set()
        else:
            answer = begins(self, name, task)
        if answer == MayBegin(False):
            copies.append(task.partition)
            if task.partition == 0:
                (place / "gate").touch()
        return answer

    given = numbers(spark).mapInArrow(stop_behind(place, "source", source), "k long, v long")
    flow = reshape.flow(given, hosts=2).repartition("k")
    with mock.patch.object(SourceTasks, "begins", noted):
        query = flow.mapInArrow(stop_behind(place, "host", host), "k long, v long").start()
        try:
            got = sorted(row["v"] for row in query.result(LIMIT_S).collect())
        finally:
            query.stop()
    ended = {"exact": got == [*range(ROWS)], "rows": len(got), "story": query.story(), "copies": copies}
    query.release()
    return ended


def left(spark: SparkSession) -> dict[str, Any]:
    """What is left in this process, and jobs that still run."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("reshape")]
        jobs = list(spark.sparkContext.statusTracker().getActiveJobsIds())
        if not (threads or jobs) or time.monotonic() > deadline:
            return {"threads": threads, "jobs": jobs}
        time.sleep(0.02)


def say(message: dict[str, Any]) -> None:
    assert sys.__stdout__ is not None
    sys.__stdout__.write(json.dumps(message) + "\n")
    sys.__stdout__.flush()


def main() -> None:
    spark = session(sys.argv[1], sys.argv[2])
    say({"outcome": "ready"})
    for line in sys.stdin:
        command = json.loads(line)
        place = Path(command["place"])
        try:
            if command["what"] == "flows":
                ended: dict[str, Any] = flows(spark, place)
            else:
                ended = stopped(spark, place, command["source"], command["host"])
        except Exception as error:
            ended = {"error": f"{type(error).__name__}: {error}"[:2000]}
        say(ended | {"left": left(spark)})
    spark.stop()


if __name__ == "__main__":
    main()
