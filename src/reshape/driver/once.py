"""Calls that tasks make again because they have heard no answer: each is booked once and answered as before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from reshape.protocol.reports import Answer, Sender

# Booking takes microseconds; a host that has failed may have to wait for the others to leave.
_BOOKED_S = 10.0


@dataclass(slots=True, eq=False)
class _Call:
    booked: threading.Event = field(default_factory=threading.Event)
    answer: Answer | None = None


@dataclass(slots=True)
class _Line:
    """``oldest``: calls with lower numbers have their answers."""

    oldest: int = 0
    calls: dict[int, _Call] = field(default_factory=dict)


class Once:
    """The calls of each line that may be made again. Threads of a task share a line, so a call may come long after
    others with higher numbers: only the task knows which ones still wait for an answer, and says so with each call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[tuple[Sender, str], _Line] = {}

    def book(
        self, sender: Sender, line_name: str, number: int, oldest: int, book: Callable[[], Answer | None]
    ) -> Answer | None:
        with self._lock:
            line = self._lines.setdefault((sender, line_name), _Line())
            line.oldest = max(line.oldest, oldest)
            for answered in [answered for answered in line.calls if answered < line.oldest]:
                del line.calls[answered]
            call = line.calls.get(number)
            is_new = call is None and number >= line.oldest
            if is_new:
                call = line.calls[number] = _Call()
        if call is None:
            return None  # nobody waits for its answer any more
        if not is_new:
            call.booked.wait(_BOOKED_S)
            return call.answer
        try:
            call.answer = book()
        finally:
            call.booked.set()
        return call.answer

    def forget(self, run: str) -> None:
        """Of a flow that is gone no call is answered."""
        with self._lock:
            self._lines = {key: line for key, line in self._lines.items() if key[0].run != run}
