"""Everything in this process that the page can show: queries, or runs read from files."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from reshape.observe.record import RunRecord

# What can be chosen from on a page; runs that have ended go first.
MOST_RUNS = 32


class Watched(Protocol):
    """A run that can be watched."""

    @property
    def name(self) -> str: ...

    @property
    def record(self) -> RunRecord: ...

    @property
    def status(self) -> str:
        """In a word, and what it waits for."""

    @property
    def active(self) -> bool: ...

    @property
    def actions(self) -> Sequence[str]:
        """What can be done with it now."""

    def look(self) -> None:
        """Bring what it shows now into its record."""

    def act(self, action: str, value: float | None = None) -> None:
        """Do one of its actions; returns when it is done."""


class Query(Protocol):
    """What the page asks of a query's handle."""

    @property
    def isActive(self) -> bool: ...  # noqa: N802

    @property
    def status(self) -> Mapping[str, Any]: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None: ...


class LiveRun:
    """A query. It may be forgotten by its user, and its rows with it, while its record can still be seen."""

    def __init__(self, name: str, query: Query, record: RunRecord, look: Any) -> None:
        self.name = name
        self.record = record
        self._query = weakref.ref(query)
        self._look = weakref.WeakMethod(look)
        self._last_status = "starting"

    @property
    def status(self) -> str:
        query = self._query()
        if query is not None:
            self._last_status = str(query.status["message"])
        return self._last_status

    @property
    def active(self) -> bool:
        query = self._query()
        return query is not None and query.isActive

    @property
    def actions(self) -> Sequence[str]:
        if not self.active:
            return ()
        return ("resume" if self.status.startswith("paused") else "pause", "stop")

    def look(self) -> None:
        look = self._look()
        if look is not None:
            look()

    def act(self, action: str, value: float | None = None) -> None:
        query = self._query()
        if query is None:
            return
        match action:
            case "pause":
                query.pause()
            case "resume":
                query.resume()
            case "stop":
                query.stop()


@dataclass(frozen=True, slots=True)
class NumberedRun:
    """Runs are numbered: their names may say something about their users' data, and belong into no address."""

    number: int
    run: Watched


class Runs:
    """From any thread."""

    def __init__(self, most: int = MOST_RUNS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._last = 0
        self._runs: dict[int, NumberedRun] = {}

    def add(self, run: Watched) -> int:
        """The number that it is known by from now on; the same one if it is there already."""
        with self._lock:
            for number, known in self._runs.items():
                if known.run.record is run.record:
                    return number
            self._last += 1
            self._runs[self._last] = NumberedRun(self._last, run)
            ended = [number for number, each in self._runs.items() if not each.run.active and number != self._last]
            for number in ended[: max(0, len(self._runs) - self._most)]:
                del self._runs[number]
            return self._last

    def all(self) -> list[NumberedRun]:
        """The newest last."""
        with self._lock:
            return list(self._runs.values())

    def get(self, number: int) -> Watched | None:
        with self._lock:
            found = self._runs.get(number)
            return None if found is None else found.run


# Of this process: a page opened late shows what began before.
RUNS = Runs()
