"""The result of a host on its way to Spark: a bounded queue between the working thread and the task's own thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator

import pyarrow as pa

# Enough to keep the JVM busy while the loop works, little enough to stay out of the memory budget.
ROOM_BYTES = 32 * 1024 * 1024


class Results:
    """``put`` never waits; the loop asks for room before it runs an operator."""

    def __init__(self, on_room: Callable[[], None], room_bytes: int = ROOM_BYTES) -> None:
        """``on_room`` is called when there is room again."""
        self._on_room = on_room
        self._room = room_bytes
        self._batches: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._news = threading.Condition()
        self._closed = False
        self._failure: BaseException | None = None

    def has_room(self) -> bool:
        return self._bytes < self._room

    def put(self, batch: pa.RecordBatch) -> None:
        with self._news:
            self._batches.append(batch)
            self._bytes += batch.nbytes
            self._news.notify_all()

    def close(self, failure: BaseException | None = None) -> None:
        with self._news:
            self._closed = True
            self._failure = failure
            self._news.notify_all()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            with self._news:
                while not self._batches and not self._closed:
                    self._news.wait()
                if self._failure is not None:
                    raise self._failure
                if not self._batches:
                    return
                batch = self._batches.popleft()
                was_full = not self.has_room()
                self._bytes -= batch.nbytes
            if was_full:
                self._on_room()
            yield batch
