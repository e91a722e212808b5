"""The process of a host task: how it ends when its executor does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Spark's Python daemon hangs up on its workers when the executor is gone.
_SIGNALS = (signal.SIGHUP, signal.SIGTERM)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within this, a signal that ends the process does so by an exception, so that everything is put away first."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may do this; tasks run in it
        return
    before = [(number, signal.signal(number, _end)) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    for again in _SIGNALS:
        signal.signal(again, signal.SIG_IGN)
    raise SystemExit(f"ended by {signal.Signals(number).name}")
