"""§7.6, figure 20: fixed tau against Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from reshape.control.errors import require
from reshape.control.settings import AdaptiveTau
from reshape.datasets.tweets import CALIFORNIA, TEXAS
from reshape.sim.experiments.experiment import Case, Experiment, Outcome, Panel, Series, Summary
from reshape.sim.experiments.measuring import series_of, summarise
from reshape.sim.experiments.tweet_join import BOTH, TweetJoin, TweetParams
from reshape.sim.scenario import Bursts


@dataclass(frozen=True, slots=True)
class DynamicTauParams(TweetParams):
    """``taus`` in entries; ``low``, ``high``, ``increase_by`` (entries) and ``adjustments`` as in §7.6.

    The preferred standard error of 98 to 110 of 2,000 rows, where California's mean is 296 (of 2,000), says that
    counts vary: a steady source would have no error at all. A variation of 0.32 per report gives a standard error
    near 95, so that growing samples pass through the range. The paper does not say how often it collects metrics;
    at once per second phase one ends a few hundred thousand rows off balance, which tau = 10 entries cannot bear
    and tau = 50 can, as in the paper.
    rows_per_entry: with these idle helpers the difference ends at 24.9 M rows, not 22.8 M, so that 1,800 entries
    are reached and 2,000 are not when an entry has 13,000 rows.
    ``helpers`` are those that the brain would choose for California and Texas; nobody else is mitigated, since the
    paper counts the iterations of these two.
    """

    taus: tuple[int, ...] = (10, 50, 100, 500, 1000, 1500, 1800, 2000)
    low: float = 98.0
    high: float = 110.0
    increase_by: float = 50.0
    adjustments: int = 3
    rows_per_entry: int = 13_000
    report_s: float = 1.0
    burst_s: float = 1.0
    variation: float = 0.32
    helpers: tuple[int, ...] = (2, 10)

    def __post_init__(self) -> None:
        TweetParams.__post_init__(self)
        for tau in self.taus:
            require(tau > 0, "taus", tau, "a number of entries above 0")
        require(len(self.helpers) == len(BOTH), "helpers", self.helpers, "one for California, one for Texas")


def _measure(join: TweetJoin, params: DynamicTauParams, tau: int, dynamic: bool) -> tuple[Summary, Series]:
    adaptive = AdaptiveTau(
        params.low, params.high, params.increase_by * params.rows_per_entry, max_adjustments=params.adjustments
    )
    skewed = (CALIFORNIA % params.workers, TEXAS % params.workers)
    fixed = {worker: (helper,) for worker, helper in zip(skewed, params.helpers, strict=True)}
    settings = join.paper(tau=tau, fixed_helpers=fixed, adaptive=adaptive if dynamic else None)
    run = join.run("reshape-paper", settings, bursts=Bursts(params.burst_s, params.variation))
    pairs = join.pairs(run, BOTH, fixed)
    summary = summarise(run, pairs, join.ratio, join.unmitigated().total_s)
    started = [decision.time for decision in run.decisions if decision.skewed == skewed[0]]
    count = summary["iterations"]
    extra = {
        "load_balancing_per_iteration": round(summary["load_balancing"] / count, 4) if count else 0.0,
        "first_mitigation_s": round(started[0], 3) if count and started else None,
    }
    return summary | extra, series_of(run, pairs, [join.ratio])


def _cases(params: DynamicTauParams, seed: int) -> list[Case]:
    join = TweetJoin(params, seed)
    return [
        Case(
            f"reshape-paper/tau={tau}" + ("/dynamic" if dynamic else ""),
            "reshape-paper",
            partial(_measure, join, params, tau, dynamic),
        )
        for tau in params.taus
        for dynamic in (False, True)
    ]


def _figure(outcome: Outcome) -> list[Panel]:
    def bars(name: str) -> dict[str, float | None]:
        return {case.removeprefix("reshape-paper/"): n[name] for case, n in outcome.summary.items()}

    return [
        Panel("Benefit of dynamic tau", "", "load balancing per iteration", bars=bars("load_balancing_per_iteration")),
        Panel("Iterations", "", "iterations", bars=bars("iterations")),
    ]


DYNAMIC_TAU = Experiment(
    name="dynamic-tau",
    section="§7.6",
    title="Benefit of dynamically adjusting tau",
    look_at="iterations at small tau, and whether mitigation starts at all at large tau",
    paper="tau = 10: 41 iterations, 14 with adjustment; 1,000 to 2,000: late or never, with adjustment at about 700",
    params=DynamicTauParams(),
    cases=_cases,
    figure=_figure,
    columns=("load_balancing_per_iteration", "first_mitigation_s"),
)
