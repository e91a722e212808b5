"""Rows per second through the exchange, beside Spark's own: interleaved runs, medians of ratios.

(a) Spark's shuffle and a function behind it (repartition + mapInArrow), which is what users do today
(b) Spark's own shuffle alone
(c) no exchange at all, only the function (mapInArrow): what any way through Python can reach at best

Two inputs: rows of two longs, and rows with a string key and a payload of 200 bytes.
"""

from __future__ import annotations

import sys
from typing import Any

from _side_by_side import compare, pass_on, run
from pyspark.sql import SparkSession

import reshape

# (rows, rows with --quick, expressions)
INPUTS = {
    "two longs": (20_000_000, 2_000_000, ["id * 7 % 1000003 AS k", "id AS v"]),
    "string key, 200 bytes": (
        5_000_000,
        500_000,
        ["concat('key-', id * 7 % 100003) AS k", "lpad(cast(id AS string), 200, 'x') AS v"],
    ),
}
PARTS = 4
AT_LEAST = {"a": 1.4, "b": 0.9}


def measure(spark: SparkSession, quick: bool, repeats: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    same = pass_on()
    for name, (full, small, columns) in INPUTS.items():
        rows = small if quick else full
        df = spark.range(0, rows, 1, 8).selectExpr(*columns)
        ways = {
            "reshape": lambda df=df: reshape.flow(df).repartition("k").mapInArrow(same, df.schema).toDF(exchange=False),
            "a": lambda df=df: df.repartition(PARTS, "k").mapInArrow(same, df.schema),
            "b": lambda df=df: df.repartition(PARTS, "k"),
            "c": lambda df=df: df.mapInArrow(same, df.schema),
        }
        results[name] = compare(rows, ways, repeats)
        middle, ratios = results[name]["medians"], results[name]["ratios"]
        print(
            f"{name}: reshape {middle['reshape']:.2f} M rows/s; {ratios['a']:.2f} x of (a) shuffle + mapInArrow "
            f"({middle['a']:.2f}), {ratios['b']:.2f} x of (b) shuffle alone ({middle['b']:.2f}); "
            f"wanted {AT_LEAST['a']} and {AT_LEAST['b']}; {ratios['c']:.2f} x of (c) mapInArrow alone "
            f"({middle['c']:.2f}), which is {ratios['a'] / ratios['c']:.2f} x of (a) "
            f"and {ratios['b'] / ratios['c']:.2f} x of (b)",
            flush=True,
        )
    return results


if __name__ == "__main__":
    sys.exit(run("exchange", __doc__ or "", measure, {}))
