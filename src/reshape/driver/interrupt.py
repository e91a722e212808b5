"""Ctrl-C ends running flows.

PySpark's own handler means to cancel all jobs, but asks for it on the connection on which the interrupted action still
waits, and that fails: the jobs run on. A thread has a connection of its own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class _Handler:
    """Calls what was there before."""

    def __init__(self, before: Any, stop: Callable[[], None]) -> None:
        self._before = before
        self._stop = stop

    def __call__(self, number: int, frame: FrameType | None) -> None:
        threading.Thread(target=self._stop, name="reshape-interrupt", daemon=True).start()
        if callable(self._before):
            self._before(number, frame)
        else:
            raise KeyboardInterrupt


def stop_flows_on_interrupt(stop: Callable[[], None]) -> None:
    """Let Ctrl-C call this too. Only the main thread can arrange it; elsewhere, and if Ctrl-C is ignored, nothing
    happens."""
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGINT)
    if before not in (signal.SIG_IGN, None) and not isinstance(before, _Handler):
        signal.signal(signal.SIGINT, _Handler(before, stop))
