"""A Spark session on this machine, made for flows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reshape.errors import UnsuitableSession
from reshape.machine.java import ensure_java
from reshape.machine.resources import GIB, memory
from reshape.machine.resources import cores as machine_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Hosts and sources wait for each other now and then, so a few more slots than cores keep the cores busy.
LEAST_SLOTS = 5
EXTRA_SLOTS = 2
LEAST_PARTITIONS = 8
# Rows that Spark hands to a source task at a time: a batch of 65,536 costs a third less for each row than 10,000.
ARROW_ROWS = 65_536


def local_session(
    name: str, cores: int | None, config: Mapping[str, Any], on_new: Callable[[SparkSession, int], None]
) -> SparkSession:
    """A new session, or the one that is there if it has these settings. Raises `UnsuitableSession` otherwise.

    ``on_new`` is called with a new session and its number of cores.
    """
    if cores is not None and cores < 1:
        raise UnsuitableSession(
            f"local_session: cores = {cores!r} is not possible; it must be a whole number from 1 on"
        )
    ensure_java()
    # Spark would otherwise start its workers with whatever python3 comes first on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    used = machine_cores().slots if cores is None else cores
    settings = {**_defaults(name, used), **{key: _text(value) for key, value in config.items()}}
    is_new = not _is_running(settings)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if is_new:
        on_new(session, used)
    return session


def _defaults(name: str, cores: int) -> dict[str, str]:
    return {
        "spark.app.name": name,
        "spark.master": f"local[{max(LEAST_SLOTS, cores + EXTRA_SLOTS)}]",
        # Nothing of a local session is for other machines to reach, Spark's pages included.
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": _driver_memory(),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
        # Spark's 200 are meant for a cluster; a local shuffle gains nothing beyond a few for each core.
        "spark.sql.shuffle.partitions": str(max(LEAST_PARTITIONS, 2 * cores)),
    }


def _driver_memory() -> str:
    """A quarter of the machine, from 1 to 8 GiB: hosts are Python processes and need the rest."""
    return f"{min(8, max(1, memory().usable // (4 * GIB)))}g"


def _is_running(settings: Mapping[str, str]) -> bool:
    """Is there a session with these settings? Those of a context are fixed when it starts; a session that runs with
    others would only seem to have these, so that raises."""
    from pyspark import SparkContext

    running = SparkContext._active_spark_context
    if running is None:
        return False
    conf = running.getConf()
    fixed = {key: value for key, value in settings.items() if not key.startswith("spark.sql.")}
    differing = [
        f"{key} is {conf.get(key)!r}, wanted {value!r}" for key, value in fixed.items() if conf.get(key) != value
    ]
    if differing:
        raise UnsuitableSession(
            f"local_session: a Spark session runs already with other settings ({'; '.join(differing)}). Use it as it "
            "is (reshape.flow takes DataFrames of any session), or stop it first (spark.stop())"
        )
    return True


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
