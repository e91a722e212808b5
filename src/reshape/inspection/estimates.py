"""Shares with their intervals, and times by the simulator: estimates, all of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from reshape.control.profile import OperatorProfile
from reshape.control.strategies import build
from reshape.inspection.records import HOT_PART, KeyShare, Remedy, Times
from reshape.inspection.sampling import KeyCount, Sampled
from reshape.sim.scenario import InputPhase, Scenario, Source, Stage
from reshape.sim.simulation import simulate

Z = 1.96  # of a 95 % interval
# Rows of a simulated run, and the time that evenly loaded workers take for them: long enough that what a transfer
# takes is small beside it, as it is in a query that somebody waits for.
ROWS = 1_000_000
EVEN_S = 60.0
INPUT_S = 6.0
# The rest of the keys as so many keys for each worker; no one of them matters.
REST_KEYS = 20
# A simulated cluster beyond this size says nothing more about a hot key, and takes its time.
MOST_WORKERS = 256


def shares(sampled: Sampled) -> tuple[KeyShare, ...]:
    """Each key's part of the rows, with its interval."""
    rows = sampled.looked.rows
    return tuple(
        KeyShare(count.values, count.rows, count.rows / rows, *_interval(count, sampled)) for count in sampled.keys
    )


def _interval(count: KeyCount, sampled: Sampled) -> tuple[float, float]:
    rows = sampled.looked.rows
    share = count.rows / rows
    if sampled.looked.whole:
        return share, share
    if sampled.splits > 1:
        # Rows of a split are alike: what counts is how much splits differ (cluster sampling, splits of equal size).
        between = max(0.0, count.squares - rows * rows * share * share / sampled.splits)
        error = _student(sampled.splits - 1) * sqrt(between * sampled.splits / (sampled.splits - 1)) / rows
        return max(0.0, share - error), min(1.0, share + error)
    middle = (share + Z * Z / (2 * rows)) / (1 + Z * Z / rows)
    error = Z * sqrt(share * (1 - share) / rows + Z * Z / (4 * rows * rows)) / (1 + Z * Z / rows)
    return max(0.0, middle - error), min(1.0, middle + error)


def _student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by the first two terms of its series: few splits say less."""
    return Z + (Z**3 + Z) / (4 * freedom) + (5 * Z**5 + 16 * Z**3 + 3 * Z) / (96 * freedom**2)


def hot_keys(keys: Sequence[KeyShare], workers: int) -> tuple[KeyShare, ...]:
    """Keys that for certain load a worker with more than half of an even share by themselves."""
    return tuple(key for key in keys if workers > 1 and key.rows > 1 and key.low >= HOT_PART / workers)


def times(hot: Sequence[KeyShare], workers: int, remedy: Remedy, *, ordered: bool) -> Times | None:
    """How long an operation takes with these hot keys; None where there are none.

    ``ordered``: rows of one key stay on one worker, so the largest key bounds what can be gained.
    """
    if not hot:
        return None
    workers = min(workers, MOST_WORKERS)
    unmitigated = _simulated("none", hot, workers)
    ours = min(unmitigated, _simulated("reshape", hot, workers))
    if ordered:
        ours = max(ours, min(unmitigated, hot[0].share * workers))
    return Times(workers, unmitigated, 1.0 if remedy.helps else unmitigated, ours)


def _simulated(strategy: str, hot: Sequence[KeyShare], workers: int) -> float:
    """The length of a run in virtual time, over that of one with even loads."""
    rows = {number: round(ROWS * key.share) for number, key in enumerate(hot)}
    rest = max(0, ROWS - sum(rows.values()))
    # Keys go to the worker of their number modulo workers: hot ones to one worker each, the others to all alike.
    first = -(-len(rows) // workers) * workers
    each = rest // (workers * REST_KEYS)
    rows |= {first + number: each for number in range(workers * REST_KEYS)}
    profile = OperatorProfile("operation", workers)
    stage = Stage(profile, ROWS / workers / EVEN_S)
    scenario = Scenario(Source((InputPhase(rows),), ROWS / INPUT_S), (stage,), tick_s=0.5, report_s=0.5, display_s=5.0)
    [run] = simulate(scenario, build(strategy, profile))
    return run.total_s / (EVEN_S * sum(rows.values()) / ROWS)
