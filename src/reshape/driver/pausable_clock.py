"""A clock that can be stopped: time in which a flow is paused is no time of the flow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class PausableClock:
    """Seconds since it was made, less those in which it stood still. Any thread may ask and stop it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._zero = clock()
        self._stopped_at: float | None = None

    @property
    def now(self) -> float:
        with self._lock:
            return (self._clock() if self._stopped_at is None else self._stopped_at) - self._zero

    @property
    def paused(self) -> bool:
        return self._stopped_at is not None

    def pause(self) -> None:
        with self._lock:
            if self._stopped_at is None:
                self._stopped_at = self._clock()

    def resume(self) -> None:
        with self._lock:
            if self._stopped_at is not None:
                self._zero += self._clock() - self._stopped_at
                self._stopped_at = None
