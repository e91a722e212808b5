"""Windows with one heavy key, which has 60 % of the rows: the case that Spark's adaptive execution leaves alone.

Emulated: four workers, an emulated cost of a row; a rank, a running sum and the row before, without load transfer and
with it. Real: the same functions over Parquet files beside plain Spark, on as many cores as there are, spent in turn;
and over one partition of all rows.
"""

from __future__ import annotations

import sys
import tempfile
import time
from statistics import median
from typing import Any

from _live import main, run_flow, say, verdict
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.flows import Flow

WORKERS = 4
AT_LEAST = 1.7
ROWS, QUICK_ROWS = 24_000, 2_000
COST_S = 0.001
REAL_ROWS, REAL_QUICK_ROWS = 3_000_000, 20_000
# Spark's and ours in turn, the first round to warm up.
REAL_ROUNDS = 4

BY_KEY = "OVER (PARTITION BY k ORDER BY o, id)"
OF_ALL = "OVER (ORDER BY o, id)"


def rows_of(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(0, rows, 1, 2).selectExpr(
        "IF(id % 10 < 6, 0, id % 40) AS k", "id", "hash(id) AS o", "id / 8 AS v"
    )


def windows(df: DataFrame, window: str = BY_KEY) -> DataFrame:
    df.createOrReplaceTempView("facts")
    return df.sparkSession.sql(f"SELECT *, rank() {window} AS r, sum(v) {window} AS s, lag(v) {window} AS b FROM facts")


def flow(spark: SparkSession, rows: int, **options: Any) -> Flow:
    return reshape.flow(windows(rows_of(spark, rows)), name="windows", **options)


def emulated(spark: SparkSession, rows: int, rounds: int) -> dict[str, Any]:
    balanced_s = rows * COST_S / WORKERS
    say(f"emulated, {rows:,} rows, cost {COST_S * 1e3:g} ms a row; balanced {balanced_s:.2f} s")
    totals: dict[str, list[float]] = {"none": [], "reshape": []}
    loads: dict[str, list[int]] = {}
    for _ in range(rounds):
        for strategy, seconds in totals.items():
            run = run_flow(flow(spark, rows), strategy, hosts=2, workers=WORKERS, cost_s_per_row=COST_S)
            port = run.port(0)
            seconds.append(port.total_s)
            loads[strategy] = port.received[-1]
            say(f"  {strategy:8} {port.total_s:6.2f} s, rows per worker {loads[strategy]}")
    gain = median(totals["none"]) / median(totals["reshape"])
    verdicts = [verdict("emulated: none to reshape", gain, AT_LEAST, at_least=True)]
    return {"balanced_s": balanced_s, "total_s": totals, "rows": loads, "verdicts": verdicts}


def real(spark: SparkSession, rows: int) -> dict[str, Any]:
    say(f"real work, {rows:,} rows of Parquet")
    seconds: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="reshape-benchmark-") as folder:
        rows_of(spark, rows).repartition(8).write.mode("overwrite").parquet(folder)
        for name, window in {"a heavy key": BY_KEY, "one partition": OF_ALL}.items():
            seconds[name] = in_turn(spark, folder, window)
    verdicts = []
    for name, runs in seconds.items():
        spent = {way: median(found) for way, found in runs.items()}
        say(f"  {name:13} spark {spent['spark']:6.2f} s, reshape {spent['reshape']:6.2f} s")
        ratio = spent["spark"] / spent["reshape"]
        verdicts.append(verdict(f"real work, {name}: Spark's time to ours", ratio, 1.0, at_least=True))
    return {"seconds": seconds, "verdicts": verdicts}


def in_turn(spark: SparkSession, folder: str, window: str) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {"spark": [], "reshape": []}
    for turn in range(REAL_ROUNDS):
        for way, runs in seconds.items():
            df = windows(spark.read.parquet(folder), window)
            began = time.perf_counter()
            result = df if way == "spark" else reshape.flow(df).toDF(exchange=False)
            result.write.format("noop").mode("overwrite").save()
            if turn:
                runs.append(time.perf_counter() - began)
    return seconds


def measure(spark: SparkSession, quick: bool, rounds: int) -> dict[str, Any]:
    run_flow(flow(spark, 200), "reshape", hosts=2, workers=WORKERS)  # JIT, Python workers
    return {
        "emulated": emulated(spark, QUICK_ROWS if quick else ROWS, rounds),
        "real": real(spark, REAL_QUICK_ROWS if quick else REAL_ROWS),
    }


if __name__ == "__main__":
    sys.exit(main("windows", __doc__ or "", measure))
