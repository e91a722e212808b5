"""A flow without skew: what watching for skew costs where there is none, in time and in CPU time of all processes.

``reshape`` beside ``none``; and ``none`` with reports FASTER times as often as by default beside ``none``, which is
(FASTER - 1) times the cost of the reports that every flow makes. Interleaved runs, medians of ratios round by round.
"""

from __future__ import annotations

import sys
from operator import truediv
from statistics import median
from typing import Any

from _side_by_side import OURS, compare, pass_on, run
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.control.balancing import REPORT_S

ROWS, QUICK_ROWS = 10_000_000, 500_000
FASTER = 5
MOST, MOST_FOR_METRICS = 0.02, 0.01


def measure(spark: SparkSession, quick: bool, repeats: int) -> dict[str, Any]:
    rows = QUICK_ROWS if quick else ROWS
    df = spark.range(0, rows, 1, 8).selectExpr("id * 7 % 1000003 AS k", "id AS v")
    same = pass_on()

    def flow(strategy: str, report_s: float = REPORT_S) -> DataFrame:
        read = reshape.flow(df, name="even", hosts=2, workers=8, strategy=strategy, report_s=report_s)
        return read.repartition("k").mapInArrow(same, df.schema).toDF(exchange=False)

    ways = {
        OURS: lambda: flow("reshape"),
        "none": lambda: flow("none"),
        "often": lambda: flow("none", REPORT_S / FASTER),
    }
    result = compare(rows, ways, repeats)
    wall, cpu = 1 / result["ratios"]["none"] - 1, result["cpu_ratios"]["none"] - 1
    print(f"without skew: reshape takes {wall:+.1%} time and {cpu:+.1%} CPU time of none; wanted at most {MOST:+.0%}")
    speeds, spent = result["million_rows_per_s"], result["cpu_s"]
    reports = {
        "time": (median(map(truediv, speeds["none"], speeds["often"])) - 1) / (FASTER - 1),
        "CPU time": (median(map(truediv, spent["often"], spent["none"])) - 1) / (FASTER - 1),
    }
    shown = " and ".join(f"{part:.2%} of the {what}" for what, part in reports.items())
    print(f"metric collection takes {shown} of none; wanted at most {MOST_FOR_METRICS:.0%}")
    return {"without skew": result, "metric collection": reports}


if __name__ == "__main__":
    sys.exit(run("even", __doc__ or "", measure, {}))
