"""Load reduction (§4.1, §6.2): what mitigation saved the most loaded of a skewed worker and its helpers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

KEPT_PERIODS = 1_000


def load_reduction(unmitigated: Mapping[int, float], mitigated: Mapping[int, float]) -> float:
    """LR: the largest input of a group of workers without mitigation, less the largest with it."""
    return max(unmitigated.values()) - max(mitigated.values())


def max_load_reduction(skewed: float, helpers: float, count: int, total: float = 1.0) -> float:
    """LR_max (§6.2): a skewed worker and its helpers end at the average of their loads.

    ``helpers`` is the sum of the loads of ``count`` helpers; loads are fractions of ``total`` rows.
    """
    return (skewed - (skewed + helpers) / (count + 1)) * total


@dataclass(frozen=True, slots=True)
class PeriodReduction:
    """Load reduction of one group in one period of an unbounded run (§6.3)."""

    since: float
    until: float
    skewed: int
    helpers: tuple[int, ...]
    rows: float


class PeriodicReduction:
    """Load reduction over fixed periods, from cumulative rows per owner (before) and per worker (after)."""

    def __init__(self, period_s: float) -> None:
        self._period = period_s
        self._since: float | None = None
        self._routed: Sequence[int] = ()
        self._received: Sequence[int] = ()
        self.periods: deque[PeriodReduction] = deque(maxlen=KEPT_PERIODS)

    def observe(
        self,
        time: float,
        routed: Sequence[int],
        received: Sequence[int],
        groups: Iterable[tuple[int, tuple[int, ...]]],
    ) -> None:
        if self._since is None:
            self._since, self._routed, self._received = time, routed, received
            return
        if time - self._since < self._period:
            return
        for skewed, helpers in groups:
            members = (skewed, *helpers)
            before = {w: float(routed[w] - self._routed[w]) for w in members}
            after = {w: float(received[w] - self._received[w]) for w in members}
            self.periods.append(PeriodReduction(self._since, time, skewed, helpers, load_reduction(before, after)))
        self._since, self._routed, self._received = time, routed, received
