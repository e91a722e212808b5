"""Virtual time: what happens next, and when."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

Action = Callable[[], None]


def moment(count: int, period: float) -> float:
    """A multiple of a period.

    Sums of periods drift, and even 3 * 0.1 is not 0.3: without rounding, whether a report every 0.3 s sees the rows
    of its moment would be an accident, and rows per report would wobble.
    """
    return round(count * period, 9)


class Agenda:
    """Actions in order of their time; those of one moment in the order in which they were planned."""

    def __init__(self) -> None:
        self.now = 0.0
        self._planned = 0
        self._heap: list[tuple[float, int, Action]] = []

    def at(self, time: float, action: Action) -> None:
        """Plan an action; the past is not open for planning, it becomes now."""
        self._planned += 1
        heappush(self._heap, (max(time, self.now), self._planned, action))

    def after(self, delay: float, action: Action) -> None:
        self.at(self.now + delay, action)

    def every(self, period: float, action: Callable[[], bool]) -> None:
        """Act at every multiple of the period for as long as the action says so."""
        self._repeat(1, period, action)

    def _repeat(self, count: int, period: float, action: Callable[[], bool]) -> None:
        def once() -> None:
            if action():
                self._repeat(count + 1, period, action)

        self.at(moment(count, period), once)

    def run(self) -> None:
        """Act until nothing is planned any more."""
        while self._heap:
            self.now, _, action = heappop(self._heap)
            action()
