"""Rows per second through the exchange, beside Spark's own: interleaved runs, medians of ratios.

(a) Spark's shuffle and a function behind it (repartition + mapInArrow), which is what users do today
(b) Spark's own shuffle alone
(c) no exchange at all, only the function (mapInArrow): what any way through Python can reach at best

Two inputs: rows of two longs, and rows with a string key and a payload of 200 bytes. Each is made by Spark as it is
read, which a flow takes from Spark's tasks, and read from Parquet, which hosts read by themselves.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from _side_by_side import compare, pass_on, run
from pyspark.sql import DataFrame, SparkSession

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
# By source: at least so many times the speed of (a) and of (b).
WANTED = {"made by Spark": {"a": 1.4, "b": 0.9}, "Parquet": {"a": 1.2, "b": 1.0}}


def measure(spark: SparkSession, quick: bool, repeats: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="reshape-exchange-") as folder:
        for number, (name, (full, small, columns)) in enumerate(INPUTS.items()):
            rows = small if quick else full
            made = spark.range(0, rows, 1, 8).selectExpr(*columns)
            stored = (Path(folder) / str(number)).as_uri()
            made.write.parquet(stored)
            for source, df in zip(WANTED, (made, spark.read.parquet(stored)), strict=True):
                label = f"{name}, {source}"
                results[label] = compare(rows, ways_of(df), repeats)
                print(shown(label, results[label], WANTED[source]), flush=True)
    return results


def ways_of(df: DataFrame) -> dict[str, Callable[[], DataFrame]]:
    same = pass_on()
    return {
        "reshape": lambda: reshape.flow(df).repartition("k").mapInArrow(same, df.schema).toDF(exchange=False),
        "a": lambda: df.repartition(PARTS, "k").mapInArrow(same, df.schema),
        "b": lambda: df.repartition(PARTS, "k"),
        "c": lambda: df.mapInArrow(same, df.schema),
    }


def shown(label: str, figures: Mapping[str, Any], wanted: Mapping[str, float]) -> str:
    middle, ratios, cpu = figures["medians"], figures["ratios"], figures["cpu_s"]
    return (
        f"{label}: reshape {middle['reshape']:.2f} M rows/s; {ratios['a']:.2f} x of (a) shuffle + mapInArrow "
        f"({middle['a']:.2f}), {ratios['b']:.2f} x of (b) shuffle alone ({middle['b']:.2f}); "
        f"wanted {wanted['a']} and {wanted['b']}; {ratios['c']:.2f} x of (c) mapInArrow alone "
        f"({middle['c']:.2f}), which is {ratios['a'] / ratios['c']:.2f} x of (a) "
        f"and {ratios['b'] / ratios['c']:.2f} x of (b); CPU s: "
        + ", ".join(f"{way} {median(runs):.2f}" for way, runs in cpu.items())
    )


if __name__ == "__main__":
    sys.exit(run("exchange", __doc__ or "", measure, {}))
