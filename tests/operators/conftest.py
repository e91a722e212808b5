"""One Spark session for the whole folder: the other side of every comparison."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from reshape.runtime.java import ensure_java

HERE = Path(__file__).parent
_session: Any = None


@pytest.fixture
def spark() -> Any:
    global _session  # noqa: PLW0603 - one JVM for all files of the folder
    if _session is None:
        ensure_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        from pyspark.sql import SparkSession

        _session = (
            SparkSession.builder.master("local[2]")
            .appName("reshape operator tests")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.adaptive.enabled", "false")
            # A hundred queries over a hundred rows each: compiling them would take most of the time.
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate()
        )
        _session.sparkContext.setLogLevel("OFF")
    return _session


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Other folders start sessions with other settings, so ours ends when the last test here has run."""
    global _session  # noqa: PLW0603
    if _session is not None and (nextitem is None or HERE not in nextitem.path.parents):
        _session.stop()
        _session = None
