"""W1 on Spark (§7.2 to §7.4): 48 workers on two hosts, with an emulated cost of a row in the join.

Paced: the source sends everything in 6 % of the unmitigated run, as in the paper. Figures: total time, load balancing
of California's and Texas's workers with the helpers that the brain chooses (§7.4), and ttr of California to Arizona, as
the running result shows it, while Arizona's worker helps California's (§7.2). Each is beside what the simulator says
for the same rows, owners, speeds and pace.
Unpaced: the source is as fast as it can be. Figures: total time beside that of perfect balance over all workers.

All times are of emulated cost, from the first row that is routed until the last one is processed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import Any

import pyarrow as pa
from _live import LiveRun, main, paced, run_flow, say, verdict
from pyspark.sql import SparkSession

import reshape
from reshape.control.profile import OperatorProfile
from reshape.control.settings import StrategySettings
from reshape.control.strategies import build
from reshape.datasets.tweet_tables import slang, tweets
from reshape.datasets.tweets import ARIZONA, CALIFORNIA, TEXAS, TOTAL
from reshape.flows import Flow
from reshape.kernels.hashing import hash_rows, owners
from reshape.sim import metrics
from reshape.sim.experiments.measuring import Ratio, load_balancing, pair_of, ttr
from reshape.sim.recorder import OperatorRun
from reshape.sim.scenario import InputPhase, Scenario, Source, Stage
from reshape.sim.simulation import simulate

STRATEGIES = ("none", "flux", "flow-join", "reshape-paper", "reshape")
JUDGED = {"reshape-paper": 0.30, "reshape": 0.12}  # and their limits of ttr
INPUT_SHARE = 0.06
PARTITIONS = 2
JOIN, PROBE = 0, 1
# The paper's threshold of 100 queue entries of about 12,000 rows, and its two seconds of 416 before anything is moved.
TAU_SHARE = 100 * 12_000 / TOTAL
WARMUP_SHARE = 2 / 416
REPORT_S = 0.1
DISPLAY_S = 0.25


@dataclass(frozen=True, slots=True)
class Size:
    """``cost_s``: emulated cost of a row in the join; ``found``: rows of each location."""

    rows: int
    cost_s: float
    workers: int
    found: tuple[tuple[int, int], ...]

    @property
    def owners(self) -> dict[int, int]:
        """The worker of each location."""
        codes = list(self.rows_of_location)
        found = owners(hash_rows([pa.array(codes, pa.int32())]), self.workers)
        return dict(zip(codes, (int(worker) for worker in found), strict=True))

    @property
    def rows_of_location(self) -> dict[int, int]:
        return dict(self.found)

    @property
    def unmitigated_s(self) -> float:
        """What the worker with most rows needs for them."""
        loads = dict.fromkeys(range(self.workers), 0)
        for code, rows in self.rows_of_location.items():
            loads[self.owners[code]] += rows
        return max(loads.values()) * self.cost_s

    @property
    def balanced_s(self) -> float:
        return self.rows * self.cost_s / self.workers

    @property
    def input_s(self) -> float:
        return INPUT_SHARE * self.unmitigated_s

    def options(self, strategy: str) -> dict[str, Any]:
        """Ours needs none; everything else runs with the paper's settings, to scale."""
        if strategy in ("none", "reshape"):
            return {}
        threshold = TAU_SHARE * self.rows
        return {"tau": threshold, "eta": threshold, "warmup_s": WARMUP_SHARE * self.unmitigated_s}

    def settings(self, strategy: str) -> StrategySettings:
        options = self.options(strategy)
        return StrategySettings.paper(**options) if options else StrategySettings()


def sized(spark: SparkSession, rows: int, cost_s: float, workers: int = 48) -> Size:
    """Locations are drawn at random, so the data says how many rows each has."""
    counts = tweets(spark, rows, partitions=PARTITIONS).groupBy("location").count().collect()
    return Size(rows, cost_s, workers, tuple(sorted((row["location"], row["count"]) for row in counts)))


def flow_of(spark: SparkSession, size: Size, *, pace: bool) -> Flow:
    """The join, and the count per location that a user watches."""
    source = tweets(spark, size.rows, partitions=PARTITIONS).select("tweet_id", "location")
    if pace:
        source = paced(source, size.rows / PARTITIONS, size.input_s)
    read = reshape.flow(source, name="W1", hosts=2, workers=size.workers, joins="all")
    counted = read.join(slang(spark, words=1), "location").groupBy("location").count()
    return counted.tuned("join", cost_s_per_row=size.cost_s).tuned("group by", strategy="none")


def ttr_shown(run: LiveRun, size: Size, unmitigated_s: float) -> float:
    """Time to representative of California to Arizona, as a part of the unmitigated run."""
    port = run.port(JOIN, PROBE)
    times, ratios = [], []
    for seconds, table in run.shown:
        counts = dict(zip(table["location"].to_pylist(), table["count"].to_pylist(), strict=True))
        times.append(max(0.0, seconds - port.began_s))
        ratios.append(counts.get(CALIFORNIA, 0) / counts[ARIZONA] if counts.get(ARIZONA) else None)
    final = size.rows_of_location[CALIFORNIA] / size.rows_of_location[ARIZONA]
    return min(metrics.time_to_representative(times, ratios, final), port.total_s) / unmitigated_s


def figures(run: LiveRun, size: Size) -> dict[str, Any]:
    port = run.port(JOIN, PROBE)
    places = {"CA": size.owners[CALIFORNIA], "TX": size.owners[TEXAS]}
    balance = {place: port.load_balancing(worker) for place, worker in places.items()}
    helpers = {place: port.helpers_of(worker) for place, worker in places.items()}
    return {"total_s": port.total_s, "input_s": port.input_s, **balance, "helpers": helpers}


@cache
def simulated_run(size: Size, strategy: str, *, fixed: bool = False) -> OperatorRun:
    # Codes with the owner that the location has on Spark.
    rows = {_code(size, location): count for location, count in size.rows_of_location.items()}
    profile = OperatorProfile("join", size.workers)
    settings = size.settings(strategy)
    if fixed:
        settings = replace(settings, fixed_helpers={size.owners[CALIFORNIA]: (size.owners[ARIZONA],)})
    displayed = (_code(size, CALIFORNIA), _code(size, ARIZONA))
    stage = Stage(profile, 1 / size.cost_s, settings, displayed=displayed)
    source = Source((InputPhase(rows),), sum(rows.values()) / size.input_s)
    scenario = Scenario(source, (stage,), tick_s=0.02, report_s=REPORT_S, display_s=DISPLAY_S)
    (run,) = simulate(scenario, build(strategy, profile, settings))
    return run


def simulated(size: Size, strategy: str) -> dict[str, Any]:
    run = simulated_run(size, strategy)
    pairs = [pair_of(run, label, size.owners[code]) for label, code in (("CA", CALIFORNIA), ("TX", TEXAS))]
    ratio = Ratio("CA:AZ", _code(size, CALIFORNIA), _code(size, ARIZONA))
    watched = simulated_run(size, strategy, fixed=strategy in JUDGED)
    return {
        "total_s": run.total_s,
        "ttr": ttr(watched, ratio, simulated_run(size, "none").total_s),
        **load_balancing(run, pairs),
    }


def _code(size: Size, location: int) -> int:
    return location * size.workers + size.owners[location]


def measure_paced(spark: SparkSession, size: Size, strategies: Sequence[str], rounds: int) -> dict[str, Any]:
    runs: dict[str, list[dict[str, Any]]] = {strategy: [] for strategy in strategies}
    say(
        f"W1, {size.rows:,} rows, {size.workers} workers, emulated cost {size.cost_s * 1e3:g} ms a row, "
        f"input in {size.input_s:.1f} s"
    )
    fixed = f"{size.owners[CALIFORNIA]}: {size.owners[ARIZONA]}"
    for _ in range(rounds):
        unmitigated_s = 0.0
        for strategy in strategies:  # "none" first: the others are fractions of it
            options = size.options(strategy)
            run = run_flow(flow_of(spark, size, pace=True), strategy, watch=True, **options)
            got = figures(run, size)
            unmitigated_s = unmitigated_s or got["total_s"]
            if strategy in JUDGED:
                run = run_flow(flow_of(spark, size, pace=True), strategy, watch=True, fixed_helpers=fixed, **options)
            got["ttr"] = ttr_shown(run, size, unmitigated_s)
            runs[strategy].append(got)
            _tell(strategy, got)
    middle = {
        strategy: {name: _median([run[name] for run in runs[strategy]]) for name in ("total_s", "ttr", "CA", "TX")}
        for strategy in strategies
    }
    sims = {strategy: simulated(size, strategy) for strategy in strategies}
    for strategy, numbers in sims.items():
        _tell(f"simulator, {strategy}", numbers)
    return {"runs": runs, "medians": middle, "simulator": sims, "verdicts": judge(middle, sims)}


def judge(middle: dict[str, Any], sims: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for strategy, ttr_limit in JUDGED.items():
        if strategy not in middle:
            continue
        got, sim = middle[strategy], sims[strategy]
        saved = 1 - got["total_s"] / middle["none"]["total_s"]
        found += [
            verdict(f"{strategy}: load balancing, California", got["CA"], 0.93, at_least=True),
            verdict(f"{strategy}: load balancing, Texas", got["TX"], 0.93, at_least=True),
            verdict(f"{strategy}: part of the time saved", saved, 0.27, at_least=True),
            verdict(f"{strategy}: ttr", got["ttr"], ttr_limit, at_least=False),
            verdict(
                f"{strategy}: total time off the simulator's",
                abs(got["total_s"] / sim["total_s"] - 1),
                0.15,
                at_least=False,
            ),
        ]
        for name in ("ttr", "CA", "TX"):
            off = abs((got[name] or 0.0) - (sim[name] or 0.0))
            found.append(verdict(f"{strategy}: {name} off the simulator's", off, 0.05, at_least=False))
    return found


def measure_unpaced(spark: SparkSession, size: Size, rounds: int) -> dict[str, Any]:
    say(f"unpaced, {size.rows:,} rows, emulated cost {size.cost_s * 1e3:g} ms; balanced {size.balanced_s:.2f} s")
    totals: dict[str, list[float]] = {"none": [], "reshape": []}
    for _ in range(rounds):
        for strategy, seconds in totals.items():
            port = run_flow(flow_of(spark, size, pace=False), strategy).port(JOIN, PROBE)
            seconds.append(port.total_s)
            say(f"  {strategy:14} {port.total_s:6.2f} s, input sent in {port.input_s:.2f} s")
    ours, none = median(totals["reshape"]), median(totals["none"])
    verdicts = [
        verdict("unpaced: reshape to perfect balance", ours / size.balanced_s, 1.15, at_least=False),
        verdict("unpaced: none to reshape", none / ours, 3.0, at_least=True),
    ]
    return {"balanced_s": size.balanced_s, "total_s": totals, "verdicts": verdicts}


def measure(spark: SparkSession, quick: bool, rounds: int) -> dict[str, Any]:
    run_flow(flow_of(spark, sized(spark, 1_000, 0.0001), pace=True), "reshape")  # JIT, Python workers
    if quick:
        return {
            "paced": measure_paced(spark, sized(spark, 6_000, 0.004, 8), ("none", "reshape"), rounds),
            "unpaced": measure_unpaced(spark, sized(spark, 6_000, 0.002, 8), rounds),
        }
    return {
        "paced": measure_paced(spark, sized(spark, 720_000, 0.001), STRATEGIES, rounds),
        "unpaced": measure_unpaced(spark, sized(spark, 360_000, 0.001), rounds),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _tell(name: str, got: dict[str, Any]) -> None:
    balance = ", ".join(f"{place} {got[place] or 0:.3f}" for place in ("CA", "TX"))
    say(f"  {name:24} {got['total_s']:6.2f} s, ttr {got['ttr']:.3f}, load balancing {balance}")


if __name__ == "__main__":
    sys.exit(main("w1", __doc__ or "", measure, batch_rows=2000))
