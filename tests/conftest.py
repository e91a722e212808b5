"""One Spark session for all tests that need one; tests that need none start no JVM."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# How long one example takes says something about the machine only.
# The same examples in every run: what a run finds does not depend on chance, or on what earlier ones have found.
settings.register_profile("reshape", deadline=None, derandomize=True, database=None)
settings.load_profile("reshape")
# Also for the JVMs of examples, commands and benchmarks: none lives long enough to earn what C2 and G1 cost, which is
# half of all CPU time of a session that runs a few queries.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
os.environ["SPARK_SUBMIT_OPTS"] = JVM_OPTIONS
# Until tests run, only what stays is made: looking through it again and again takes half of the time of an import.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for a Spark session needs a JVM; tests that start one in another way say so themselves."""
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            item.add_marker("jvm")
    if _no_browser_possible():
        items[:] = [item for item in items if "browser" not in getattr(item, "fixturenames", ())]


def chromium() -> str | None:
    """The browser for the tests of the live page; where Debian puts it too, for a PATH that was made before it came."""
    names, folders = ("chromium", "chromium-browser", "google-chrome"), f"{os.environ.get('PATH', os.defpath)}:/usr/bin"
    looked_for = (shutil.which(name, path=folders) for name in names)
    return os.environ.get("RESHAPE_CHROMIUM") or next((path for path in looked_for if path), None)


def _no_browser_possible() -> bool:
    """Only root can install one: whoever is not is told, and has everything else tested."""
    return chromium() is None and os.geteuid() != 0


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _no_browser_possible():
        terminalreporter.write_line(
            "the browser tests of the live page were left out: there is no Chromium (sudo apt-get install chromium)"
        )


class _Faults(logging.Handler):
    """What the planner did not foresee: it leaves the work to Spark, so no result shows it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(logging.Formatter().format(record))


@pytest.fixture(autouse=True)
def planned_without_faults() -> Iterator[list[str]]:
    faults, logger = _Faults(), logging.getLogger("reshape.catalyst")
    logger.addHandler(faults)
    yield faults.found
    logger.removeHandler(faults)
    assert not faults.found, "\n\n".join(faults.found)


@pytest.fixture(scope="session")
def chromium_path() -> str | None:
    return chromium()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Folders that want other SQL settings make a ``newSession`` of it: one JVM is enough."""
    from pyspark.sql import SparkSession

    from reshape.machine.java import ensure_java

    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[4]")
        .appName("reshape tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "3")
        # Thousands of queries over some rows each: compiling them would take half of the time. Sessions of commands,
        # examples and clusters compile.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.log.level", "ERROR")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    yield session
    session.stop()
