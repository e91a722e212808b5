"""A Spark session for a command: it says nothing on the screen, and when it is over nothing of it is left."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshape.cli.queries import in_words
from reshape.errors import ReshapeError
from reshape.machine.resources import spark_local_directories
from reshape.machine.spark_trial import SHORT_LIVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A JVM without jobs ends within a second; this bounds the wait for one on a busy machine.
JVM_END_S = 30.0

LOG = "spark.log"


class SparkRefused(ReshapeError):
    """No Spark session could be started; says why."""


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """Everything that Spark and the flows write goes here, and goes away with it."""
    where = spark_local_directories()[0]
    try:
        directory = tempfile.TemporaryDirectory(prefix="reshape-", dir=where, ignore_cleanup_errors=True)
    except OSError as error:
        raise ReshapeError(
            f"no directory can be made in {where}: {error}. Set SPARK_LOCAL_DIRS to one that can be written to"
        ) from error
    with directory as made, _environment(SPARK_LOCAL_DIRS=made, TMPDIR=made):
        yield Path(made)


@contextlib.contextmanager
def quiet_session(
    directory: Path, master: str | None, config: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session on this machine, or on a cluster. Messages of Spark go to a file in the directory."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.extraJavaOptions": f"{SHORT_LIVED} -Djava.io.tmpdir={directory}",
        **({} if master is None else {"spark.master": master}),
        **(config or {}),
    }
    log = _logging_to(directory / LOG)
    try:
        with _stderr_to(directory / LOG):
            try:
                spark = _started(master, settings)
                _hush_accumulators(spark)
                _hush_mistakes()
            except ReshapeError:
                raise
            except Exception as error:
                why = _first_exception(directory) or in_words(error)
                raise SparkRefused(f"no Spark session on {master or 'this machine'}: {why}") from error
        yield spark
    finally:
        with deaf_to_interrupts():
            _end_jvm()
        logging.getLogger().removeHandler(log)
        log.close()


def _started(master: str | None, settings: dict[str, str]) -> SparkSession:
    if master is None or master.startswith("local"):
        from reshape.driver.warming import warm_up
        from reshape.machine.local_session import local_session

        return local_session("reshape", None, settings, warm_up)
    from pyspark.sql import SparkSession

    from reshape.machine.java import ensure_java
    from reshape.machine.masters import reach_master

    ensure_java()
    reach_master(master)
    builder = SparkSession.builder.appName("reshape")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _hush_accumulators(spark: SparkSession) -> None:
    """PySpark's listener for accumulators prints a traceback when the JVM dies; the command tells that in a line."""
    listener: Any = spark.sparkContext._accumulatorServer
    listener.handle_error = lambda *_: None


def _hush_mistakes() -> None:
    """PySpark prints each mistake in a query as JSON with Java's trace in it; the command tells that in a line."""
    from pyspark.logger import PySparkLogger

    for kind in ("SQL", "DataFrame"):
        PySparkLogger.getLogger(f"{kind}QueryContextLogger").disabled = True


def _first_exception(directory: Path) -> str:
    """What a JVM that ended at its start has said; empty where it said nothing of that kind."""
    lines = (directory / LOG).read_text(errors="replace").splitlines()
    found = next((line for line in lines if line.startswith(("Exception in thread", "Caused by:"))), "")
    return found.partition(": ")[2] if found.startswith("Caused") else found.partition('" ')[2]


def said_last(directory: Path, lines: int = 3) -> str:
    """The last lines of Spark's messages, for an error to end with."""
    try:
        text = (directory / LOG).read_text(errors="replace")
    except OSError:
        return ""
    return " | ".join(line.strip() for line in text.strip().splitlines()[-lines:])


def _end_jvm() -> None:
    """Stop Spark and wait until its JVM has ended. Left to itself it would end some time after this process."""
    from pyspark import SparkContext

    contexts: Any = SparkContext
    if contexts._active_spark_context is not None:
        # Whatever goes wrong here, the JVM ends below.
        with contextlib.suppress(Exception):
            contexts._active_spark_context.stop()
    gateway = contexts._gateway
    if gateway is None:
        return
    contexts._gateway = contexts._jvm = None
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    with contextlib.suppress(Exception):
        gateway.shutdown()
    if process is None:
        return
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()  # what the JVM waits for
    try:
        process.wait(JVM_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _logging_to(path: Path) -> logging.Handler:
    """Py4J logs a traceback for each call to a JVM that dies, and makes logging print where nobody has set it up."""
    log = logging.FileHandler(path, delay=True)
    logging.getLogger().addHandler(log)
    return log


@contextlib.contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Processes started meanwhile write their errors to a file for good, this one only until the end of the block."""
    sys.stderr.flush()
    before = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)


@contextlib.contextmanager
def _environment(**wanted: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """A second Ctrl-C must not stop the tidying up that the first one asked for."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
