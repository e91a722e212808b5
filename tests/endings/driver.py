"""A driver to be watched from outside: runs flows as told on standard input, says how they ended, one JSON per line."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.flows import Flow
from reshape.machine.java import ensure_java

ROWS = 200_000


def session(master: str, local_dir: str) -> SparkSession:
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "OFF")
        .config("spark.local.dir", local_dir)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        .config("spark.executor.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
        .getOrCreate()
    )


def slow_source(rows: DataFrame, gate: Path) -> DataFrame:
    """Rows behind a shuffle, of which each of four tasks gives the first batches, and the others when the gate is open.
    Spark passes a batch on when it has seen some more."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            yield batch
            while number > 8 and not gate.exists():
                time.sleep(0.05)

    return rows.repartition(4).mapInArrow(wait, rows.schema)


def slow_flow(spark: SparkSession, gate: Path, fault: str | None, read: str) -> Flow:
    """Workers that stand still until the gate opens, so that rows wait on disk; with a fault, one then raises. With a
    scan the hosts read the rows from files by themselves; a slow source waits too."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = batch.select(["v"])
            while not gate.exists():
                time.sleep(0.02)
                yield values.slice(0, 0)  # between two batches a host hears that its flow has ended
            if fault is not None:
                raise ZeroDivisionError(fault)
            yield values

    rows = spark.range(0, ROWS, 1, 2).selectExpr("id % 50 AS k", "id AS v", "repeat('x', 40) AS filling")
    scan = read == "scan"
    if read == "slowly":
        rows = slow_source(rows, gate)
    if scan:
        files = gate.with_name(f"{gate.name}-rows")
        rows.write.option("parquet.block.row.count.limit", "5000").parquet(str(files))
        rows = spark.read.parquet(str(files))
    # Rows of a single message for two workers do not fit, however soon they are taken: some go to disk at once.
    flow = reshape.flow(rows, hosts=2, workers=4, queue_bytes=20_000, scan="arrow" if scan else "auto")
    return flow.repartition("k").mapInArrow(wait, "v long")


def written_slowly(df: DataFrame, gate: Path) -> DataFrame:
    """Tasks behind the exchange of a result that have some of its rows, say so, and wait."""
    here, go_on = gate.with_name(f"{gate.name}-writes"), gate.with_name(f"{gate.name}-written")

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            here.touch()
            while not go_on.exists():
                time.sleep(0.02)
            yield batch

    return df.mapInArrow(wait, df.schema)


def run(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    flow = slow_flow(spark, Path(command["gate"]), command.get("fault"), command["read"])
    ended: dict[str, Any] = {"outcome": "success"}
    try:
        if command["how"] == "collect":
            ended["sum"] = _sum(flow.toDF())
        elif command["how"] == "own action":
            ended["sum"] = sum(flow.toArrow()["v"].to_pylist())
        elif command["how"] == "write":
            gate = Path(command["gate"])
            file = gate.with_name(f"{gate.name}-file")
            written_slowly(flow.toDF(), gate).write.parquet(str(file))
            ended["sum"] = _sum(spark.read.parquet(str(file)))
        else:
            query = flow.start()
            if command["how"] == "cancel":
                _until_spilled(Path(command["local_dir"]))
                query.stop()
            query.awaitTermination()
            ended["story"] = query.story()
            ended["sum"] = _sum(query.result())
            query.release()
    except BaseException as error:
        ended = {"outcome": type(error).__name__, "message": str(error).split("\n\tat ")[0]}
    return ended | {"left": _left(spark)}


def _sum(df: DataFrame) -> int:
    return sum(row["v"] for row in df.collect())


def _until_spilled(local_dir: Path) -> None:
    while not any("/reshape-spill-" in folder and names for folder, _, names in os.walk(local_dir)):
        time.sleep(0.02)


def _left(spark: SparkSession) -> dict[str, Any]:
    """What is left in this process, and how long it took until nothing was, or the limit."""
    started = time.monotonic()
    while True:
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("reshape")]
        try:
            jobs = list(spark.sparkContext.statusTracker().getActiveJobsIds())
        except Exception:  # the JVM was killed: no job can be running there
            jobs = []
        seconds = time.monotonic() - started
        if not (threads or jobs) or seconds > 60:
            return {"threads": threads, "jobs": jobs, "seconds": round(seconds, 2)}
        time.sleep(0.02)


def say(message: dict[str, Any]) -> None:
    assert sys.__stdout__ is not None
    sys.__stdout__.write(json.dumps(message) + "\n")
    sys.__stdout__.flush()


def main() -> None:
    spark = session(sys.argv[1], sys.argv[2])
    say({"outcome": "ready"})
    for line in sys.stdin:
        say(run(spark, json.loads(line)))
    spark.stop()


if __name__ == "__main__":
    main()
