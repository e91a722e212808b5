"""What a run leaves behind: the display as a user saw it, loads over time, and the totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reshape.control.brain import Brain
from reshape.control.story import Decision

# Loads of all workers are kept up to this many workers; beyond, memory would grow with workers times time.
LOADS_KEPT_FOR = 256
# A chart has about so many pixels; more points in a series help nobody.
SERIES_POINTS = 500


@dataclass(slots=True)
class Record:
    """Samples of one operator, one entry per display point in each list."""

    displayed: tuple[int, ...]
    keep_loads: bool
    times: list[float] = field(default_factory=list)
    shown: list[tuple[int, ...]] = field(default_factory=list)  # processed rows per displayed key
    workload: list[Sequence[int]] = field(default_factory=list)
    received: list[Sequence[int]] = field(default_factory=list)
    routed: list[Sequence[int]] = field(default_factory=list)

    def add(
        self, time: float, shown: tuple[int, ...], workload: list[int], received: list[int], routed: list[int]
    ) -> None:
        self.times.append(time)
        self.shown.append(shown)
        if self.keep_loads:
            self.workload.append(workload)
            self.received.append(list(received))
            self.routed.append(list(routed))

    def ratio(self, first: int, second: int) -> list[float | None]:
        """The ratio of two displayed keys at each point, None while the second has no rows."""
        a, b = self.displayed.index(first), self.displayed.index(second)
        return [row[a] / row[b] if row[b] else None for row in self.shown]


@dataclass(frozen=True, slots=True)
class Merges:
    """Scattered parts that owners took in.

    count:   an owner counts each time that it took parts in
    rows:    rows of the parts, by owner and helper
    final_s: how long the last merge took, after all rows were processed
    """

    count: int
    rows: dict[tuple[int, int], int]
    final_s: float


@dataclass(frozen=True, slots=True)
class OperatorRun:
    """One operator after a run."""

    name: str
    brain: Brain
    record: Record
    total_s: float  # from the start of the run until the last row was processed and parts were merged
    input_s: float  # until the last row was sent
    processed: tuple[int, ...]
    received: tuple[int, ...]
    routed: tuple[int, ...]
    by_key: dict[int, int]
    scattered: dict[int, dict[int, int]]  # worker -> key -> processed rows
    state_transfers: int
    state_bytes: int
    backlog_rows: int
    merges: Merges

    @property
    def decisions(self) -> list[Decision]:
        return self.brain.decisions

    @property
    def rows(self) -> int:
        return sum(self.processed)


def thin(points: Sequence[object], limit: int = SERIES_POINTS) -> list[int]:
    """Indices of at most about ``limit`` evenly spaced points, the first and the last among them."""
    count = len(points)
    if count <= limit:
        return list(range(count))
    step = (count - 1) / (limit - 1)
    return sorted({round(index * step) for index in range(limit)})
