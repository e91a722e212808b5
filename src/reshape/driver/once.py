"""Calls that tasks make again because they have heard no answer: each is booked once and answered as before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from reshape.protocol.reports import Answer, Sender

# Threads of a task that may wait for an answer at the same time: its own, its reporter and whoever obeys orders.
_KEPT = 8
# Booking takes microseconds; a host that has failed may have to wait for the others to leave.
_BOOKED_S = 10.0


@dataclass(slots=True, eq=False)
class _Call:
    booked: threading.Event = field(default_factory=threading.Event)
    answer: Answer | None = None


class Once:
    """The newest calls of each line. Their numbers grow; whoever has made a newer one has its answer to much older
    ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[tuple[Sender, str], dict[int, _Call]] = {}

    def book(self, sender: Sender, line: str, number: int, book: Callable[[], Answer | None]) -> Answer | None:
        with self._lock:
            calls = self._calls.setdefault((sender, line), {})
            call = calls.get(number)
            is_new = call is None and number > max(calls, default=0) - _KEPT
            if is_new:
                call = calls[number] = _Call()
                for old in [old for old in calls if old <= number - _KEPT]:
                    del calls[old]
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
            self._calls = {line: calls for line, calls in self._calls.items() if line[0].run != run}
