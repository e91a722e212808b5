"""What a run is judged by. Pure functions of recorded series."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from reshape.control.story import Decision, DecisionKind

TOLERANCE = 0.10  # "representative" means within 10 % of the final ratio


def time_to_representative(
    times: Sequence[float], ratios: Sequence[float | None], final: float, tolerance: float = TOLERANCE
) -> float:
    """The first display point from which the shown ratio stays within the tolerance of the final one.

    The true moment lies between this point and the one before, so this is never too early. Infinite when the
    last point is not representative either.
    """
    reached = float("inf")
    for time, ratio in zip(reversed(times), reversed(ratios), strict=True):
        if ratio is None or abs(ratio - final) > tolerance * final:
            break
        reached = time
    return reached


def overshoot(ratios: Sequence[float | None], final: float) -> float:
    """How far the shown ratio goes above the final one after first reaching it; 0 if it never does."""
    above = [ratio - final for ratio in ratios if ratio is not None]
    return max(above, default=0.0) if above and max(above) > 0 else 0.0


def balance(skewed: float, helpers: Sequence[float]) -> float | None:
    """The smaller over the larger of two loads (§7.4), the helpers' being their mean; None before any row."""
    mean = sum(helpers) / len(helpers)
    larger = max(skewed, mean)
    return min(skewed, mean) / larger if larger > 0 else None


def balance_over_time(received: Sequence[Sequence[int]], skewed: int, helpers: Sequence[int]) -> list[float | None]:
    """The load balancing ratio of rows allotted so far, at each point."""
    return [balance(loads[skewed], [loads[helper] for helper in helpers]) for loads in received]


def load_balancing(received: Sequence[Sequence[int]], skewed: int, helpers: Sequence[int]) -> float | None:
    """The average load balancing ratio over the execution (§7.4)."""
    return mean(balance_over_time(received, skewed, helpers))


def chosen_helpers(decisions: Iterable[Decision], skewed: int) -> tuple[int, ...]:
    """The helpers that a brain chose first for a worker, empty if it never did."""
    for decision in decisions:
        if decision.kind is DecisionKind.STARTED and decision.skewed == skewed:
            return tuple(decision.helpers)
    return ()


def iterations(decisions: Iterable[Decision], skewed: Collection[int]) -> int:
    """How often load transfer was started or adjusted for these workers (§4.3.1)."""
    kinds = (DecisionKind.STARTED, DecisionKind.ITERATED)
    return sum(decision.kind in kinds and decision.skewed in skewed for decision in decisions)


def load_reduction(unmitigated: Sequence[int], mitigated: Sequence[int], group: Sequence[int]) -> int:
    """By how much mitigation lowers the largest total input in a group of workers (§4.1, §6.2)."""
    return max(unmitigated[w] for w in group) - max(mitigated[w] for w in group)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is defined."""
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


def percentile(values: Sequence[float], percent: float) -> float:
    """By linear interpolation between the nearest two values."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def candlestick(values: Sequence[float]) -> dict[str, float]:
    """The five numbers of a candlestick chart."""
    points = {"min": 0, "p25": 25, "median": 50, "p75": 75, "max": 100}
    return {name: percentile(values, percent) for name, percent in points.items()}
