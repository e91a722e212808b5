"""`reshape.inspect`: the operations of a query, one after the other, looked at by samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from reshape.control.errors import require
from reshape.errors import FlowError
from reshape.inspection.estimates import hot_keys, shares, times
from reshape.inspection.operations import Operation, operations
from reshape.inspection.records import Finding, Inspection, KeyShare, Looked
from reshape.inspection.remedies import advice
from reshape.inspection.sampling import NotLookedAt, Sampler

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Shares of one in twenty are then known to a tenth of a percent.
ROWS = 200_000
SHOWN_KEYS = 10

# Which operation is looked at now, how many were before it, and how many there are.
OnOperation = Callable[[str, int, int], None]


def inspect(df: DataFrame, rows: int, workers: int | None, on_operation: OnOperation = lambda *_: None) -> Inspection:
    """Look at every operation of a query that brings rows of one key together."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if not isinstance(df, ClassicDataFrame):
        raise FlowError(
            f"inspect: {type(df).__module__}.{type(df).__name__} is not a DataFrame of a classic Spark session"
        )
    if df.isStreaming:
        raise FlowError("inspect: this DataFrame is a stream; inspect one that reads what has arrived so far")
    require(rows >= 1, "rows", rows, "1 or more")
    require(workers is None or workers >= 1, "workers", workers, "1 or more")
    began = time.monotonic()
    spark = df.sparkSession
    number = spark.sparkContext.defaultParallelism if workers is None else workers
    sampler = Sampler(spark, rows, SHOWN_KEYS)
    plan = df._jdf.queryExecution().optimizedPlan()
    found = []
    all_operations = list(operations(spark, plan))
    for done, operation in enumerate(all_operations):
        on_operation(f"{operation.words} {', '.join(operation.keys)}".strip(), done, len(all_operations))
        found.append(_finding(sampler, df, operation, number))
    return Inspection(tuple(found), number, time.monotonic() - began)


def _finding(sampler: Sampler, df: DataFrame, operation: Operation, workers: int) -> Finding:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    spark = df.sparkSession
    if not operation.expressions:
        return _one_key(df, operation, workers)
    try:
        sampled = sampler.counted(operation)
    except (NotLookedAt, PySparkException, Py4JError) as error:
        reason = str(error) if isinstance(error, NotLookedAt) else f"Spark: {_first_line(error)}"
        remedy = advice(spark, operation, ())
        return Finding(operation.words, operation.keys, None, (), (), remedy.remedy, remedy.spark, "", None, reason)
    top = shares(sampled) if sampled.looked.rows else ()
    return _told(df, operation, sampled.looked, top, hot_keys(top, workers), workers)


def _one_key(df: DataFrame, operation: Operation, workers: int) -> Finding:
    """All rows have one key, whatever they are: nothing has to be looked at."""
    everything = (KeyShare((), 0, 1.0, 1.0, 1.0),)
    looked = Looked(0, True, "none: all rows go to one worker")
    return _told(df, operation, looked, everything, everything if workers > 1 else (), workers)


def _told(
    df: DataFrame,
    operation: Operation,
    looked: Looked,
    top: tuple[KeyShare, ...],
    hot: tuple[KeyShare, ...],
    workers: int,
) -> Finding:
    told = advice(df.sparkSession, operation, hot)
    expected = times(hot, workers, told.remedy, ordered=operation.is_ordered)
    return Finding(operation.words, operation.keys, looked, top, hot, told.remedy, told.spark, told.reshape, expected)


def _first_line(error: BaseException) -> str:
    from py4j.protocol import Py4JJavaError

    text = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    return text.strip().partition("\n")[0]
