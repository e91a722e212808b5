"""Rows per second through the exchange, beside Spark's own: interleaved runs, ratios of medians.

(a) Spark's shuffle and a function behind it (repartition + mapInArrow), which is what users do today
(b) Spark's own shuffle alone

Two inputs: rows of two longs, and rows with a string key and a payload of 200 bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.runtime.java import ensure_java

# (rows, rows with --quick, expressions)
INPUTS = {
    "two longs": (20_000_000, 2_000_000, ["id * 7 % 1000003 AS k", "id AS v"]),
    "string key, 200 bytes": (
        5_000_000,
        500_000,
        ["concat('key-', id * 7 % 100003) AS k", "lpad(cast(id AS string), 200, 'x') AS v"],
    ),
}
AT_LEAST = {"a": 1.4, "b": 0.9}


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def finish(df: DataFrame) -> float:
    started = time.perf_counter()
    df.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def ways(df: DataFrame, parts: int) -> dict[str, Callable[[], float]]:
    schema = df.schema
    return {
        "reshape": lambda: finish(reshape.read(df).repartition("k").mapInArrow(same, schema).toDF(exchange=False)),
        "a": lambda: finish(df.repartition(parts, "k").mapInArrow(same, schema)),
        "b": lambda: finish(df.repartition(parts, "k")),
    }


def measure(spark: SparkSession, quick: bool, repeats: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, (full, small, columns) in INPUTS.items():
        rows = small if quick else full
        df = spark.range(0, rows, 1, 8).selectExpr(*columns)
        runs: dict[str, list[float]] = {"reshape": [], "a": [], "b": []}
        for way in ways(df, 4).values():
            way()  # JIT, Python workers
        for _ in range(repeats):
            for label, way in ways(df, 4).items():
                runs[label].append(rows / way() / 1e6)
        middle = {label: median(speeds) for label, speeds in runs.items()}
        ratios = {label: middle["reshape"] / middle[label] for label in ("a", "b")}
        results[name] = {"rows": rows, "million_rows_per_s": runs, "ratios": ratios}
        print(
            f"{name}: reshape {middle['reshape']:.2f} M rows/s; {ratios['a']:.2f} x of (a) shuffle + mapInArrow "
            f"({middle['a']:.2f}), {ratios['b']:.2f} x of (b) shuffle alone ({middle['b']:.2f}); "
            f"wanted {AT_LEAST['a']} and {AT_LEAST['b']}",
            flush=True,
        )
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write every figure with the runs behind it to this file")
    args = parser.parse_args()
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        .getOrCreate()
    )
    try:
        results = measure(spark, args.quick, args.repeats)
    finally:
        spark.stop()
    if args.json:
        args.json.write_text(json.dumps({"benchmark": "exchange", "results": results}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
