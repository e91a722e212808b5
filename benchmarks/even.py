"""A flow without skew, with ``reshape`` and with ``none``: interleaved runs, medians of ratios.

What watching for skew costs where there is none, by the clock and by the CPU time of all processes.
"""

from __future__ import annotations

import sys
from typing import Any

from _side_by_side import compare, run
from pyspark.sql import DataFrame, SparkSession

import reshape

ROWS, QUICK_ROWS = 10_000_000, 500_000
MOST = 0.02


def measure(spark: SparkSession, quick: bool, repeats: int) -> dict[str, Any]:
    rows = QUICK_ROWS if quick else ROWS
    df = spark.range(0, rows, 1, 8).selectExpr("id * 7 % 1000003 AS k", "id AS v")

    def flow(strategy: str) -> DataFrame:
        read = reshape.read(df, name="even", hosts=2, workers=8, strategy=strategy)
        return read.repartition("k").toDF(exchange=False)

    result = compare(rows, {"reshape": lambda: flow("reshape"), "none": lambda: flow("none")}, repeats)
    wall, cpu = 1 / result["ratios"]["none"] - 1, result["cpu_ratios"]["none"] - 1
    print(f"without skew: reshape takes {wall:+.1%} time and {cpu:+.1%} CPU time of none; wanted at most {MOST:+.0%}")
    return {"without skew": result}


if __name__ == "__main__":
    sys.exit(run("even", __doc__ or "", measure, {}))
