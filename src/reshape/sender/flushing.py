"""Rows of a slow source must not lie in a half-full message until the next batch comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from math import inf
from typing import Protocol

import pyarrow as pa

# A person does not see twenty milliseconds, and a message of a few rows fifty times a second costs nothing.
FLUSH_S = 0.02


class Ticking(Protocol):
    @property
    def unsent(self) -> int:
        """Rows that it has and that its counts do not account for yet."""
        ...

    def route(self, batch: pa.RecordBatch) -> None: ...

    def tick(self) -> None: ...


class TimedFlush:
    """A router that sends by the clock too, and reported about. Used by one thread; the clock has its own."""

    def __init__(
        self,
        router: Ticking,
        report: Callable[[], None] = lambda: None,
        report_s: float = inf,
        on_error: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """``on_error`` gets what the clock has met: the thread that routes meets it with its next batch only."""
        self._router = router
        self._report = report
        self._on_error = on_error
        self._report_s = report_s
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._error: Exception | None = None
        self._read = 0
        self._settled = 0
        self._thread = threading.Thread(target=self._tick, name="reshape-flush", daemon=True)

    def start(self) -> None:
        """Start the clock."""
        self._thread.start()

    def route(self, batch: pa.RecordBatch, read: int = 0) -> None:
        """``read``: how much of the source has been read with this batch."""
        with self._lock:
            if self._error is not None:
                raise self._error
            self._router.route(batch)
            self._read = read
            self._settle()

    @property
    def settled(self) -> int:
        """How much of the source the router's counts account for. To be asked between batches, as its counts are."""
        return self._settled

    def _settle(self) -> None:
        if not self._router.unsent:
            self._settled = self._read

    def between_batches(self) -> AbstractContextManager[bool]:
        """While this is held, nothing is routed or sent."""
        return self._lock

    def close(self) -> None:
        """Stop the clock; what is left is for the caller to send. Raises what the clock met."""
        self.stop()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop the clock."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _tick(self) -> None:
        report_at = time.monotonic() + self._report_s
        while not self._closed.wait(FLUSH_S):
            if time.monotonic() >= report_at:
                report_at = time.monotonic() + self._report_s
                self._report()
            with self._lock:
                try:
                    self._router.tick()
                    self._settle()
                except Exception as error:
                    self._error = error
            if self._error is not None:
                self._on_error(self._error)
                return
