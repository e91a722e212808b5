"""§7.11, figure 24: several helpers for one worker, when state takes time to migrate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from reshape.control.errors import require
from reshape.datasets.tweets import CALIFORNIA
from reshape.sim import metrics
from reshape.sim.experiments.experiment import Case, Experiment, Outcome, Panel, Series, Summary
from reshape.sim.experiments.measuring import series_of, summarise
from reshape.sim.experiments.tweet_join import TweetJoin, TweetParams
from reshape.sim.scenario import Network

STATE_BYTES = 1_000_000_000  # only times matter here


@dataclass(frozen=True, slots=True)
class MultipleHelpersParams(TweetParams):
    """State migration takes ``serialise_s`` once and ``send_s`` per helper: 17 s for one, 39 s for 24 as in the paper.

    input_s: the paper's load reductions, 19.7 M with 16 helpers after 32 s and 19 M with 24 after 39 s, mean that
    California lost 0.1 M rows per second, so that this experiment's input took about 130 s, not 26.
    The brain's first guess is a time in proportion to the number of helpers; it gets the one that is right for 16.
    """

    input_s: float = 130.0
    serialise_s: float = 16.1
    send_s: float = 0.95
    helpers: tuple[int, ...] = (1, 2, 4, 8, 16, 24)

    def __post_init__(self) -> None:
        TweetParams.__post_init__(self)
        for count in self.helpers:
            require(1 <= count < self.workers, "helpers", count, f"1 to {self.workers - 1}")


def _measure(join: TweetJoin, params: MultipleHelpersParams, count: int | None) -> tuple[Summary, Series]:
    """A number of helpers for California's worker alone; None lets the brain choose, for whomever it finds."""
    skewed = CALIFORNIA % params.workers
    plain = join.unmitigated()
    others = sorted((rows, worker) for worker, rows in enumerate(plain.routed) if worker != skewed)
    fixed = None if count is None else {skewed: tuple(worker for _, worker in others[:count])}
    guess = STATE_BYTES * 16 / (params.serialise_s + 16 * params.send_s)
    settings = join.paper(transfer_timeout_s=params.input_s, state_bytes_per_s=guess, helpers=None, fixed_helpers=fixed)
    run = join.run("reshape-paper", settings)
    pairs = join.pairs(run, ("CA",))
    summary = summarise(run, pairs, join.ratio, plain.total_s)
    group = (skewed, *pairs[0].helpers)
    reduction = metrics.load_reduction(plain.received, run.received, group)
    extra = {"load_reduction": reduction, "helpers_used": len(pairs[0].helpers)}
    return summary | extra, series_of(run, pairs, [join.ratio])


def _cases(params: MultipleHelpersParams, seed: int) -> list[Case]:
    network = Network(
        serialise_bytes_per_s=STATE_BYTES / params.serialise_s, link_bytes_per_s=STATE_BYTES / params.send_s
    )
    join = TweetJoin(params, seed, network, state_bytes=STATE_BYTES)
    counts: list[int | None] = [*params.helpers, None]
    return [
        Case(
            f"reshape-paper/helpers={'auto' if count is None else count}",
            "reshape-paper",
            partial(_measure, join, params, count),
        )
        for count in counts
    ]


def _figure(outcome: Outcome) -> list[Panel]:
    bars = {case.rpartition("=")[2]: numbers["load_reduction"] / 1e6 for case, numbers in outcome.summary.items()}
    return [Panel("California's worker", "helpers", "load reduction (M rows)", bars=bars)]


MULTIPLE_HELPERS = Experiment(
    name="multiple-helpers",
    section="§7.11",
    title="Effect of multiple helpers",
    look_at="load_reduction: grows with helpers until their state takes too long",
    paper="13 M rows with 1 helper, about 18 M with 2, 19.7 M with 16, 19 M with 24",
    params=MultipleHelpersParams(),
    cases=_cases,
    figure=_figure,
    columns=("load_reduction", "helpers_used"),
)
