"""§7.7, figure 21: a moderately and a highly skewed join in one workflow (W2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from reshape.control.errors import require
from reshape.control.profile import OperatorProfile
from reshape.control.settings import StrategySettings
from reshape.control.strategies import build
from reshape.datasets.tpc import DATE_EXPONENT, DATES, ITEM_EXPONENT, ITEMS, SALES_PER_GB, zipf_keys
from reshape.sim import metrics
from reshape.sim.experiments.experiment import Case, Experiment, Outcome, Panel, Series, Summary
from reshape.sim.experiments.measuring import Ratio, load_balancing, pair_of, series_of, ttr
from reshape.sim.recorder import OperatorRun
from reshape.sim.scenario import InputPhase, Scenario, Source, Stage
from reshape.sim.simulation import simulate

JOINS = ("date", "item")
TOP = 5  # the paper looks at the five most skewed workers of each join


@dataclass(frozen=True, slots=True)
class SkewLevelsParams:
    """W2: 2.5 GB of DSB data per worker, as in the paper; distributions as in datasets/tpc.py.

    unmitigated_s: worker speed follows from this: the item join's busiest of 40 workers needs so long (paper: 267 s)
    input_s:       the paper does not say; the date join gets its rows in this time, the item join as they leave it
    tau, eta:      100 entries of 1,000 rows; a worker gets a tenth of the rows of W1's busiest one
    """

    cluster: tuple[int, ...] = (40, 60, 80)
    gigabytes_per_worker: float = 2.5
    unmitigated_s: float = 267.0
    input_s: float = 60.0
    tau: float = 100.0
    eta: float = 100.0
    rows_per_entry: int = 1_000
    warmup_s: float = 2.0
    report_s: float = 1.0

    def __post_init__(self) -> None:
        for workers in self.cluster:
            require(workers > TOP, "cluster", workers, f"more than the {TOP} workers that are looked at")
        for name in ("tau", "eta", "input_s", "unmitigated_s", "gigabytes_per_worker"):
            require(getattr(self, name) > 0, name, getattr(self, name), "a number above 0")


def _keys(params: SkewLevelsParams, workers: int) -> dict[str, dict[int, int]]:
    rows = int(params.gigabytes_per_worker * workers * SALES_PER_GB)
    return {
        "date": zipf_keys(DATES, DATE_EXPONENT, rows, workers),
        "item": zipf_keys(ITEMS, ITEM_EXPONENT, rows, workers),
    }


def _speed(params: SkewLevelsParams) -> float:
    loads = [0] * 40
    for key, rows in _keys(params, 40)["item"].items():
        loads[key % 40] += rows
    return max(loads) / params.unmitigated_s


def _run(params: SkewLevelsParams, seed: int, strategy: str, workers: int) -> list[OperatorRun]:
    keys = _keys(params, workers)
    entry = params.rows_per_entry
    paper = StrategySettings.paper(params.tau * entry, params.eta * entry, warmup_s=params.warmup_s)
    settings = StrategySettings() if strategy == "reshape" else paper
    profiles = [OperatorProfile(f"{name} join", workers) for name in JOINS]
    speed = _speed(params)
    items = keys["item"]
    ranked = sorted(items, key=lambda key: (-items[key], key))
    stages = (
        Stage(profiles[0], speed, settings),
        Stage(profiles[1], speed, settings, input=(InputPhase(items),), displayed=(ranked[0], ranked[TOP])),
    )
    source = Source((InputPhase(keys["date"]),), sum(keys["date"].values()) / params.input_s)
    scenario = Scenario(
        source, stages, tick_s=params.report_s / 2, report_s=params.report_s, display_s=params.report_s, seed=seed
    )
    return simulate(scenario, *(build(strategy, profile, settings) for profile in profiles))


def _measure(
    params: SkewLevelsParams, run_of: Callable[[str, int], list[OperatorRun]], strategy: str, workers: int
) -> tuple[Summary, Series]:
    runs, unmitigated = run_of(strategy, workers), run_of("none", workers)
    candles = {}
    iterations = 0
    series: Series = {}
    all_values = []
    for name, run in zip(JOINS, runs, strict=True):
        top = sorted(range(workers), key=lambda worker: (-run.routed[worker], worker))[:TOP]
        pairs = [pair_of(run, str(worker), worker) for worker in top]
        values = [value for value in load_balancing(run, pairs).values() if value is not None]
        all_values += values
        candles[name] = {point: round(value, 4) for point, value in metrics.candlestick(values).items()}
        iterations += metrics.iterations(run.decisions, set(top))
        course = series_of(run, pairs, [])
        series[name] = {group: course[group] for group in ("time", "load_balancing")}
    total_s = max(run.total_s for run in runs)
    ratio = Ratio("first:sixth item", *runs[1].record.displayed)
    mean = metrics.mean(all_values)
    summary: Summary = {
        "total_s": round(total_s, 3),
        "ttr": ttr(runs[1], ratio, max(run.total_s for run in unmitigated)),
        "load_balancing": None if mean is None else round(mean, 4),
        "iterations": iterations,
        "load_balancing_by_join": candles,
    }
    return summary, series


def _cases(params: SkewLevelsParams, seed: int) -> list[Case]:
    run_of = cache(partial(_run, params, seed))  # the unmitigated run is needed for every case
    return [
        Case(f"{strategy}/workers={workers}", strategy, partial(_measure, params, run_of, strategy, workers))
        for strategy in ("none", "reshape-paper", "reshape")
        for workers in params.cluster
    ]


def _figure(outcome: Outcome) -> list[Panel]:
    return [
        Panel(
            f"{name} join",
            "",
            "average load balancing ratio",
            candles={case: numbers["load_balancing_by_join"][name] for case, numbers in outcome.summary.items()},
        )
        for name in JOINS
    ]


SKEW_LEVELS = Experiment(
    name="skew-levels",
    section="§7.7",
    title="Effect of different levels of skew",
    look_at="load balancing of the five most skewed workers: the highly skewed item join against the date join",
    paper="item join: quartiles above 0.6 and median above 0.77; date join lower; 267 s become 243 s on 40 workers, "
    "335 s become 269 s on 80",
    params=SkewLevelsParams(),
    cases=_cases,
    figure=_figure,
    columns=("load_balancing_by_join",),
)
