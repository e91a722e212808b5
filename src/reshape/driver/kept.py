"""What Spark keeps (``cache``, ``persist``) that was made of the rows of some hosts, out of Spark's own books."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

# How Spark writes the RDDs of a lineage: "MapPartitionsRDD[12] at ...".
_RDD = re.compile(r"RDD\[(\d+)\]")
_NAME_LENGTH = 80


def keep(df: DataFrame) -> None:
    """Let Spark keep the rows (memory, then disk), and make them now. An action on the DataFrame would do that too, and
    then read what it has just kept, in two more jobs."""
    from pyspark import StorageLevel

    df.persist(StorageLevel.MEMORY_AND_DISK)
    session: Any = df._jdf.sparkSession()
    cached = session.sharedState().cacheManager().lookupCachedData(df._jdf).get()
    cached.cachedRepresentation().cacheBuilder().cachedColumnBuffers().count()


def kept_rows(context: SparkContext, stage: int) -> str | None:
    """The name of something kept, at least in part, that is made of what this stage computes; None if nothing is."""
    scala_context: Any = context._jsc.sc()
    computed = set(_numbers(scala_context.statusStore().lastStageAttempt(stage).rddIds()))
    persistent: Any = context._jsc.getPersistentRDDs()
    for info in scala_context.getRDDStorageInfo():
        rdd = persistent.get(info.id()) if info.numCachedPartitions() else None
        if rdd is not None and computed & {int(number) for number in _RDD.findall(rdd.toDebugString())}:
            name = " ".join(str(info.name()).split())
            return name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}..."
    return None


def _numbers(scala_numbers: Any) -> list[int]:
    return [int(scala_numbers.apply(index)) for index in range(scala_numbers.size())]
