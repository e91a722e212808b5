"""How long state migration takes, and whether it is worth its time (§6.1)."""

from __future__ import annotations

from math import inf


class MigrationTime:
    """Estimates M from state size and measured transfers.

    A transfer prepares the state once (serialisation) and sends it to each helper: seconds per byte are learned
    for the first helper and for each further one. Before the first measurement the guess in the settings counts.
    """

    # A new measurement counts for half: sizes repeat within a run, machines get busy and idle again.
    NEWEST = 0.5

    def __init__(self, bytes_per_s: float) -> None:
        self._first = 1.0 / bytes_per_s
        self._next = 1.0 / bytes_per_s
        self._measured = False

    def learn(self, size: int, rank: int, seconds: float) -> None:
        """The ``rank``-th helper (from 1) had the state ``seconds`` after the transfer began."""
        if size <= 0 or rank < 1 or not 0 <= seconds < inf:
            return
        if rank == 1:
            speed = seconds / size
            self._first = speed if not self._measured else self._mix(self._first, speed)
            self._next = min(self._next, self._first) if not self._measured else self._next
            self._measured = True
        else:
            self._next = self._mix(self._next, max(0.0, seconds / size - self._first) / (rank - 1))

    def _mix(self, old: float, new: float) -> float:
        return old + self.NEWEST * (new - old)

    def seconds(self, size: int, helpers: int = 1) -> float:
        """M for a state of this size and this many helpers."""
        return size * (self._first + self._next * max(0, helpers - 1)) if helpers else 0.0


def worth_migrating(migration_s: float, input_left_s: float, backlog_left_s: float = 0.0) -> bool:
    """Migrate only if it ends while there is still something to redirect: input, or a backlog that may be moved."""
    return migration_s < max(input_left_s, backlog_left_s)


def seconds_left(rows: float | None, rows_per_s: float) -> float:
    """Time until so many rows have come or been processed; unknown rows never run out."""
    if rows is None:
        return inf
    if rows <= 0:
        return 0.0
    return rows / rows_per_s if rows_per_s > 0 else inf
