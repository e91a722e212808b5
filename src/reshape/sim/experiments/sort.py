"""§7.10, table 2: sorting TPC-H orders by price (W3), ranges of equal width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

from reshape.control.errors import require
from reshape.control.profile import OperatorProfile, Partitioning, StateKind
from reshape.control.settings import StrategySettings
from reshape.control.strategies import build
from reshape.datasets.tpc import orders_per_range
from reshape.sim import metrics
from reshape.sim.experiments.experiment import Case, Experiment, Outcome, Panel, Series, Summary
from reshape.sim.experiments.measuring import Ratio, load_balancing, pair_of, series_of, summarise
from reshape.sim.recorder import OperatorRun
from reshape.sim.scenario import InputPhase, Scenario, Source, Stage
from reshape.sim.simulation import simulate

PERCENTILES = (1, 25, 50, 75, 99)


@dataclass(frozen=True, slots=True)
class SortParams:
    """W3: 2.5 GB per worker, as in the paper.

    skewed_rows:   the paper's table covers the workers that get more rows than this without mitigation
    unmitigated_s: worker speed follows from this: the busiest of 20 workers needs so long (paper: 789 s)
    input_s:       the paper does not say; the orders are read from disk in a quarter of the run
    tau, eta:      100 entries of 1,000 rows; a worker gets a seventh of the rows of W1's busiest one
    """

    cluster: tuple[int, ...] = (20, 40, 60, 80)
    gigabytes_per_worker: float = 2.5
    skewed_rows: int = 3_500_000
    unmitigated_s: float = 789.0
    input_s: float = 200.0
    tau: float = 100.0
    eta: float = 100.0
    rows_per_entry: int = 1_000
    warmup_s: float = 2.0
    report_s: float = 1.0

    def __post_init__(self) -> None:
        for workers in self.cluster:
            require(workers >= 2, "cluster", workers, "a skewed worker and a helper make at least 2")
        for name in ("tau", "eta", "input_s", "unmitigated_s", "gigabytes_per_worker"):
            require(getattr(self, name) > 0, name, getattr(self, name), "a number above 0")


def _run(params: SortParams, seed: int, strategy: str, workers: int) -> OperatorRun:
    rows = orders_per_range(params.gigabytes_per_worker * workers, workers)
    speed = max(orders_per_range(params.gigabytes_per_worker * 20, 20).values()) / params.unmitigated_s
    entry = params.rows_per_entry
    paper = replace(StrategySettings.paper(params.tau * entry, params.eta * entry), warmup_s=params.warmup_s)
    settings = StrategySettings() if strategy == "reshape" else paper
    profile = OperatorProfile(
        "sort", workers, state=StateKind.MUTABLE, partitioning=Partitioning.RANGE, combinable=False
    )
    stage = Stage(profile, speed, settings, displayed=_displayed(rows))
    source = Source((InputPhase(rows),), sum(rows.values()) / params.input_s)
    scenario = Scenario(
        source, (stage,), tick_s=params.report_s, report_s=params.report_s, display_s=params.report_s, seed=seed
    )
    (run,) = simulate(scenario, build(strategy, profile, settings))
    return run


def _displayed(rows: dict[int, int]) -> tuple[int, int]:
    """The fullest range, and the one of middle size: a histogram of prices shows both."""
    ranked = sorted(rows, key=lambda key: (-rows[key], key))
    return ranked[0], ranked[len(ranked) // 2]


def _measure(
    params: SortParams, run_of: Callable[[str, int], OperatorRun], strategy: str, workers: int
) -> tuple[Summary, Series]:
    run, unmitigated = run_of(strategy, workers), run_of("none", workers)
    skewed = [w for w, rows in enumerate(run.routed) if rows > params.skewed_rows]
    pairs = [pair_of(run, str(worker), worker) for worker in skewed]
    ratio = Ratio("fullest:middle range", *run.record.displayed)
    summary = summarise(run, pairs, ratio, unmitigated.total_s)
    values = [value for value in load_balancing(run, pairs).values() if value is not None]
    extra = {
        "skewed_workers": len(skewed),
        "percentiles": {f"p{p}": round(metrics.percentile(values, p), 3) for p in PERCENTILES},
        "merge_s": round(run.merges.final_s, 3),
    }
    busiest = sorted(pairs, key=lambda pair: -run.routed[pair.skewed])[:5]
    return summary | extra, series_of(run, busiest, [ratio])


def _cases(params: SortParams, seed: int) -> list[Case]:
    run_of = cache(partial(_run, params, seed))  # the unmitigated run is needed for every case
    return [
        Case(f"{strategy}/workers={workers}", strategy, partial(_measure, params, run_of, strategy, workers))
        for strategy in ("none", "reshape-paper", "reshape")
        for workers in params.cluster
    ]


def _figure(outcome: Outcome) -> list[Panel]:
    names = {"p1": "min", "p25": "p25", "p50": "median", "p75": "p75", "p99": "max"}
    candles = {
        case: {names[point]: value for point, value in numbers["percentiles"].items()}
        for case, numbers in outcome.summary.items()
        if not case.startswith("none")
    }
    return [Panel("Sort: skewed workers", "", "average load balancing ratio", candles=candles)]


SORT = Experiment(
    name="sort",
    section="§7.10",
    title="Performance on sort",
    look_at="percentiles of the load balancing ratios of the skewed workers",
    paper="median 0.93 on 20 workers, 0.86 on 80; 789 s become 643 s on 20, 809 s become 667 s on 80",
    params=SortParams(),
    cases=_cases,
    figure=_figure,
    columns=("percentiles", "skewed_workers"),
)
