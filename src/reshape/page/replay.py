"""A run read from its event log, shown as it was: at its own pace, slower or faster."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reshape.observe.record import RunRecord
from reshape.page.errors import LogUnreadable

SLOWEST, FASTEST = 0.01, 1_000.0
_WRITTEN_BY = 'reshape.flow(df, event_log="FOLDER")'


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    kind: str
    seconds: float
    facts: dict[str, Any]


def read_log(path: Path) -> list[LoggedEvent]:
    """All events of a file, in its order. A last line that was never finished is left out."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise LogUnreadable(f"{path} cannot be read: {error.strerror}") from error
    events = list(_events(path, lines))
    if not any(event.kind == "flow" for event in events):
        raise LogUnreadable(
            f"{path} does not say which flow it is about: it is no event log, or was written by an older version. "
            f"A log is written by {_WRITTEN_BY}"
        )
    return events


def _events(path: Path, lines: Sequence[bytes]) -> Iterator[LoggedEvent]:
    for number, line in enumerate(lines, 1):
        try:
            facts = json.loads(line)
            yield LoggedEvent(str(facts.pop("event")), float(facts.pop("seconds")), facts)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if number == len(lines):
                return
            raise LogUnreadable(
                f"line {number} of {path} is no event ({type(error).__name__}); a log is written by {_WRITTEN_BY}"
            ) from error


class ReplayedRun:
    """Plays from the moment when it is first looked at."""

    def __init__(self, path: Path, speed: float = 1.0) -> None:
        self._events = read_log(path)
        flow = next(event for event in self._events if event.kind == "flow")
        self.name = str(flow.facts.get("name", path.stem))
        self.record = RunRecord()
        self._end_s = max(event.seconds for event in self._events)
        self._lock = threading.RLock()
        self._speed = speed
        self._playing: float | None = None  # since when, by the clock
        self._began = False
        self._from_s = 0.0  # where in the run it was then
        self._next = 0

    @property
    def position_s(self) -> float:
        with self._lock:
            passed = 0.0 if self._playing is None else (time.monotonic() - self._playing) * self._speed
            return min(self._from_s + passed, self._end_s)

    @property
    def active(self) -> bool:
        return self._next < len(self._events)

    @property
    def status(self) -> str:
        at = f"{self.position_s:.1f} of {self._end_s:.1f} s"
        state = "done" if not self.active else "paused" if self._began and self._playing is None else "replay"
        return f"{state}: {at}, {self._speed:g} times its speed"

    @property
    def actions(self) -> Sequence[str]:
        if not self.active:
            return ("restart", "speed")
        return ("pause" if self._playing is not None else "resume", "restart", "speed")

    def look(self) -> None:
        """Tell the record what has happened up to now."""
        with self._lock:
            if not self._began:
                self._began = True
                self._play()
            now = self.position_s
            while self._next < len(self._events) and self._events[self._next].seconds <= now:
                event = self._events[self._next]
                self._next += 1
                self._tell(event)

    def act(self, action: str, value: float | None = None) -> None:
        with self._lock:
            self._from_s = self.position_s
            if action == "speed":
                if value is None or not SLOWEST <= value <= FASTEST:
                    raise ValueError(f"a speed is between {SLOWEST:g} and {FASTEST:g} times, not {value}")
                self._speed = value
            elif action == "restart":
                self._from_s, self._next = 0.0, 0
                self.record.start_over()
            if action == "pause":
                self._playing = None
            elif action != "speed" or self._playing is not None:
                self._play()

    def _play(self) -> None:
        self._playing = time.monotonic()

    def _tell(self, event: LoggedEvent) -> None:
        try:
            self.record.write(event.kind, event.seconds, **event.facts)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            # A file of a stranger may say anything; what it says of one moment is left out.
            return
