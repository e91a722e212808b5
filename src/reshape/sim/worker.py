"""A worker: a queue of chunks, worked off in order at a constant speed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

Items = Sequence[tuple[int, int]]  # (key, rows)

# A moment computed from a number of rows must count as having reached it, whatever float rounding did.
ROUNDING = 1e-6


def dealt(items: Items, rows: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """How many rows at the positions ``start .. end - 1`` of a mixture of ``rows`` rows belong to each key.

    The rows of a key are spread evenly over the mixture by nested counting, so each position has one key, and
    counts never go back as ``end`` grows.
    """
    left = rows
    for key, size in items:
        before = start * size // left
        after = end * size // left
        if after > before:
            yield key, after - before
        start -= before
        end -= after
        left -= size


class Chunk:
    """Rows of some keys, evenly mixed, of which the first ``done`` have been processed."""

    __slots__ = ("done", "items", "rows")

    def __init__(self, items: Items) -> None:
        self.items = items
        self.rows = items[0][1] if len(items) == 1 else sum(rows for _, rows in items)
        self.done = 0

    def rest(self) -> Items:
        """What has not been processed."""
        return list(dealt(self.items, self.rows, self.done, self.rows)) if self.done else self.items

    def split(self, rows: int, wanted: Callable[[int], bool]) -> tuple[Items, Items]:
        """At most so many unprocessed rows of the wanted keys, from the mixture's end; and all others."""
        unprocessed: dict[int, int] = {}
        for key, size in self.rest():  # where two phases of the input meet, a key comes twice
            unprocessed[key] = unprocessed.get(key, 0) + size
        chosen = [(key, size) for key, size in unprocessed.items() if wanted(key)]
        available = sum(size for _, size in chosen)
        taken = list(dealt(chosen, available, available - min(rows, available), available))
        for key, size in taken:
            unprocessed[key] -= size
        return taken, [(key, size) for key, size in unprocessed.items() if size]


class Worker:
    """Processes lazily: nothing happens between two calls of :meth:`advance`.

    Counts are whole rows. A busy period starts when rows meet an empty queue; the moment at which it ends is
    computed from its rows, so ``drained_at`` is exact however rarely the worker is looked at.
    """

    __slots__ = (
        "_arrived",
        "_busy_from",
        "_held_keys",
        "_since",
        "counts",
        "drained_at",
        "held",
        "processed",
        "queue",
        "speed",
    )

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.queue: deque[Chunk] = deque()
        self.processed = 0
        self.counts: dict[int, int] = {}  # processed rows per key
        self.drained_at = 0.0
        self.held: dict[int, list[Chunk]] = {}  # per transfer, rows that wait for their state
        self._held_keys: dict[int, int] = {}
        self._busy_from = 0.0
        self._since = 0  # rows processed in this busy period
        self._arrived = 0  # rows that came in it, those that were taken away again not counted

    @property
    def queued(self) -> int:
        return sum(chunk.rows - chunk.done for chunk in self.queue)

    def arrive(self, now: float, chunk: Chunk) -> None:
        """Take rows at the end of the queue; rows of keys whose state is on its way are held back."""
        if self._held_keys:
            held = self._held_keys
            waiting, free = chunk.split(chunk.rows, held.__contains__)
            if waiting:
                for key, rows in waiting:
                    self.held[held[key]].append(Chunk([(key, rows)]))
                if not free:
                    return
                chunk = Chunk(free)
        if self.queue and self._done_by(now) >= self._arrived:
            self.advance(now)
        if not self.queue:
            self._busy_from = now
            self._since = self._arrived = 0
        self.queue.append(chunk)
        self._arrived += chunk.rows

    def advance(self, now: float) -> None:
        """Process what fits into the time up to now."""
        queue = self.queue
        if not queue:
            return
        budget = self._done_by(now) - self._since
        if budget <= 0:
            return
        before = budget
        while budget:
            chunk = queue[0]
            left = chunk.rows - chunk.done
            if left > budget:
                self._count(chunk, chunk.done + budget)
                budget = 0
                break
            self._count(chunk, chunk.rows)
            queue.popleft()
            budget -= left
            if not queue:
                break
        self.processed += before - budget
        self._since += before - budget
        if not queue:
            self._ran_empty()

    def finish_time(self, rows: int) -> float:
        """When the next so many rows of a queue that is not empty will have been processed."""
        return self._busy_from + (self._since + rows) / self.speed

    def take_tail(self, now: float, rows: int, wanted: Callable[[int], bool]) -> list[Chunk]:
        """Remove at most so many unprocessed rows of the wanted keys, from the end of the queue."""
        self.advance(now)
        taken: list[Chunk] = []
        kept: list[Chunk] = []
        while self.queue and rows > 0:
            moved, rest = self.queue.pop().split(rows, wanted)
            if moved:
                taken.append(Chunk(moved))
                rows -= taken[-1].rows
            if rest:
                kept.append(Chunk(rest))
        self.queue.extend(reversed(kept))
        self._arrived -= sum(chunk.rows for chunk in taken)
        if taken and not self.queue:
            self._ran_empty()
        taken.reverse()
        return taken

    def hold(self, transfer: int, keys: Sequence[int]) -> None:
        """Hold back rows of these keys until :meth:`release`."""
        self.held[transfer] = []
        self._held_keys.update((key, transfer) for key in keys)

    def release(self, transfer: int) -> list[Chunk]:
        """End a hold; the caller decides where the rows go."""
        self._held_keys = {key: holder for key, holder in self._held_keys.items() if holder != transfer}
        return self.held.pop(transfer, [])

    def _done_by(self, now: float) -> int:
        """Rows of this busy period that there was time for."""
        return int((now - self._busy_from) * self.speed + ROUNDING)

    def _ran_empty(self) -> None:
        self.drained_at = self._busy_from + self._since / self.speed

    def _count(self, chunk: Chunk, done: int) -> None:
        counts = self.counts
        items = chunk.items
        if len(items) == 1:
            key = items[0][0]
            counts[key] = counts.get(key, 0) + done - chunk.done
        elif done - chunk.done == chunk.rows:
            for key, rows in items:
                counts[key] = counts.get(key, 0) + rows
        else:
            for key, rows in dealt(items, chunk.rows, chunk.done, done):
                counts[key] = counts.get(key, 0) + rows
        chunk.done = done
