"""Real work on real Parquet files: flows beside plain Spark, interleaved in one session.

Ways: Spark with its defaults; Spark without broadcast joins; `reshape`; the same flow with the strategy `none`;
the flow's own actions ("no exchange") where a sink wants all partitions; for some work also `start()`
and `result()`.
A cell is the median of seconds, half the distance of the quartiles, and after the slash CPU seconds of all processes.
"x" is how many times as fast a flow is as the faster of Spark's two ways: above 1 the flow wins.

  --only 'sort'  --only 'median@zipf1.2,files'  --only '*:parquet@*'    by work, data set, or both
  --scaling      CPU seconds per million rows, by workers a host and by rows
  --fixed-cost   what a flow over 1,000 rows takes, warm and in a session that is 5 s old
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from _versus_data import Store
from _versus_measure import FLOW, NO_EXCHANGE, SPARK, START, WAYS, Machine, Runner, measure, summary, ways_of
from _versus_plot import plot_ratios
from _versus_scaling import fixed_cost, scaling, young_session
from _versus_work import QUICK, Line, lines

import reshape

ROWS, QUICK_ROWS = 3_000_000, 10_000
CELL = 19


def say(text: str) -> None:
    print(text, flush=True)


@dataclass(frozen=True, slots=True)
class Cells:
    """How figures are shown: a line for each work, a cell for each way."""

    ways: Sequence[str]

    def head(self) -> str:
        return f"  {'work':20}" + "".join(f"{way:>{CELL}}" for way in self.ways) + "   x faster Spark (quartiles)"

    def line(self, label: str, figures: Mapping[str, Any], memory: Mapping[str, Mapping[str, float]]) -> str:
        cells = ""
        for way in self.ways:
            known = figures["ways"].get(way)
            if known is None:
                cells += f"{'':>{CELL}}"
                continue
            middle, low, high = known["seconds"]
            cell = f"{middle:.2f} ±{(high - low) / 2:.2f} / {known['cpu_s'][0]:.2f}"
            cells += f"{cell:>{CELL}}"
        shown = {FLOW: "", NO_EXCHANGE: "no exchange ", START: "start "}
        ratios = [
            f"{shown[way]}{middle:.2f} ({low:.2f}-{high:.2f})"
            for way, (middle, low, high) in figures["ratios"].items()
            if way in shown
        ]
        text = f"  {label:20}{cells}   {', '.join(ratios)}"
        peaks = [f"{way} {memory[way]['both']:,.0f} ({memory[way]['python']:,.0f})" for way in memory]
        extra = f"      peak MiB (of that Python): {', '.join(peaks)}"
        first = figures["ways"].get(START, {}).get("first_partial_s")
        if first:
            extra += f"; first partial result after {first[0]:.2f} s"
        others = max(known["others"] for known in figures["ways"].values())
        return f"{text}\n{extra}; others took {others:.0%} of the machine"


def chosen(patterns: str | None, quick: bool) -> list[Line]:
    """Lines whose work, data set or full name is named; quick runs have a few unless others are asked for."""
    wanted = patterns.split(",") if patterns else list(QUICK) if quick else ["*"]
    every = lines()
    unknown = [pattern for pattern in wanted if not any(_matches(line, pattern) for line in every)]
    if unknown:
        names = sorted({line.label for line in every}), sorted({line.data_set for line in every})
        raise SystemExit(f"--only: nothing is called {unknown[0]!r}; works: {names[0]}; data sets: {names[1]}")
    return [line for line in every if any(_matches(line, pattern) for pattern in wanted)]


def _matches(line: Line, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (line.label, line.data_set, line.name))


def source_lines(text: str) -> list[str]:
    """What `explain` says about sources: the lines that name one, and what stands below each."""
    kept: list[str] = []
    depth: int | None = None
    for line in text.splitlines():
        bare = line.lstrip(" |+-")
        indent = len(line) - len(bare)
        if "source " in bare.split('"')[0]:
            depth = indent
        elif depth is not None and indent <= depth:
            depth = None
        if depth is not None:
            kept.append(line)
    return kept


def compare(runner: Runner, store: Store, args: argparse.Namespace) -> dict[str, Any]:
    results: dict[str, Any] = {}
    cells = Cells([way for way in WAYS if way in args.ways])
    shown = None
    for line in chosen(args.only, args.quick):
        if line.data_set != shown:
            shown = line.data_set
            say(f"\n{shown}, made for {store.rows:,} sales\n{cells.head()}")
        tables = line.read(runner.spark, store)
        if args.explain:
            explained = runner.flow(line, tables, FLOW)._explained()
            say("\n".join(f"      {each}" for each in source_lines(explained)))
        runner.check(line, tables)
        samples, memory = measure(runner, line, tables, ways_of(line, cells.ways), args.rounds)
        figures = summary(samples)
        say(cells.line(line.label, figures, memory))
        runs = {way: [asdict(sample) for sample in each] for way, each in samples.items()}
        results[line.name] = {**figures, "memory_mib": memory, "runs": runs}
    return results


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="small data, 2 rounds, a few works unless --only names some"
    )
    parser.add_argument("--rows", type=int, help=f"rows of sales; other tables grow with them ({ROWS:,})")
    parser.add_argument("--rounds", type=int, help="timed rounds of each work (5)")
    parser.add_argument("--only", help="works, data sets or work@set, separated by commas; * and ? stand for others")
    parser.add_argument("--ways", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "reshape-versus-spark")
    parser.add_argument("--explain", action="store_true", help="print what a flow's explain() says about its sources")
    parser.add_argument("--json", type=Path, help="write every figure with the runs behind it to this file")
    parser.add_argument("--plot", type=Path, help="draw the ratios, or the scaling, into this file (needs matplotlib)")
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--scaling-rows", help="rows for --scaling, in millions (3,10,30)")
    parser.add_argument("--fixed-cost", action="store_true")
    parser.add_argument("--young-session", choices=("flow", "Spark"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.rows = args.rows or (QUICK_ROWS if args.quick else ROWS)
    args.rounds = args.rounds or (2 if args.quick else 5)
    args.ways = args.ways.split(",") if args.ways else list(WAYS)
    wrong = [way for way in args.ways if way not in WAYS]
    if wrong:
        parser.error(f"--ways: there is no {wrong[0]!r}, only {', '.join(WAYS)}")
    if SPARK not in args.ways or FLOW not in args.ways:
        parser.error(f"--ways: {SPARK} and {FLOW} are always there")
    return args


def main() -> int:
    args = parsed()
    store = Store(args.data, args.rows)
    if args.young_session:
        young_session(store, args.young_session)
        return 0
    # Before this process has a session of its own: a second JVM would take part of the machine from the young one.
    results: dict[str, Any] = fixed_cost(args, say) if args.fixed_cost else {}
    if not args.scaling and not args.fixed_cost:
        # Tables are made before there is a JVM, so that it is neither delayed nor grown by that.
        for line in chosen(args.only, args.quick):
            for name in line.table_names().values():
                store.path(name)
    machine = Machine()
    spark = reshape.local_session("versus_spark", spark_log_level="ERROR")
    try:
        if args.fixed_cost:
            results |= fixed_cost(args, say, spark)
        if args.scaling:
            results |= scaling(spark, args, say)
        if not args.scaling and not args.fixed_cost:
            with tempfile.TemporaryDirectory(prefix="reshape-versus-") as scratch:
                results = compare(Runner(spark, Path(scratch), {}), store, args)
            if args.plot:
                plot_ratios(args.plot, results)
        own, others = machine.since()
    finally:
        spark.stop()
    say(f"\nin all {own:,.0f} CPU s; meanwhile others took {others:.1%} of this machine's CPU time")
    if args.json:
        figures = {"rows": args.rows, "rounds": args.rounds, "others": others, "results": results}
        args.json.write_text(json.dumps({"benchmark": "versus_spark", "quick": args.quick, **figures}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
