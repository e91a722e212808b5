"""From recorded runs to the numbers and series of a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reshape.control.errors import require
from reshape.sim import metrics
from reshape.sim.experiments.experiment import Series, Summary
from reshape.sim.recorder import LOADS_KEPT_FOR, OperatorRun, thin

HELPERS_SHOWN = 4  # a chart with the loads of more helpers than this is not read


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two displayed keys whose ratio a user watches."""

    label: str
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A worker and those who take load from it."""

    label: str
    skewed: int
    helpers: tuple[int, ...]


def pair_of(run: OperatorRun, label: str, skewed: int, otherwise: tuple[int, ...] = ()) -> Pair:
    """The pair that the brain made.

    Where it made none, the helper that the experiment names, or else the worker with the least input of its own,
    takes the helper's place, so that strategies that move nothing can be compared too.
    """
    helpers = metrics.chosen_helpers(run.decisions, skewed) or otherwise
    if not helpers:
        least = min((rows, worker) for worker, rows in enumerate(run.routed) if worker != skewed)
        helpers = (least[1],)
    return Pair(label, skewed, helpers)


def ttr(run: OperatorRun, ratio: Ratio, unmitigated_s: float) -> float:
    """Time to representative as a fraction of the unmitigated run; the last display point may come after the end."""
    shown = run.record.ratio(ratio.first, ratio.second)
    reached = metrics.time_to_representative(run.record.times, shown, final_ratio(run, ratio))
    return round(min(reached, run.total_s) / unmitigated_s, 4)


def overshoot(run: OperatorRun, ratio: Ratio) -> float:
    return round(metrics.overshoot(run.record.ratio(ratio.first, ratio.second), final_ratio(run, ratio)), 3)


def final_ratio(run: OperatorRun, ratio: Ratio) -> float:
    return run.by_key[ratio.first] / run.by_key[ratio.second]


def load_balancing(run: OperatorRun, pairs: Sequence[Pair]) -> dict[str, float | None]:
    """Average load balancing ratio of each pair (§7.4)."""
    received = run.record.received
    require(bool(received), "workers", len(run.routed), f"at most {LOADS_KEPT_FOR}: loads of more are not recorded")
    return {pair.label: _rounded(metrics.load_balancing(received, pair.skewed, pair.helpers)) for pair in pairs}


def summarise(run: OperatorRun, pairs: Sequence[Pair], ratio: Ratio, unmitigated_s: float) -> Summary:
    """What every case has, and by which transfers it came about."""
    by_pair = load_balancing(run, pairs)
    return {
        "total_s": round(run.total_s, 3),
        "ttr": ttr(run, ratio, unmitigated_s),
        "load_balancing": _rounded(metrics.mean(by_pair.values())),
        "iterations": metrics.iterations(run.decisions, {pair.skewed for pair in pairs}),
        "load_balancing_by_pair": by_pair,
        "helpers": {pair.label: list(pair.helpers) for pair in pairs},
        "received": {
            pair.label: {"skewed": run.received[pair.skewed], "helpers": [run.received[h] for h in pair.helpers]}
            for pair in pairs
        },
        "state_transfers": run.state_transfers,
        "backlog_rows": run.backlog_rows,
    }


def series_of(run: OperatorRun, pairs: Sequence[Pair], ratios: Sequence[Ratio]) -> Series:
    """The recorded course of a run, thinned for a chart."""
    record = run.record
    kept = thin(record.times)
    workers = sorted({worker for pair in pairs for worker in (pair.skewed, *pair.helpers[:HELPERS_SHOWN])})
    balance = {p.label: metrics.balance_over_time(record.received, p.skewed, p.helpers) for p in pairs}
    shown = {ratio.label: record.ratio(ratio.first, ratio.second) for ratio in ratios}
    return {
        "time": [record.times[i] for i in kept],
        "ratio": {label: _picked(values, kept) for label, values in shown.items()},
        "difference": {
            ratio.label: _picked(
                [None if r is None else abs(r - final_ratio(run, ratio)) for r in shown[ratio.label]], kept
            )
            for ratio in ratios
        },
        "load_balancing": {label: _picked(values, kept) for label, values in balance.items()},
        "workload": {str(w): [record.workload[i][w] for i in kept] for w in workers},
        "received": {str(w): [record.received[i][w] for i in kept] for w in workers},
    }


def _picked(values: Sequence[float | None], kept: Sequence[int]) -> list[float | None]:
    return [_rounded(values[i]) for i in kept]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
