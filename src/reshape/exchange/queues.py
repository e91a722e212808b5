"""Queues of waiting rows, one per worker, within one memory budget per host.

Beyond the budget the newest rows of the longest queue go to disk; without a disk to use, senders wait. Rows that a host
sends to itself are always taken: the thread that would wait is the one that has to drain the queue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

import pyarrow as pa

from reshape.exchange.errors import BackPressureTimeout, HostClosed
from reshape.exchange.holds import Among, Hold, Holds
from reshape.exchange.spill import SpillSpace
from reshape.exchange.worker_queue import Item, WorkerQueue, joined


class HostQueues:
    """All queues of one host. Senders put, the host's loop takes; both may be any thread."""

    def __init__(
        self, ports: Sequence[int], budget_bytes: int, space: SpillSpace | None, wait_limit_s: float = 600.0
    ) -> None:
        self._queues = [WorkerQueue(count) for count in ports]
        self._budget = budget_bytes
        self._space = space
        self._wait_limit_s = wait_limit_s
        self._changed = threading.Condition()
        self._memory = 0
        self._failure: BaseException | None = None
        self._taken = 0
        self._news = False
        self._holds = Holds()
        self._paused = False
        self._pauses = 0
        self.most_memory = 0

    def pause(self, paused: bool) -> None:
        """Nothing will be taken until this is called with False: those who wait for room are patient."""
        with self._changed:
            self._paused = paused
            self._pauses += 1

    def put(
        self,
        worker: int,
        port: int,
        owner: int,
        batch: pa.RecordBatch,
        *,
        version: int = 0,
        combined: bool = False,
        may_wait: bool = True,
    ) -> None:
        """``version`` is the routing version under which the rows were sent."""
        if self._holds:
            batch = self._hold_back(worker, port, owner, batch, version, combined)
            if batch.num_rows == 0:
                return
        size = batch.nbytes
        if batch.get_total_buffer_size() > size + size // 4:
            # A slice keeps the whole message in memory, also when the rows for all other workers are gone.
            batch = pa.concat_batches([batch])
        item = Item.of(port, owner, batch, combined=combined)
        with self._changed:
            queue = self._queues[worker]
            self._make_room(item.bytes, queue.items[port], may_wait)
            queue.append(item)
            self._count(item.bytes)
            self._notify()

    def _hold_back(
        self, worker: int, port: int, owner: int, batch: pa.RecordBatch, version: int, combined: bool
    ) -> pa.RecordBatch:
        """Set aside the rows that must wait for state; the others."""
        with self._changed:
            holds = self._holds.at(worker, port)
        for hold in holds:
            if version < hold.version or batch.num_rows == 0:
                continue
            among = hold.among(batch, combined)
            if not among.any():
                continue
            item = Item.of(0, owner, batch.filter(pa.array(among)), combined=combined)
            with self._changed:
                if hold not in self._holds:
                    continue  # released a moment ago: the rows may go on
                self._make_room(item.bytes, hold.waiting.items[0], may_wait=False)
                hold.waiting.append(item)
                self._count(item.bytes)
            batch = batch.filter(pa.array(~among))
        return batch

    def hold(self, worker: int, port: int, transfer: int, version: int, among: Among) -> None:
        """Set rows that come from now on aside, until the transfer is released."""
        with self._changed:
            self._holds.add(Hold(worker, port, transfer, version, among))

    def release(self, worker: int, port: int, transfer: int) -> None:
        """Let the rows that waited for a transfer go on, ahead of all that come later.

        Where an older hold is still there, they wait behind its rows.
        """
        with self._changed:
            hold = self._holds.end(worker, port, transfer)
            if hold is None:
                return
            for item in self._unloaded(hold):
                rest = self._hold_back(worker, port, item.owner, item.load(), hold.version, item.combined)
                if rest.num_rows:
                    released = Item.of(port, item.owner, rest, combined=item.combined)
                    self._queues[worker].append(released)
                    self._count(released.bytes)
            self._notify()

    def take_held(self, worker: int, port: int, transfer: int) -> tuple[int, list[Item]]:
        """End a hold whose state will not come: its version, and the rows, which are for the caller to pass on."""
        with self._changed:
            hold = self._holds.end(worker, port, transfer)
            if hold is None:
                return 0, []
            items = self._unloaded(hold)
            self._taken += 1
            self._changed.notify_all()
            return hold.version, items

    def _unloaded(self, hold: Hold) -> list[Item]:
        """All items of a hold, in memory and no longer counted."""
        self._memory -= hold.waiting.memory
        items = []
        while hold.waiting.items[0]:
            items.append(hold.waiting.pop_left(0))
        return items

    def last_serial(self, worker: int) -> int:
        """A mark at the end of a worker's queue: see :meth:`passed`."""
        with self._changed:
            return self._queues[worker].last_serial

    def passed(self, worker: int, port: int, serial: int) -> bool:
        """Has everything before the mark been taken?"""
        with self._changed:
            items = self._queues[worker].items[port]
            return not items or items[0].serial > serial

    def take_tail(self, worker: int, port: int, owner: int, rows: int) -> list[Item]:
        """Remove up to so many waiting rows of an owner's partition, the newest first; in the order of the queue.

        Items on disk stay there until they are loaded (:meth:`load`).
        """
        with self._changed:
            queue = self._queues[worker]
            before = queue.memory
            taken = queue.take_tail(port, owner, rows)
            self._memory -= before - queue.memory
            self._taken += 1
            self._changed.notify_all()
            return taken

    def load(self, item: Item) -> pa.RecordBatch:
        """The rows of an item that was taken. Rows of others may be on their way into its file meanwhile."""
        with self._changed:
            return item.load()

    def _make_room(self, size: int, items: deque[Item], may_wait: bool) -> None:
        self._check()
        if self._space is not None:
            while self._memory + size > self._budget and self._memory > 0:
                queues = [*self._queues, *(hold.waiting for hold in self._holds)]
                longest = max(queues, key=lambda queue: queue.memory)
                before = longest.memory
                try:
                    longest.spill_newest(self._space, self._memory + size - self._budget)
                finally:
                    self._memory -= before - longest.memory
            return
        while may_wait and items and self._memory + size > self._budget:
            # A port without rows takes some at once: all else may wait for them, as a join's probe side for its build
            # side, and then nothing would ever make room.
            self._await_taken()

    def _await_taken(self) -> None:
        """Wait until something has been taken from a queue."""
        if not self._was_taken():
            raise BackPressureTimeout(
                f"queues of {self._memory:,} bytes (the budget is {self._budget:,}) were full and nothing was "
                f"taken from them for {self._wait_limit_s:g} s; raise spark.reshape.queueMemory, allow spilling, "
                f"or look at the worker that does not advance"
            )

    def _was_taken(self) -> bool:
        """Wait until something has been taken from a queue; False if nothing was within the time limit."""
        taken = self._taken
        while True:
            pauses = self._pauses
            in_time = self._changed.wait_for(
                lambda: self._failure is not None or self._taken != taken,
                self._wait_limit_s,
            )
            self._check()
            # Time in which nobody was to take anything does not count.
            if in_time or not (self._paused or self._pauses != pauses):
                return in_time

    def take(self, worker: int, port: int, rows: int = 0) -> Item | None:
        """The next item of a port, its rows in memory again. Small ones that follow it are put together with it, as
        long as they are no more than so many rows."""
        with self._changed:
            queue = self._queues[worker]
            if not queue.items[port]:
                return None
            before = queue.memory
            items = queue.pop_run(port, rows)
            self._memory -= before - queue.memory
            self._taken += 1
            self._changed.notify_all()
        return joined(items)

    def put_back(self, worker: int, item: Item, rest: pa.RecordBatch) -> None:
        """Return the rows of an item that were not processed to the head of its queue."""
        unprocessed = item.with_rows(rest)
        with self._changed:
            queue = self._queues[worker]
            # The item may have come from disk, and each worker's head may be put back: that adds up.
            self._make_room(unprocessed.bytes, queue.items[item.port], may_wait=False)
            queue.append_left(unprocessed)
            self._count(unprocessed.bytes)
            self._notify()

    def waiting(self, worker: int) -> list[int]:
        """Rows that wait, per port, those held back for state included."""
        with self._changed:
            rows = list(self._queues[worker].rows)
            for hold in self._holds:
                if hold.worker == worker:
                    rows[hold.port] += hold.waiting.rows[0]
            return rows

    def wait_for_room(self, workers: Sequence[int], port: int, rows: int) -> None:
        """Return when fewer than so many rows wait at a port of these workers; for a sender that need not hurry.

        Workers that take nothing for as long as the time limit may only be slow: the next rows are then put, or
        refused, as those of anybody else.
        """
        with self._changed:
            self._check()
            while sum(self._queues[worker].rows[port] for worker in workers) >= rows and self._was_taken():
                pass

    def wait_for_rows(self, timeout_s: float) -> None:
        """Return when rows have come or somebody has called ``wake`` since this last returned, or after the time."""
        with self._changed:
            self._changed.wait_for(lambda: self._news, timeout_s)
            self._news = False

    def wake(self) -> None:
        with self._changed:
            self._notify()

    def fail(self, error: BaseException) -> None:
        """Let everybody who waits go, with this error."""
        with self._changed:
            self._failure = self._failure or error
            self._notify()

    @property
    def memory(self) -> int:
        return self._memory

    @property
    def on_disk(self) -> int:
        """Bytes of rows that wait on disk."""
        return 0 if self._space is None else self._space.held_bytes

    def _check(self) -> None:
        if self._failure is not None:
            raise HostClosed(f"this host has failed: {self._failure}") from self._failure

    def _count(self, size: int) -> None:
        self._memory += size
        self.most_memory = max(self.most_memory, self._memory)

    def _notify(self) -> None:
        self._news = True
        self._changed.notify_all()
