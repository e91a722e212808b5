"""The record of decisions, told in plain words."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

# An unbounded run decides for ever; a person reads the recent past.
KEPT_DECISIONS = 10_000


class DecisionKind(Enum):
    STARTED = "started"
    ITERATED = "iterated"
    CHANGED = "changed"
    ENDED = "ended"
    REFUSED = "refused"
    FAILED = "failed"
    THRESHOLD = "threshold"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision: what caused it, whom it concerns, and the words with the numbers that decided it."""

    event: int
    time: float
    kind: DecisionKind
    skewed: int
    helpers: tuple[int, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.time:.2f} s, event {self.event}: {self.text}"


class Story:
    """Collects decisions. A refusal that merely repeats the one before is kept once."""

    def __init__(self) -> None:
        self._decisions: deque[Decision] = deque(maxlen=KEPT_DECISIONS)
        self._last_refusal: dict[int, str] = {}

    def record(self, decision: Decision, reason: str | None = None) -> None:
        """Record a decision; ``reason`` is what makes a refusal the same as the one before."""
        if decision.kind is DecisionKind.REFUSED:
            reason = reason or decision.text
            if self._last_refusal.get(decision.skewed) == reason:
                return
            self._last_refusal[decision.skewed] = reason
        else:
            self._last_refusal.pop(decision.skewed, None)
        self._decisions.append(decision)

    @property
    def decisions(self) -> list[Decision]:
        return list(self._decisions)

    def of(self, worker: int) -> list[str]:
        return [str(d) for d in self._decisions if d.skewed == worker or worker in d.helpers]
