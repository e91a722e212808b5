"""Real work on the CPU: a Python function of about 20 us a row behind an exchange, 80 % of the rows with one key.

Two hosts on two cores. Without load transfer the host of the heavy key does nearly all of the work alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import pyarrow as pa
from _live import main, run_flow, say, verdict
from pyspark.sql import SparkSession

import reshape
from reshape.flows import Flow

US_PER_ROW = 20
ROWS, QUICK_ROWS = 600_000, 20_000
AT_LEAST = 1.5


def turns_of(us: float) -> int:
    """So many turns of the loop below take this long here."""
    begun = time.perf_counter()
    x = 1
    for _ in range(1_000_000):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
    return round(us / (time.perf_counter() - begun))


def flow_of(spark: SparkSession, rows: int, turns: int) -> Flow:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = []
            for value in batch.column("v").to_pylist():
                x = value
                for _ in range(turns):
                    x = (x * 1103515245 + 12345) & 0x7FFFFFFF
                made.append(x)
            yield pa.RecordBatch.from_arrays([batch.column("k"), pa.array(made, pa.int64())], names=["k", "v"])

    df = spark.range(0, rows, 1, 4).selectExpr("IF(id % 10 < 8, 0, id % 64) AS k", "id AS v")
    return reshape.flow(df, name="cpu", hosts=2, workers=8).repartition("k").mapInArrow(work, "k long, v long")


def measure(spark: SparkSession, quick: bool, rounds: int) -> dict[str, Any]:
    rows = QUICK_ROWS if quick else ROWS
    turns = turns_of(US_PER_ROW)
    say(f"{rows:,} rows of about {US_PER_ROW} us ({turns} turns), 80 % with one key, 2 hosts")
    run_flow(flow_of(spark, 1_000, turns), "reshape")  # JIT, Python workers
    totals: dict[str, list[float]] = {"none": [], "reshape": []}
    for _ in range(max(rounds, 1 if quick else 3)):
        for strategy, seconds in totals.items():
            port = run_flow(flow_of(spark, rows, turns), strategy).port(0)
            seconds.append(port.total_s)
            say(f"  {strategy:8} {port.total_s:6.2f} s, rows per worker {port.received[-1]}")
    gain = median(totals["none"]) / median(totals["reshape"])
    verdicts = [verdict("CPU-bound: none to reshape", gain, AT_LEAST, at_least=True)]
    return {"rows": rows, "turns": turns, "total_s": totals, "verdicts": verdicts}


if __name__ == "__main__":
    sys.exit(main("cpu_bound", __doc__ or "", measure))
