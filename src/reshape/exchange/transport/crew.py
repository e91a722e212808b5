"""Threads that serve connections: started when all others are at work, ended when there is nothing to do."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

# A thread that waits costs some 50 kB, a new one 0.1 ms.
LINGER_S = 5.0


class Crew:
    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0  # threads that nobody counts on yet
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def do(self, task: Callable[[], None]) -> None:
        """Run this in a thread of its own, soon. It must not raise. Raises RuntimeError where there is no thread."""
        with self._lock:
            if self._closed:
                return
            if self._waiting:
                self._waiting -= 1
                self._tasks.put(task)
                return
            thread = threading.Thread(target=self._work, args=(task,), name=self._name, daemon=True)
            thread.start()
            self._threads.add(thread)

    def close(self, within_s: float) -> bool:
        """Wait until all that was begun is done; False if something is not."""
        with self._lock:
            self._closed = True
            threads = self._threads - {threading.current_thread()}
            for _ in range(self._waiting):
                self._tasks.put(None)
            self._waiting = 0
        deadline = time.monotonic() + within_s
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in threads)

    def _work(self, first: Callable[[], None]) -> None:
        task: Callable[[], None] | None = first
        while task is not None:
            task()
            task = self._next()
        with self._lock:
            self._threads.discard(threading.current_thread())

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._closed:
                return None
            self._waiting += 1
        try:
            return self._tasks.get(timeout=LINGER_S)
        except queue.Empty:
            with self._lock:
                if self._waiting:
                    self._waiting -= 1
                    return None
            return self._tasks.get()  # somebody has just counted on this one
