"""The frame of the benchmarks on Spark: several ways to do the same work, in turn, compared round by round."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from _cpu import Neighbours, tree_cpu_s
from pyspark.sql import DataFrame, SparkSession

import reshape

OURS = "reshape"

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Measure = Callable[[SparkSession, bool, int], dict[str, Any]]  # (session, quick, repeats) -> figures by input


def pass_on() -> ArrowFunction:
    """The function that every way ends with. Made anew, so that it travels to tasks by value: they lack this file."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return same


def compare(rows: int, ways: Mapping[str, Callable[[], DataFrame]], repeats: int) -> dict[str, Any]:
    """Speed and CPU time of each way, run by run, and how ours compares with each other one, round by round."""
    runs: dict[str, list[float]] = {way: [] for way in ways}
    for make in ways.values():
        _seconds(make())  # JIT, Python workers
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(repeats):
        # Each round begins with another way: none has always the same one before it.
        turn = number % len(ways)
        for way in [*ways][turn:] + [*ways][:turn]:
            before = tree_cpu_s()
            runs[way].append(rows / _seconds(ways[way]()) / 1e6)
            cpu[way].append(tree_cpu_s() - before)
    middle = {way: median(speeds) for way, speeds in runs.items()}
    # Of runs side by side, for the machine may be slower in one round than in another.
    ratios = {way: median(map(truediv, runs[OURS], runs[way])) for way in ways if way != OURS}
    cpu_ratios = {way: median(map(truediv, cpu[OURS], cpu[way])) for way in ways if way != OURS}
    return {
        "rows": rows,
        "million_rows_per_s": runs,
        "medians": middle,
        "ratios": ratios,
        "cpu_s": cpu,
        "cpu_ratios": cpu_ratios,
    }


def _seconds(df: DataFrame) -> float:
    started = time.perf_counter()
    df.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def run(benchmark: str, description: str, measure: Measure, config: Mapping[str, str]) -> int:
    """The command line of a benchmark."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write every figure with the runs behind it to this file")
    args = parser.parse_args()
    spark = reshape.local_session(benchmark, config={"spark.log.level": "ERROR", **config})
    neighbours = Neighbours()
    try:
        results = measure(spark, args.quick, args.repeats)
    finally:
        spark.stop()
    print(neighbours)
    if args.json:
        args.json.write_text(json.dumps({"benchmark": benchmark, "results": results}, indent=2))
    return 0
