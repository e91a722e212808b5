"""What a flow costs at other sizes: CPU seconds per million rows, and what a flow over very few rows takes."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from _versus_data import Store
from _versus_measure import FLOW, SPARK, START, Runner, spread
from _versus_plot import plot_scaling
from _versus_work import EVERYWHERE, Line
from pyspark.sql import SparkSession

import reshape
from reshape.driver.session import default_hosts

Say = Callable[[str], None]

WORKERS, QUICK_WORKERS = (1, 2, 4, 8), (1, 2)  # of a host
MILLIONS, QUICK_MILLIONS = "3,10,30", "0.02,0.04"
FEW_ROWS = 1_000
REPEATS, QUICK_REPEATS = 10, 3
YOUNG_S = 5.0
YOUNG_LIMIT_S = 300.0

_BY_NAME = {work.name: work for work in EVERYWHERE}
SCALED = tuple(_BY_NAME[name] for name in ("join-group", "group-count"))


def scaling(spark: SparkSession, args: argparse.Namespace, say: Say) -> dict[str, Any]:
    """By work, by contestant, by rows: the median of CPU seconds per million rows."""
    workers = QUICK_WORKERS if args.quick else WORKERS
    sizes = [
        int(float(size) * 1e6)
        for size in (args.scaling_rows or (QUICK_MILLIONS if args.quick else MILLIONS)).split(",")
    ]
    hosts, _ = default_hosts(spark)
    results: dict[str, Any] = {work.name: {} for work in SCALED}
    say(f"CPU seconds per million rows, even keys, {hosts} hosts, median of {args.rounds} rounds")
    for rows in sizes:
        store = Store(args.data, rows)
        for work in SCALED:
            line = Line("even", work)
            tables = line.read(spark, store)
            with tempfile.TemporaryDirectory(prefix="reshape-versus-") as scratch:
                plain = Runner(spark, Path(scratch), {})
                runs: dict[str, tuple[Runner, str]] = {SPARK: (plain, SPARK)}
                for each in workers:
                    runner = Runner(spark, Path(scratch), {"workers": each * hosts, "hosts": hosts})
                    runs[f"{each} worker{'s' * (each > 1)} a host"] = (runner, FLOW)
                costs: dict[str, list[float]] = {label: [] for label in runs}
                for number in range(args.rounds + 1):
                    for label, (runner, way) in runs.items():
                        sample = runner.once(line, tables, way)
                        if number:  # the first round warms up
                            costs[label].append(sample.cpu_s / rows * 1e6)
            for label, values in costs.items():
                results[work.name].setdefault(label, {})[rows] = median(values)
            shown = ", ".join(f"{label} {median(values):.2f}" for label, values in costs.items())
            say(f"  {work.name:12} {rows:>11,} rows: {shown}")
    if args.plot:
        plot_scaling(args.plot, results)
    return {"scaling": results}


def fixed_cost(args: argparse.Namespace, say: Say, spark: SparkSession | None = None) -> dict[str, Any]:
    """Without a session: runs in processes of their own, whose sessions are young. With one: warm runs in it."""
    if spark is None:
        young = {way: _in_a_process_of_its_own(args, way) for way in ("flow", "Spark")}
        say(f"{FEW_ROWS:,} rows, join and group-by, in a session that is {YOUNG_S:g} s old:")
        for way, figures in young.items():
            say(f"  {way:6} {', '.join(f'{name} {value:.2f}' for name, value in figures.items() if value is not None)}")
        return {"young session": young}
    line = Line("even", _BY_NAME["join-group"])
    tables = line.read(spark, Store(args.data, FEW_ROWS))
    warm: dict[str, Any] = {}
    say(f"{FEW_ROWS:,} rows, join and group-by, warm: median and quartiles of seconds")
    with tempfile.TemporaryDirectory(prefix="reshape-versus-") as scratch:
        runner = Runner(spark, Path(scratch), {})
        samples: dict[str, list[Any]] = {way: [] for way in (SPARK, FLOW, START)}
        for number in range(1 + (QUICK_REPEATS if args.quick else REPEATS)):
            for way, runs in samples.items():
                sample = runner.once(line, tables, way)
                if number:
                    runs.append(sample)
    for way, runs in samples.items():
        warm[way] = {"seconds": spread([s.seconds for s in runs]), "cpu_s": spread([s.cpu_s for s in runs])}
    warm[START]["first partial result"] = spread([s.first_partial_s for s in samples[START]])
    for way, figures in warm.items():
        shown = (f"{name} {middle:.3f} ({low:.3f}-{high:.3f})" for name, (middle, low, high) in figures.items())
        say(f"  {way:8} {', '.join(shown)}")
    return {"warm": warm}


def young_session(store: Store, way: str) -> None:
    """The child's part: the first query of a session, as soon as that is so old. Prints one line of JSON."""
    line = Line("even", _BY_NAME["join-group"])
    for name in line.table_names().values():
        store.path(name)
    spark = reshape.local_session("versus_spark", spark_log_level="ERROR")
    born = time.perf_counter()
    try:
        tables = line.read(spark, store)
        with tempfile.TemporaryDirectory(prefix="reshape-versus-") as scratch:
            threading.Event().wait(max(0.0, YOUNG_S - (time.perf_counter() - born)))  # the age is what is measured at
            sample = Runner(spark, Path(scratch), {}).once(line, tables, START if way == "flow" else SPARK)
        figures = {"seconds": sample.seconds, "cpu_s": sample.cpu_s, "first partial result": sample.first_partial_s}
        print(json.dumps(figures), flush=True)
    finally:
        spark.stop()


def _in_a_process_of_its_own(args: argparse.Namespace, way: str) -> dict[str, Any]:
    script = str(Path(__file__).with_name("versus_spark.py"))
    command = [sys.executable, script, "--young-session", way, "--rows", str(FEW_ROWS), "--data", str(args.data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=YOUNG_LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"{way} in a young session ended with status {done.returncode}: {done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures
