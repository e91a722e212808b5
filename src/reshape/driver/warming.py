"""Readies a new session in the background: what the first flow needs is imported, in the driver and in Spark's Python
processes, before anybody waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)

# Spark ends Python processes that were idle for a minute; a session that is used by then keeps them.
_GROUP = "reshape-warm-up"


def warm_up(spark: SparkSession, processes: int) -> None:
    """Return at once. A session that is stopped meanwhile ends the job, which is no loss."""
    thread = threading.Thread(target=_run, args=(spark, processes), name="reshape-warm-up", daemon=True)
    thread.start()


def _run(spark: SparkSession, processes: int) -> None:
    import reshape.driver.launch  # noqa: F401

    try:
        spark.sparkContext.setJobGroup(_GROUP, "reshape: readies Python processes", True)
        spark.range(0, processes, 1, processes).mapInArrow(_importing(), "id long").collect()
    except Exception as error:  # nothing depends on it, and a stopped session raises anything
        LOG.debug("warming up ended early: %s", error)


def _importing() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Made anew, so that it travels to tasks by value."""

    def import_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from reshape.machine.task_process import prepare
        from reshape.operators import specs

        specs()
        prepare()
        yield from batches

    return import_all
