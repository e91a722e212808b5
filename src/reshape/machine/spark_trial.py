"""A small Spark job of the kind that reshape runs: two barrier tasks at once, Arrow batches in and out.

Run as a program (`python -m reshape.machine.spark_trial`), it prints its findings as one line of JSON.
A process of its own keeps the JVM's messages and any half-started session away from the caller, and can be ended
when it takes too long.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from reshape.errors import ReshapeError
from reshape.machine.java import ensure_java
from reshape.machine.resources import spark_local_directories

if TYPE_CHECKING:
    import pyarrow as pa

SLOTS = 2  # One for a host and one for a source: the least that a query needs.
ROWS = 1_000

# For a JVM that lives for seconds: a third less time to the end of the job, and no file of its own in /tmp.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"

# A JVM and two Python workers take 5 to 20 s on two cores; a cold disk or a busy machine several times that.
TRIAL_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class SparkTrial:
    """What the job found out. `processors` is what `local[*]` would give in slots."""

    spark: str
    java: str
    processors: int
    heap_bytes: int
    seconds: float


class SparkTrialFailed(ReshapeError):
    """The job did not run; the message ends with the last lines that it printed."""


def try_spark(limit_seconds: float = TRIAL_SECONDS) -> SparkTrial:
    """Runs the job in a process of its own. Raises `SparkTrialFailed`."""
    try:
        # Spark has no time to tidy up when it is ended, so its files go where they can be removed from here.
        with tempfile.TemporaryDirectory(
            prefix="reshape-trial-", dir=spark_local_directories()[0], ignore_cleanup_errors=True
        ) as directory:
            return run_apart(directory, limit_seconds)
    except OSError as error:
        raise SparkTrialFailed(f"a local Spark job could not be started: {error}") from error


def run_apart(directory: str, limit_seconds: float) -> SparkTrial:
    process = subprocess.Popen(
        [sys.executable, "-m", "reshape.machine.spark_trial"],
        env={**os.environ, "SPARK_LOCAL_DIRS": directory, "TMPDIR": directory},
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        raise SparkTrialFailed(f"a local Spark job did not end within {limit_seconds:g} s") from None
    finally:
        # The JVM and Python workers belong to the job's own session, so nothing else is hit.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = out.strip().splitlines()
    if process.returncode == 0 and lines:
        return SparkTrial(**json.loads(lines[-1]))
    reason = last_lines(err) or f"exit code {process.returncode}"
    raise SparkTrialFailed(f"a local Spark job failed: {reason}")


def last_lines(text: str, count: int = 3) -> str:
    return " | ".join(line.strip() for line in text.strip().splitlines()[-count:])


def run_trial() -> SparkTrial:
    started = time.monotonic()
    ensure_java()
    # Spark would otherwise start its workers with whatever python3 comes first on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("reshape doctor")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": f"{SHORT_LIVED} -Djava.io.tmpdir={tempfile.gettempdir()}",
        "spark.sql.codegen.wholeStage": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        source = spark.range(0, ROWS, 1, SLOTS)
        rows = source.mapInArrow(pass_on, source.schema, barrier=True).count()
        if rows != ROWS:
            raise ReshapeError(f"the job returned {rows} rows of {ROWS}")
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        runtime = jvm.java.lang.Runtime.getRuntime()
        return SparkTrial(
            spark=spark.version,
            java=jvm.java.lang.System.getProperty("java.version"),
            processors=runtime.availableProcessors(),
            heap_bytes=runtime.maxMemory(),
            seconds=round(time.monotonic() - started, 2),
        )
    finally:
        spark.stop()


def pass_on(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    from pyspark import BarrierTaskContext

    # Returns only when both tasks run at the same time.
    BarrierTaskContext.get().barrier()
    yield from batches


if __name__ == "__main__":
    print(json.dumps(asdict(run_trial())))
