"""§7.4, figure 18: load balancing of California's worker and its helper, by strategy and number of workers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from reshape.control.errors import require
from reshape.sim.experiments.experiment import Case, Experiment, Outcome, Panel, Series, Summary
from reshape.sim.experiments.measuring import series_of, summarise
from reshape.sim.experiments.tweet_join import PAPER_WORKERS, TweetJoin, TweetParams


@dataclass(frozen=True, slots=True)
class HeavyHitterParams(TweetParams):
    """``detection`` are Flow-Join's initial periods in seconds, ``cluster`` the numbers of workers."""

    cluster: tuple[int, ...] = (40, 48, 56)
    detection: tuple[int, ...] = (2, 4, 8)

    def __post_init__(self) -> None:
        TweetParams.__post_init__(self)
        for workers in self.cluster:
            require(workers >= 2, "cluster", workers, "a skewed worker and a helper make at least 2")
        for seconds in self.detection:
            require(seconds >= 0, "detection", seconds, "0 or more seconds")


def _measure(join: TweetJoin, strategy: str, workers: int, warmup_s: float | None) -> tuple[Summary, Series]:
    settings = join.settings(strategy) if warmup_s is None else join.paper(warmup_s=warmup_s)
    run = join.run(strategy, settings, workers=workers)
    pairs = join.pairs(run, ("CA",))
    summary = summarise(run, pairs, join.ratio, join.unmitigated(workers).total_s)
    return summary, series_of(run, pairs, [join.ratio])


def _cases(params: HeavyHitterParams, seed: int) -> list[Case]:
    join = TweetJoin(params, seed)
    kinds: list[tuple[str, str, float | None]] = [
        ("none", "none", None),
        ("flux", "flux", None),
        *((f"flow-join/{seconds}s", "flow-join", seconds) for seconds in params.detection),
        ("pkg", "pkg", None),
        ("reshape-paper", "reshape-paper", None),
        ("reshape", "reshape", None),
    ]
    return [
        Case(
            name if workers == PAPER_WORKERS else f"{name}/workers={workers}",
            strategy,
            partial(_measure, join, strategy, workers, warmup_s),
        )
        for workers in params.cluster
        for name, strategy, warmup_s in kinds
    ]


def _figure(outcome: Outcome) -> list[Panel]:
    """One panel per number of workers, as in the paper's groups of bars."""
    panels: dict[str, dict[str, float | None]] = {}
    for case, numbers in outcome.summary.items():
        strategy, _, workers = case.partition("/workers=")
        panels.setdefault(workers or str(PAPER_WORKERS), {})[strategy] = numbers["load_balancing"]
    return [
        Panel(f"California's worker and its helper, {workers} workers", "", "average load balancing ratio", bars=bars)
        for workers, bars in panels.items()
    ]


HEAVY_HITTER = Experiment(
    name="heavy-hitter",
    section="§7.4",
    title="Effect of heavy-hitter keys",
    look_at="load_balancing: 1 means that California's worker and its helper were given the same number of rows",
    paper="Reshape 0.92, Flux 0.06, Flow-Join 0.85 after 2 s of detection and 0.6 after 8 s; 416 s become 302 s",
    params=HeavyHitterParams(),
    cases=_cases,
    figure=_figure,
    columns=("backlog_rows",),
)
