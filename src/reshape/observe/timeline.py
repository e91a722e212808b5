"""What happened in a run, in its order and in bounded memory: decisions, transfers, phases, faults, restarts."""

from __future__ import annotations

from dataclasses import dataclass, field

# More than anybody scrolls through. Of older entries those go first that come again and again.
MOST_ENTRIES = 2_000
_LASTING = {"flow", "restarted", "ended", "failed", "gave up", "opened", "started", "input"}


@dataclass(frozen=True, slots=True)
class Entry:
    """``number`` counts all that ever were; ``skewed`` -1: it is about no worker."""

    number: int
    seconds: float
    kind: str
    text: str
    operator: int = -1
    port: int = -1
    skewed: int = -1
    helpers: tuple[int, ...] = ()


@dataclass(slots=True)
class Timeline:
    most: int = MOST_ENTRIES
    last: int = 0  # the number of the newest entry
    _entries: list[Entry] = field(default_factory=list)

    def add(
        self,
        seconds: float,
        kind: str,
        text: str,
        port: tuple[int, int] = (-1, -1),
        skewed: int = -1,
        helpers: tuple[int, ...] = (),
    ) -> None:
        self.last += 1
        self._entries.append(Entry(self.last, seconds, kind, text, *port, skewed, helpers))
        if len(self._entries) > self.most:
            self._thin_out()

    def after(self, number: int) -> list[Entry]:
        """Entries beyond this number."""
        if number >= self.last:
            return []
        return [entry for entry in self._entries if entry.number > number]

    def _thin_out(self) -> None:
        half = self.most // 2
        old, new = self._entries[:-half], self._entries[-half:]
        passing = [entry.number for entry in old if entry.kind not in _LASTING]
        gone = set(passing[::2]) if len(passing) > half // 4 else {entry.number for entry in old[::2]}
        self._entries = [entry for entry in old if entry.number not in gone] + new
