"""§7.3, figures 16 and 17: what the first phase is good for."""

from __future__ import annotations

from functools import partial

from reshape.control.settings import FirstPhase
from reshape.sim.experiments import ratio
from reshape.sim.experiments.experiment import Case, Experiment
from reshape.sim.experiments.tweet_join import TweetJoin, TweetParams


def _cases(params: TweetParams, seed: int) -> list[Case]:
    join = TweetJoin(params, seed)
    off = partial(ratio.measure, join, "reshape-paper", first_phase=FirstPhase.OFF)
    return [
        Case("none", "none", partial(ratio.measure, join, "none")),
        Case("reshape-paper", "reshape-paper", partial(ratio.measure, join, "reshape-paper")),
        Case("reshape-paper/no-first-phase", "reshape-paper", off),
    ]


FIRST_PHASE = Experiment(
    name="first-phase",
    section="§7.3",
    title="Benefits of the first phase",
    look_at="ttr with and without the first phase",
    paper="120 s and 130 s with it, 288 s and 310 s without: more than twice as late",
    params=TweetParams(),
    cases=_cases,
    figure=ratio.figure,
    columns=("overshoot",),
)
