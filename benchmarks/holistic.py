"""Operators whose state cannot be summed up, with one heavy key: four workers, an emulated cost of a row.

A median per key where one key has 60 % of the rows, and a sort where one value has 40 % of them. No way of placing keys
balances these: rows of the one key have to be divided, and what helpers have of it goes back to its owner in the end.
"""

from __future__ import annotations

import sys
from statistics import median
from typing import Any

from _live import main, run_flow, say, verdict
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import reshape
from reshape.flows import Flow

WORKERS = 4
AT_LEAST = 1.7
ROWS, QUICK_ROWS = 24_000, 2_000
COST_S = 0.001


def medians(spark: SparkSession, rows: int) -> Flow:
    df = spark.range(0, rows, 1, 2).selectExpr("IF(id % 10 < 6, 0, id % 40) AS k", "hash(id) AS v")
    return reshape.flow(df, name="median").groupBy("k").agg(F.median("v"), F.count("*"))


def ordered(spark: SparkSession, rows: int) -> Flow:
    """The value lies a little above the middle: 45 % of the rows are smaller, 15 % larger."""
    place = "hash(id) & 1048575"
    df = spark.range(0, rows, 1, 2).selectExpr(
        f"CASE WHEN id % 20 < 8 THEN 0 WHEN id % 20 < 17 THEN -1 - ({place}) ELSE 1 + ({place}) END AS v", "id"
    )
    return reshape.flow(df, name="sort").orderBy("v")


def measure(spark: SparkSession, quick: bool, rounds: int) -> dict[str, Any]:
    rows = QUICK_ROWS if quick else ROWS
    run_flow(medians(spark, 200), "reshape", hosts=2, workers=WORKERS)  # JIT, Python workers
    results: dict[str, Any] = {}
    for name, make in (("median per key", medians), ("sort", ordered)):
        balanced_s = rows * COST_S / WORKERS
        say(f"{name}, {rows:,} rows, emulated cost {COST_S * 1e3:g} ms a row; balanced {balanced_s:.2f} s")
        totals: dict[str, list[float]] = {"none": [], "reshape": []}
        loads: dict[str, list[int]] = {}
        for _ in range(rounds):
            for strategy, seconds in totals.items():
                run = run_flow(make(spark, rows), strategy, hosts=2, workers=WORKERS, cost_s_per_row=COST_S)
                port = run.port(0)
                seconds.append(port.total_s)
                loads[strategy] = port.received[-1]
                say(f"  {strategy:8} {port.total_s:6.2f} s, rows per worker {loads[strategy]}")
        gain = median(totals["none"]) / median(totals["reshape"])
        verdicts = [verdict(f"{name}: none to reshape", gain, AT_LEAST, at_least=True)]
        results[name] = {"balanced_s": balanced_s, "total_s": totals, "rows": loads, "verdicts": verdicts}
    return results


if __name__ == "__main__":
    sys.exit(main("holistic", __doc__ or "", measure))
