"""Queues of waiting rows, one per worker, within one memory budget per host.

Beyond the budget the newest rows of the longest queue go to disk; without a disk to use, senders wait. Rows that a host
sends to itself are always taken: the thread that would wait is the one that has to drain the queue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from reshape.exchange.errors import BackPressureTimeout, ExchangeError
from reshape.exchange.spill import Segment, SpillSpace
from reshape.kernels.hashing import Mask

# What an item takes beside its values, measured: many small items would otherwise take several times the budget.
ITEM_BYTES = 256
COLUMN_BYTES = 512


@dataclass(slots=True, eq=False)
class Item:
    """Rows of one owner's partition that wait for a worker. ``batch`` is None while they are on disk."""

    port: int
    owner: int
    rows: int
    bytes: int
    combined: bool
    batch: pa.RecordBatch | None
    segment: Segment | None = None
    place: int = 0  # within the segment
    serial: int = 0  # grows from the head of a port to its tail

    def load(self) -> pa.RecordBatch:
        """The rows; those on disk leave it. Once only."""
        if self.batch is None:
            assert self.segment is not None
            self.batch = self.segment.read(self.place)
        return self.batch


class WorkerQueue:
    """First in, first out per port. Used by :class:`HostQueues` under its lock."""

    def __init__(self, ports: int) -> None:
        self.items: list[deque[Item]] = [deque() for _ in range(ports)]
        self.memory = 0
        self.rows = [0] * ports
        self._resident: list[deque[Item]] = [deque() for _ in range(ports)]  # those of the items that are in memory
        self._segments: list[Segment | None] = [None] * ports
        self._last_written = [-1] * ports  # the serial number of the last item on disk
        self._serial = 0

    def append(self, item: Item) -> None:
        self._serial += 1
        item.serial = self._serial
        self.items[item.port].append(item)
        self._resident[item.port].append(item)
        self.memory += item.bytes
        self.rows[item.port] += item.rows

    def append_left(self, item: Item) -> None:
        self.items[item.port].appendleft(item)
        self._resident[item.port].appendleft(item)
        self.memory += item.bytes
        self.rows[item.port] += item.rows

    def pop_left(self, port: int) -> Item:
        item = self.items[port][0]
        if item.batch is None:
            item.load()
        else:
            self._resident[port].popleft()
            self.memory -= item.bytes
        self.items[port].popleft()
        self.rows[port] -= item.rows
        return item

    def take_tail(self, port: int, owner: int, rows: int) -> list[Item]:
        """Up to so many rows of an owner, whole items and the last rows of one more, in the order of the queue."""
        items, taken, others = self.items[port], [], []
        while items and rows > 0:
            item = items.pop()
            if item.owner != owner:
                others.append(item)
                continue
            self.rows[port] -= item.rows
            if item.batch is not None:
                self.memory -= item.bytes
            if item.rows > rows:
                batch = item.load()
                self._keep(item, batch.slice(0, item.rows - rows), others)
                item = _changed(item, batch.slice(item.rows - rows))
            taken.append(item)
            rows -= item.rows
        items.extend(reversed(others))
        self._resident[port] = deque(item for item in items if item.batch is not None)
        taken.reverse()
        return taken

    def _keep(self, item: Item, rest: pa.RecordBatch, others: list[Item]) -> None:
        kept = _changed(item, rest)
        others.append(kept)
        self.rows[item.port] += kept.rows
        self.memory += kept.bytes

    @property
    def last_serial(self) -> int:
        return self._serial

    def spill_newest(self, space: SpillSpace, wanted: int) -> None:
        """Set so many bytes of memory free, if there are as many. A join's probe side, port 1, is needed last."""
        enough = self.memory - wanted
        for port in reversed(range(len(self.items))):
            if self.memory > enough and self._resident[port]:
                self._spill_port(space, port, self.memory - enough)

    def _spill_port(self, space: SpillSpace, port: int, wanted: int) -> None:
        resident, last = self._resident[port], self._last_written[port]
        older = resident[-1].serial <= last
        if older:
            # Rows behind these are on disk, so they need a file of their own; half of them at once, or files are many.
            wanted = max(wanted, sum(item.bytes for item in resident) // 2)
        newest: list[Item] = []
        while resident and wanted > 0 and (older or resident[-1].serial > last):
            newest.append(resident.pop())
            wanted -= newest[-1].bytes
        segment = None if older else self._segments[port]
        try:
            while newest:
                segment = self._write(space, segment, newest[-1])
                newest.pop()
                if not older:
                    self._segments[port] = segment
            if older and segment is not None:
                segment.finish()
        except ExchangeError:
            resident.extend(reversed(newest))
            if not older:
                self._segments[port] = None
            raise

    def _write(self, space: SpillSpace, segment: Segment | None, item: Item) -> Segment:
        assert item.batch is not None
        if segment is None or not segment.open_for_writing or segment.schema != item.batch.schema:
            if segment is not None:
                segment.finish()
            segment = Segment(space, item.batch.schema)
        item.place = segment.write(item.batch)
        self._last_written[item.port] = max(self._last_written[item.port], item.serial)
        item.batch, item.segment = None, segment
        self.memory -= item.bytes
        return segment


@dataclass(slots=True)
class Hold:
    """Rows that must wait for state: those sent under this routing version or later whose keys are ``among``.

    Keys that come back to a worker have several holds there; rows wait in the newest one that they are not too old for.
    """

    version: int
    among: Callable[[pa.RecordBatch, bool], Mask]  # rows, and whether they were combined
    waiting: WorkerQueue


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
        self._holds: dict[tuple[int, int, int], Hold] = {}  # by worker, port and transfer
        self.most_memory = 0

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
        size += _overhead(batch)
        with self._changed:
            queue = self._queues[worker]
            self._make_room(size, queue.items[port], may_wait)
            queue.append(Item(port, owner, batch.num_rows, size, combined, batch))
            self._count(size)
            self._tell()

    def _hold_back(
        self, worker: int, port: int, owner: int, batch: pa.RecordBatch, version: int, combined: bool
    ) -> pa.RecordBatch:
        """Set aside the rows that must wait for state; the others."""
        for key, hold in self._holds_of(worker, port):
            if version < hold.version or batch.num_rows == 0:
                continue
            among = hold.among(batch, combined)
            if not among.any():
                continue
            held = batch.filter(pa.array(among))
            size = held.nbytes + _overhead(held)
            with self._changed:
                if key not in self._holds:
                    continue  # released a moment ago: the rows may go on
                self._make_room(size, hold.waiting.items[0], may_wait=False)
                hold.waiting.append(Item(0, owner, held.num_rows, size, combined, held))
                self._count(size)
            batch = batch.filter(pa.array(~among))
        return batch

    def _holds_of(self, worker: int, port: int) -> list[tuple[tuple[int, int, int], Hold]]:
        """The newest first."""
        with self._changed:
            mine = [(key, hold) for key, hold in self._holds.items() if key[:2] == (worker, port)]
        return sorted(mine, key=lambda known: -known[1].version)

    def hold(
        self, worker: int, port: int, transfer: int, version: int, among: Callable[[pa.RecordBatch, bool], Mask]
    ) -> None:
        """Set rows that come from now on aside, until the transfer is released."""
        with self._changed:
            self._holds[worker, port, transfer] = Hold(version, among, WorkerQueue(1))

    def release(self, worker: int, port: int, transfer: int) -> None:
        """Let the rows that waited for a transfer go on, ahead of all that come later.

        Where an older hold is still there, they wait behind its rows.
        """
        with self._changed:
            hold = self._holds.pop((worker, port, transfer), None)
            if hold is None:
                return
            for item in self._unloaded(hold):
                rest = self._hold_back(worker, port, item.owner, item.load(), hold.version, item.combined)
                if rest.num_rows:
                    size = rest.nbytes + _overhead(rest)
                    self._queues[worker].append(Item(port, item.owner, rest.num_rows, size, item.combined, rest))
                    self._count(size)
            self._tell()

    def take_held(self, worker: int, port: int, transfer: int) -> tuple[int, list[Item]]:
        """End a hold whose state will not come: its version, and the rows, which are for the caller to pass on."""
        with self._changed:
            hold = self._holds.pop((worker, port, transfer), None)
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
                kept = [*self._queues, *(hold.waiting for hold in self._holds.values())]
                longest = max(kept, key=lambda queue: queue.memory)
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
        taken = self._taken
        if not self._changed.wait_for(
            lambda: self._failure is not None or self._taken != taken,
            self._wait_limit_s,
        ):
            raise BackPressureTimeout(
                f"queues of {self._memory:,} bytes (the budget is {self._budget:,}) were full and nothing was "
                f"taken from them for {self._wait_limit_s:g} s; raise spark.reshape.queueMemory, allow spilling, "
                f"or look at the worker that does not advance"
            )
        self._check()

    def take(self, worker: int, port: int) -> Item | None:
        """The next item of a port, its rows in memory again."""
        with self._changed:
            queue = self._queues[worker]
            if not queue.items[port]:
                return None
            before = queue.memory
            item = queue.pop_left(port)
            self._memory -= before - queue.memory
            self._taken += 1
            self._changed.notify_all()
            return item

    def put_back(self, worker: int, item: Item, rest: pa.RecordBatch) -> None:
        """Return the rows of an item that were not processed to the head of its queue."""
        size = rest.nbytes + _overhead(rest)
        with self._changed:
            queue = self._queues[worker]
            # The item may have come from disk, and each worker's head may be put back: that adds up.
            self._make_room(size, queue.items[item.port], may_wait=False)
            queue.append_left(_changed(item, rest))
            self._count(size)
            self._tell()

    def waiting(self, worker: int) -> list[int]:
        """Rows that wait, per port, those held back for state included."""
        with self._changed:
            rows = list(self._queues[worker].rows)
            for (holder, port, _), hold in self._holds.items():
                if holder == worker:
                    rows[port] += hold.waiting.rows[0]
            return rows

    def wait_for_room(self, workers: Sequence[int], port: int, rows: int) -> None:
        """Return when fewer than so many rows wait at a port of these workers; for a sender that need not hurry."""
        with self._changed:
            self._check()
            while sum(self._queues[worker].rows[port] for worker in workers) >= rows:
                self._await_taken()

    def wait_for_rows(self, timeout_s: float) -> None:
        """Return when rows have come or somebody has called ``wake`` since this last returned, or after the time."""
        with self._changed:
            self._changed.wait_for(lambda: self._news, timeout_s)
            self._news = False

    def wake(self) -> None:
        with self._changed:
            self._tell()

    def fail(self, error: BaseException) -> None:
        """Let everybody who waits go, with this error."""
        with self._changed:
            self._failure = self._failure or error
            self._tell()

    @property
    def memory(self) -> int:
        return self._memory

    def _check(self) -> None:
        if self._failure is not None:
            raise ExchangeError(f"this host has failed: {self._failure}") from self._failure

    def _count(self, size: int) -> None:
        self._memory += size
        self.most_memory = max(self.most_memory, self._memory)

    def _tell(self) -> None:
        self._news = True
        self._changed.notify_all()


def _changed(item: Item, rows: pa.RecordBatch) -> Item:
    """The same item with some of its rows."""
    return replace(item, rows=rows.num_rows, bytes=rows.nbytes + _overhead(rows), batch=rows, segment=None)


def _overhead(batch: pa.RecordBatch) -> int:
    return ITEM_BYTES + COLUMN_BYTES * len(batch.schema)
