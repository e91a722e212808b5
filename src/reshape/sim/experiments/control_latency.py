"""§7.5, figure 19: what slow control messages cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from reshape.control.errors import require
from reshape.sim.experiments.experiment import Case, Experiment, Outcome, Panel, Series, Summary
from reshape.sim.experiments.measuring import series_of, summarise
from reshape.sim.experiments.tweet_join import BOTH, TweetJoin, TweetParams
from reshape.sim.scenario import Network


@dataclass(frozen=True, slots=True)
class ControlLatencyParams(TweetParams):
    """``delays``: seconds between a router's receiving a new table and its using it.

    The paper's example (a difference of 350 stands at 300 ten seconds after a message that is delayed by 5 s) shows
    that the delay is paid once, at the routers. A phase ends at a report: with one per second, all delays here are
    rounded to reports alike.
    """

    report_s: float = 1.0
    delays: tuple[float, ...] = (0.0, 1.0, 2.0, 5.0, 10.0, 15.0)

    def __post_init__(self) -> None:
        TweetParams.__post_init__(self)
        for delay in self.delays:
            require(delay >= 0, "delays", delay, "0 or more seconds")


def _measure(join: TweetJoin, strategy: str, delay: float) -> tuple[Summary, Series]:
    run = join.run(strategy, join.settings(strategy), network=Network(routing_delay_s=delay))
    pairs = join.pairs(run, BOTH)
    summary = summarise(run, pairs, join.ratio, join.unmitigated().total_s)
    return summary, series_of(run, pairs, [join.ratio])


def _cases(params: ControlLatencyParams, seed: int) -> list[Case]:
    join = TweetJoin(params, seed)
    return [
        Case(f"{strategy}/delay={delay:g}", strategy, partial(_measure, join, strategy, delay))
        for strategy in ("reshape-paper", "reshape")
        for delay in params.delays
    ]


def _figure(outcome: Outcome) -> list[Panel]:
    return [
        Panel(
            f"{name} data",
            "",
            "average load balancing ratio",
            bars={case: numbers["load_balancing_by_pair"][label] for case, numbers in outcome.summary.items()},
        )
        for label, name in (("CA", "California"), ("TX", "Texas"))
    ]


CONTROL_LATENCY = Experiment(
    name="control-latency",
    section="§7.5",
    title="Effect of the latency of control messages",
    look_at="load_balancing falls as the delay grows",
    paper="about 0.94 without delay, about 0.45 with 15 s",
    params=ControlLatencyParams(),
    cases=_cases,
    figure=_figure,
    columns=("load_balancing_by_pair",),
)
