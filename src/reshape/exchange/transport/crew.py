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
        self._lock = threading.Lock()
        # Threads that nobody counts on yet, by what they wait at. The last one gets the next task, or a few tasks now
        # and then would keep all threads that were ever needed at once.
        self._waiting: list[queue.SimpleQueue[Callable[[], None] | None]] = []
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def do(self, task: Callable[[], None]) -> None:
        """Run this in a thread of its own, soon. It must not raise. Raises RuntimeError where there is no thread."""
        with self._lock:
            if self._closed:
                return
            if self._waiting:
                self._waiting.pop().put(task)
                return
            thread = threading.Thread(target=self._work, args=(task,), name=self._name, daemon=True)
            thread.start()
            # Only what has ended is forgotten: nothing that was started outlives close().
            self._threads = {each for each in self._threads if each.is_alive()} | {thread}

    def close(self, within_s: float) -> bool:
        """Wait until all that was begun is done; False if something is not."""
        with self._lock:
            self._closed = True
            threads = self._threads - {threading.current_thread()}
            while self._waiting:
                self._waiting.pop().put(None)
        deadline = time.monotonic() + within_s
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in threads)

    def _work(self, first: Callable[[], None]) -> None:
        task: Callable[[], None] | None = first
        tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        while task is not None:
            task()
            task = self._next(tasks)

    def _next(self, tasks: queue.SimpleQueue[Callable[[], None] | None]) -> Callable[[], None] | None:
        with self._lock:
            if self._closed:
                return None
            self._waiting.append(tasks)
        try:
            return tasks.get(timeout=LINGER_S)
        except queue.Empty:
            with self._lock:
                if tasks in self._waiting:
                    self._waiting.remove(tasks)
                    return None
            return tasks.get()  # somebody has just counted on this one
