"""Who helps whom: the skew test over all workers (§2.1) and the number of helpers (§6.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from reshape.control.sensing.reduction import max_load_reduction


def skew_test(workload: float, candidate: float, eta: float, tau: float) -> bool:
    """Is the candidate a possible helper of the loaded worker? phi_L >= eta and phi_L - phi_C >= tau."""
    return workload >= eta and workload - candidate >= tau


def excess_shares(workloads: Sequence[float], skewed: Sequence[int]) -> dict[int, float]:
    """How much of all excess load each skewed worker has: its fair part of the candidates."""
    mean = sum(workloads) / len(workloads)
    over = {worker: max(0.0, workloads[worker] - mean) for worker in skewed}
    total = sum(over.values())
    return {worker: (value / total if total > 0 else 0.0) for worker, value in over.items()}


def rank_candidates(
    workloads: Sequence[float], free: Sequence[int], idle: float, expected: Sequence[float] | None = None
) -> list[int]:
    """Free workers, the best helper first: least workload, then least expected load, then least number.

    Workers up to ``idle`` count as equally idle: what they hold is what happened to be in flight when they reported.
    """
    unloaded = [w for w in free if workloads[w] <= idle]
    if expected is not None:
        unloaded.sort(key=expected.__getitem__)
    loaded = [w for w in free if workloads[w] > idle]
    loaded.sort(key=workloads.__getitem__)
    return unloaded + loaded


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known about the rest of the run when helpers are chosen.

    total:      rows of the operator over the whole run (T), None if unknown
    remaining:  rows of the operator still to come (L), None if unknown
    rows_per_s: rows that the operator takes in per second (t)
    backlog:    queued rows of the skewed worker that may be moved as well
    """

    total: float | None
    remaining: float | None
    rows_per_s: float
    backlog: float = 0.0


def reachable_reduction(skewed: float, helpers: float, count: int, migration_s: float, outlook: Outlook) -> float:
    """chi = min(LR_max, F): the load reduction that these helpers can reach after their state is there.

    ``helpers`` is the sum of the loads of ``count`` helpers. Loads are fractions of the operator's input;
    F = (L - M t) f_S are the rows of the skewed worker left then.
    """
    future = inf
    if outlook.remaining is not None:
        future = max(0.0, outlook.remaining - migration_s * outlook.rows_per_s) * skewed + outlook.backlog
    total = outlook.total if outlook.total is not None else 1.0
    return min(max_load_reduction(skewed, helpers, count, total), future)


def choose_helpers(
    skewed: float,
    candidates: Sequence[tuple[int, float]],
    migration_s: Callable[[int], float],
    outlook: Outlook,
    most: int,
) -> tuple[int, ...]:
    """Add helpers in the given order until chi stops growing; always at least one where there is a candidate.

    ``candidates`` are (worker, load fraction), best first; ``migration_s`` gives M for a number of helpers.
    """
    best, together = -inf, 0.0
    for count, (_, load) in enumerate(candidates[:most], start=1):
        together += load
        chi = reachable_reduction(skewed, together, count, migration_s(count), outlook)
        if chi <= best:
            return tuple(worker for worker, _ in candidates[: count - 1])
        best = chi
    return tuple(worker for worker, _ in candidates[:most])
