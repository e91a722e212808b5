"""How much a worker does at a time: little at first, then as much as fits into a few milliseconds by what a row costs.

Whatever is said to a host waits for the end of a step, so none may be long, however slow a user's function.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Waiting rows are cut, or put together, so that a step of one worker takes about so long: orders and other workers
# never wait for much more.
STEP_S = 0.02
# Nobody knows yet what a row costs: at 2 ms, as of a slow function, these take 32 ms.
FIRST_ROWS = 16
# The first rows may be cheap by chance, so the next step is not as large as they promise.
GROWTH = 8
# Fixed costs of a step, some hundred microseconds, are then nothing beside it, however cheap a row is.
MOST_ROWS = 262_144
# A call of a user's function: beyond so many rows fixed costs are little, and rows that are dear without warning cost
# half a minute at the worst, at 2 ms each.
MOST_ROWS_PER_CALL = 16_384
# Of steps as large as this the newest one alone tells what a row costs; of small ones most is fixed cost.
LARGE_ROWS = 16_384


@dataclass(slots=True)
class Pace:
    """Rows at a time of one kind of work, by what rows have cost so far."""

    most: int = MOST_ROWS
    seconds_per_row: float = 0.0
    _rows: int = 0  # all of them
    _largest: int = 0  # the most at a time

    def rows(self) -> int:
        if not self._rows:
            return FIRST_ROWS
        most = min(self.most, GROWTH * self._largest)
        return most if self.seconds_per_row * most <= STEP_S else max(1, int(STEP_S / self.seconds_per_row))

    def count(self, rows: int, seconds: float) -> None:
        """So many rows took so long. The newest count, large steps more than small ones, and one that is larger than
        all before it more than these."""
        if rows == 0:
            return
        self._rows += rows
        self._largest = max(self._largest, rows)
        weight = max(min(0.9, max(0.3, rows / LARGE_ROWS)), rows / self._rows)
        self.seconds_per_row += weight * (seconds / rows - self.seconds_per_row)


@dataclass(slots=True)
class Steps:
    """The steps of one worker: a step ends when all that comes of its rows has been passed on, so that rows whose
    function is slow are taken a few at a time, and the others wait where they can be moved."""

    taken: Pace = field(default_factory=Pace)
    busy_s: float = 0.0
    _rows: int = 0  # of the step at hand
    _seconds: float = 0.0

    def begin(self, rows: int) -> None:
        self._rows = rows
        self._seconds = 0.0

    def spend(self, seconds: float) -> None:
        self.busy_s += seconds
        self._seconds += seconds

    def end(self) -> None:
        self.taken.count(self._rows, self._seconds)
        self._rows = 0
