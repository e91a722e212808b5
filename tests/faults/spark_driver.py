"""A driver on a small cluster: runs flows as told on standard input, lets something go wrong in the middle of each, and
says how they ended, one JSON per line.

The middle is no matter of luck: sources stop behind their first batch, and hosts at their first rows, until a file is
there; what they touch tells that they have come so far, and which process they are.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.errors import FlowCancelled
from reshape.machine.java import ensure_java
from reshape.query import Query

ROWS = 2_000
PARTITIONS = 8
HOSTS = 2
# Only what hangs takes as long, on a machine that is busy with other things too.
LIMIT_S = 60.0
READY_S = 120.0
OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def session(master: str, local_dir: str) -> SparkSession:
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.adaptive.enabled": "false",
        "spark.log.level": "OFF",
        "spark.local.dir": local_dir,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": OPTIONS,
        "spark.executor.extraJavaOptions": OPTIONS,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        # Executors are killed on purpose, more often than Spark would put up with.
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.shuffle.io.retryWait": "100ms",
        "spark.decommission.enabled": "true",
    }
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stop_at(place: Path, gate: Path, *, behind: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that stops at its first batch, or ``behind`` it, until there is a gate."""
    limit_s = READY_S

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if behind:
                yield batch
            (place.parent / f"{place.name}-{os.getpid()}").touch()
            deadline = time.monotonic() + limit_s
            while not gate.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            if not behind:
                yield batch

    return wait


def until(what: str, condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + READY_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {READY_S:.0f} s for {what}")
        time.sleep(0.02)


class Run:
    """One flow with one thing that goes wrong."""

    def __init__(self, spark: SparkSession, command: dict[str, Any]) -> None:
        self._spark = spark
        self._seed: int = command["seed"]
        self._rng = Random(f"spark faults {self._seed}")
        self._kind: str = command["kind"]
        self._moment: str = command["moment"]
        self._local_dir = Path(command["local_dir"])
        self._place = Path(command["directory"])
        self._place.mkdir()
        self._gates = {name: self._place / f"gate-{name}" for name in ("source", "host", "slots")}
        for name, gate in self._gates.items():
            if name != {"reading": "source", "working": "host"}.get(self._moment):
                gate.touch()
        if self._kind == "slots":
            self._gates["slots"].unlink()

    def query(self) -> Query:
        rows = self._spark.range(0, ROWS, 1, 2).selectExpr("id % 20 AS k", "id AS v").repartition(PARTITIONS, "v")
        gated = rows.mapInArrow(stop_at(self._place / "source", self._gates["source"], behind=True), "k long, v long")
        flow = reshape.flow(gated, hosts=HOSTS, workers=4).repartition("k")
        return flow.mapInArrow(
            stop_at(self._place / "host", self._gates["host"], behind=False), "k long, v long"
        ).start()

    def outcome(self) -> dict[str, Any]:
        hog = self._take_slots() if self._kind == "slots" else None
        query = self.query()
        started = time.monotonic()
        try:
            self._wait_for_the_moment(query)
            started = time.monotonic()
            self._go_wrong(query)
            query.awaitTermination(LIMIT_S)
            got = sorted(row["v"] for row in query.result(LIMIT_S).collect())
            ended: dict[str, Any] = {"outcome": "exact" if got == [*range(ROWS)] else "wrong", "rows": len(got)}
        except BaseException as error:
            ended = {"outcome": type(error).__name__, "message": str(error).split("\n\tat ")[0]}
            if not isinstance(error, FlowCancelled):
                query.stop()  # of what hangs, nothing is to be left for the next run
        ended["seconds"] = round(time.monotonic() - started, 1)
        self._open()
        query.release()
        if hog is not None:
            hog.join(LIMIT_S)
        return ended | {"seed": self._seed, "left": left(self._spark)}

    def _wait_for_the_moment(self, query: Query) -> None:
        if self._moment != "at once":
            wanted = {"reading": "source", "working": "host"}[self._moment]
            until(f"every {wanted}", lambda: len(self._pids(wanted)) >= HOSTS or not query.isActive)

    def _go_wrong(self, query: Query) -> None:
        match self._kind:
            case "host" | "source":
                os.kill(self._rng.choice(self._pids(self._kind)), signal.SIGKILL)
            case "executor":
                self._kill_executor()
            case "decommission":
                self._decommission_executor()
            case "shuffle":
                self._remove_shuffle_files()
            case "slots":  # a moment like any other: the flow has little or nothing to run on
                time.sleep(self._rng.uniform(0.0, 1.0))
            case "cancel":
                self._cancel(query)
        self._open()

    def _open(self) -> None:
        for gate in self._gates.values():
            gate.touch()

    def _pids(self, who: str) -> list[int]:
        return sorted(int(path.name.rpartition("-")[2]) for path in self._place.glob(f"{who}-*"))

    def _kill_executor(self) -> None:
        """The JVM that one of the Python processes belongs to."""
        who = {"reading": "source", "working": "host"}[self._moment]
        daemon = _parent(self._rng.choice(self._pids(who)))
        os.kill(_parent(daemon), signal.SIGKILL)

    def _decommission_executor(self) -> None:
        """Spark gives it no more tasks, and it leaves when those that it has are done, or soon after."""
        jvm: Any = self._spark._jvm
        backend = self._spark._jsc.sc().schedulerBackend()
        info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
            "its machine is wanted back", jvm.scala.Option.empty()
        )

        def active() -> list[str]:
            ids = backend.getExecutorIds()
            names = [str(ids.apply(number)) for number in range(ids.length())]
            return [name for name in names if backend.isExecutorActive(name)]

        # One that a run before has sent away may still be listed, and its replacement on its way.
        until("two executors", lambda: len(active()) >= HOSTS)
        assert backend.decommissionExecutor(self._rng.choice(active()), info, False, False)

    def _remove_shuffle_files(self) -> None:
        """There are more partitions than slots: some of them are still to be read."""
        for folder, _, names in os.walk(self._local_dir):  # folders may go meanwhile
            for name in names:
                if name.startswith("shuffle_"):
                    Path(folder, name).unlink(missing_ok=True)

    def _take_slots(self) -> threading.Thread:
        """Another job has all slots, or all but one or two."""
        tasks = 6 - self._rng.randint(0, 2)
        job = self._spark.range(0, tasks, 1, tasks)
        wait = stop_at(self._place / "hog", self._gates["slots"], behind=False)
        thread = threading.Thread(target=lambda: job.mapInArrow(wait, "id long").collect(), name="hog")
        thread.start()
        until("the other job", lambda: len(self._pids("hog")) == tasks)
        return thread

    def _cancel(self, query: Query) -> None:
        if self._rng.random() < 0.5:
            query.stop()
            query.stop()
            return
        twice = [threading.Thread(target=query.stop) for _ in range(2)]
        for thread in twice:
            thread.start()
        for thread in twice:
            thread.join(LIMIT_S)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def left(spark: SparkSession) -> dict[str, Any]:
    """What is left in this process, and whether the session still runs jobs."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("reshape")]
        jobs = list(spark.sparkContext.statusTracker().getActiveJobsIds())
        if not (threads or jobs) or time.monotonic() > deadline:
            return {"threads": threads, "jobs": jobs, "rows": len(_ids(spark.range(0, 20, 1, 4)))}
        time.sleep(0.02)


def _ids(df: DataFrame) -> list[int]:
    return [row["id"] for row in df.collect()]


def say(message: dict[str, Any]) -> None:
    assert sys.__stdout__ is not None
    sys.__stdout__.write(json.dumps(message) + "\n")
    sys.__stdout__.flush()


def main() -> None:
    spark = session(sys.argv[1], sys.argv[2])
    say({"outcome": "ready"})
    for line in sys.stdin:
        say(Run(spark, json.loads(line)).outcome())
    spark.stop()


if __name__ == "__main__":
    main()
