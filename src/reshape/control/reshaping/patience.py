"""How long a worker is left alone after something about it was refused or has failed."""

from __future__ import annotations

from reshape.control.sensing.observation import Observation

# After a refusal or failure a worker is left alone for so many report periods, twice as long after each further one.
COOLDOWN_PERIODS = 4.0
MOST_DOUBLINGS = 6


class Patience:
    def __init__(self, seen: Observation, longest_s: float) -> None:
        self._seen = seen
        self._longest_s = longest_s
        self._cooling: dict[int, tuple[float, int]] = {}  # worker -> (not before, failures)

    def is_over(self, worker: int) -> bool:
        """May something be tried with this worker?"""
        return worker not in self._cooling or self._seen.time >= self._cooling[worker][0]

    def failed(self, worker: int) -> None:
        failures = self._cooling.get(worker, (0.0, 0))[1]
        wait = max(COOLDOWN_PERIODS * self._seen.period, 1e-3) * 2 ** min(failures, MOST_DOUBLINGS)
        # One long gap between two reports must not put a worker to sleep: it waits no longer than for an answer.
        self._cooling[worker] = (self._seen.time + min(wait, self._longest_s), failures + 1)

    def worked(self, worker: int) -> None:
        self._cooling.pop(worker, None)
