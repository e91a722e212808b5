"""The suite of queries (`tests/queries/`): flows beside plain Spark, in turn in one session, without skew and with it.

A query runs as Spark runs it, and as `reshape.flow(query).toDF()`; where Spark takes longer than 5 s, also by `start()`
for the time until the first partial result. Every answer is compared with Spark's first.
A cell is the median of seconds, half the distance of the quartiles, and after the slash CPU seconds of all processes.
"x" is how many times as fast a flow is as Spark: above 1 the flow wins. "placed": hosts run so many of its operators.

  --only 'h_*,d_seven_tables'    some queries
  --without 'd_first_*'          all but some: with skew Spark takes minutes for this one
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any

from _versus_measure import FLOW, NO_BROADCAST, SPARK, START, Differs, Machine, Runner, fingerprint, measure, summary
from _versus_work import Line, Side, Work
from pyspark.sql import DataFrame, SparkSession

import reshape

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.queries.query import Query
from tests.queries.suite import QUERIES
from tests.queries.tables import KINDS, TINY, Size, make_tables, register

SCALE = 0.3
LONG_S = 5.0  # a first partial result matters from here on
# One of each sort, in quick runs.
QUICK = ("h_revenue_by_segment", "d_store_but_not_web", "f_sorted_wholly")
CELL = 19


def say(text: str) -> None:
    print(text, flush=True)


def line_of(spark: SparkSession, query: Query, kind: str) -> Line:
    """A query as a line of `versus_spark.py`: the same DataFrame for both sides, made anew for each run."""

    def asked(side: Side, _: object) -> Any:
        df = query.build(spark)
        return df if side.options is None else reshape.flow(df, **side.options)

    return Line(kind, Work(query.name, {}, asked, joins=True, started=True))


def check(runner: Runner, line: Line) -> None:
    """The flow's rows are Spark's. Floats are left to the tests: their last digits differ from run to run."""

    def exact(df: DataFrame) -> DataFrame:
        return df.select(*(f"`{f.name}`" for f in df.schema if "double" not in f.dataType.simpleString()))

    got, want = (fingerprint(exact(runner.frame(line, {}, way))) for way in (FLOW, SPARK))
    if got != want:
        raise Differs(f"{line.name}: (rows, hashes) are {got}, Spark has {want}")


def placed(spark: SparkSession, query: Query) -> str:
    placements = reshape.flow(query.build(spark)).placements
    return f"{sum(each.where == 'reshape' for each in placements)}/{len(placements)}"


def compare(runner: Runner, kind: str, names: list[str], args: argparse.Namespace) -> dict[str, Any]:
    results: dict[str, Any] = {}
    ways = [SPARK, FLOW] + ([NO_BROADCAST] if args.no_broadcast else [])
    say(f"\n{kind}\n  {'query':40}" + "".join(f"{way:>{CELL}}" for way in ways) + "      x  placed")
    for name in names:
        line = line_of(runner.spark, QUERIES[name], kind)
        check(runner, line)
        samples, memory = measure(runner, line, {}, ways, args.rounds)
        if median(sample.seconds for sample in samples[SPARK]) > LONG_S:
            samples[START] = [runner.once(line, {}, START) for _ in range(args.rounds)]
        figures = summary(samples)
        where = placed(runner.spark, QUERIES[name])
        say(shown(name, figures, ways) + f"  {where:>6}" + first_partial(figures))
        runs = {way: [asdict(sample) for sample in each] for way, each in samples.items()}
        results[name] = {**figures, "placed": where, "memory_mib": memory, "runs": runs}
    return results


def shown(name: str, figures: Mapping[str, Any], ways: list[str]) -> str:
    cells = ""
    for way in ways:
        of_way = figures["ways"][way]
        middle, low, high = of_way["seconds"]
        cell = f"{middle:.2f} ±{(high - low) / 2:.2f} / {of_way['cpu_s'][0]:.2f}"
        cells += f"{cell:>{CELL}}"
    return f"  {name:40}{cells}{figures['ratios'][FLOW][0]:7.2f}"


def first_partial(figures: Mapping[str, Any]) -> str:
    of_start = figures["ways"].get(START)
    if of_start is None:
        return ""
    first, total = of_start["first_partial_s"], figures["ways"][SPARK]["seconds"][0]
    if first is None:
        return "  no partial result"
    return f"  first partial result after {first[0]:.2f} s, {first[0] / total:.0%} of Spark's time"


def totals(results: Mapping[str, Any]) -> dict[str, float]:
    """Sums of the medians of all queries, in seconds and CPU seconds, by way. One slow query may decide a sum, so also
    the sums without the one that takes Spark longest, and the ratio in the middle."""

    def total(way: str, figure: str, without: str = "") -> float:
        return float(sum(each["ways"][way][figure][0] for name, each in results.items() if name != without))

    slowest = max(results, key=lambda name: results[name]["ways"][SPARK]["seconds"][0])
    spark, flow = total(SPARK, "seconds"), total(FLOW, "seconds")
    return {
        SPARK: spark,
        FLOW: flow,
        "flow_over_spark": flow / max(spark, 1e-9),
        "without_slowest": total(FLOW, "seconds", slowest) / max(total(SPARK, "seconds", slowest), 1e-9),
        "cpu_flow_over_spark": total(FLOW, "cpu_s") / max(total(SPARK, "cpu_s"), 1e-9),
        "median_x": median(each["ratios"][FLOW][0] for each in results.values()),
    }


def chosen(only: str | None, without: str | None, quick: bool) -> list[str]:
    wanted = only.split(",") if only else list(QUICK) if quick else ["*"]
    unwanted = without.split(",") if without else []
    for pattern in (*wanted, *unwanted):
        if not any(fnmatchcase(name, pattern) for name in QUERIES):
            raise SystemExit(f"no query is called {pattern!r}; there are {', '.join(QUERIES)}")

    def matches(name: str, patterns: list[str]) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    return [name for name in QUERIES if matches(name, wanted) and not matches(name, unwanted)]


def tables_of(home: Path, size: Size) -> Path:
    """The folder with the tables of a size, made now unless they are there."""
    folder = home / f"h{size.tpch:g}-ds{size.tpcds:g}-{size.sales or 'all'}"
    complete = folder / "complete"
    if not complete.exists():
        make_tables(folder, size)
        complete.touch()
    return folder


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny tables, 1 round, 3 queries unless --only names some")
    parser.add_argument("--scale", type=float, default=SCALE, help=f"of both benchmarks; 1 is about 1 GB ({SCALE})")
    parser.add_argument("--rounds", type=int, help="timed rounds of each query (3)")
    parser.add_argument("--only", help="names of queries, separated by commas; * and ? stand for others")
    parser.add_argument("--without", help="queries to leave out, named like those of --only")
    parser.add_argument("--no-broadcast", action="store_true", help="also Spark without broadcast joins")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "reshape-queries")
    parser.add_argument("--json", type=Path, help="write every figure with the runs behind it to this file")
    args = parser.parse_args()
    args.rounds = args.rounds or (1 if args.quick else 3)
    return args


def main() -> int:
    args = parsed()
    size = TINY if args.quick else Size(args.scale, args.scale)
    names = chosen(args.only, args.without, args.quick)
    folder = tables_of(args.data, size)  # before there is a JVM, so that it is neither delayed nor grown by that
    machine = Machine()
    results: dict[str, Any] = {}
    sums: dict[str, Any] = {}
    spark = reshape.local_session("queries", spark_log_level="ERROR")
    try:
        with tempfile.TemporaryDirectory(prefix="reshape-queries-") as scratch:
            for kind in KINDS:
                register(spark, folder, kind)
                results[kind] = compare(Runner(spark, Path(scratch), {}), kind, names, args)
                sums[kind] = totals(results[kind])
                say(
                    f"  in all: Spark {sums[kind][SPARK]:.1f} s, reshape {sums[kind][FLOW]:.1f} s, "
                    f"{sums[kind]['flow_over_spark']:.2f} times Spark's ({sums[kind]['without_slowest']:.2f} without "
                    f"Spark's slowest); CPU time {sums[kind]['cpu_flow_over_spark']:.2f} times; x in the middle "
                    f"{sums[kind]['median_x']:.2f}"
                )
        own, others = machine.since()
    finally:
        spark.stop()
    say(f"\nin all {own:,.0f} CPU s; meanwhile others took {others:.1%} of this machine's CPU time")
    if args.json:
        figures = {"scale": args.scale, "rounds": args.rounds, "others": others, "totals": sums, "results": results}
        args.json.write_text(json.dumps({"benchmark": "queries", "quick": args.quick, **figures}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
