"""The queue of one worker: waiting rows per input, the newest of them on disk where memory is short."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import pyarrow as pa

from reshape.exchange.errors import ExchangeError
from reshape.exchange.spill import Segment, SpillSpace

# What an item takes beside its values, measured: many small items would otherwise take several times the budget.
ITEM_BYTES = 256
COLUMN_BYTES = 512
# Items below this are put together before they are processed; larger ones are not worth a copy.
SMALL_ROWS = 16_384
# What is processed at once is no longer counted as waiting, so it must be little beside any budget.
RUN_BYTES = 8 << 20


def size_in_memory(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes) + ITEM_BYTES + COLUMN_BYTES * len(batch.schema)


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

    @classmethod
    def of(cls, port: int, owner: int, batch: pa.RecordBatch, *, combined: bool) -> Item:
        return cls(port, owner, batch.num_rows, size_in_memory(batch), combined, batch)

    def with_rows(self, rows: pa.RecordBatch) -> Item:
        """The same item with some of its rows."""
        return replace(self, rows=rows.num_rows, bytes=size_in_memory(rows), batch=rows, segment=None)

    @property
    def is_small(self) -> bool:
        """Whether a step for these rows alone would be mostly fixed cost."""
        return self.rows < SMALL_ROWS

    def joins(self, first: Item) -> bool:
        """Whether these rows may be processed together with those of an item before them."""
        return (
            self.is_small
            and self.batch is not None
            and (self.owner, self.combined) == (first.owner, first.combined)
            and first.batch is not None
            and self.batch.schema.equals(first.batch.schema)
        )

    def load(self) -> pa.RecordBatch:
        """The rows; those on disk leave it. Once only."""
        if self.batch is None:
            assert self.segment is not None
            self.batch = self.segment.read(self.place)
        return self.batch


def joined(items: list[Item]) -> Item:
    """One item of several, which have been taken: its rows are theirs in their order."""
    if len(items) == 1:
        return items[0]
    return items[0].with_rows(pa.concat_batches([item.load() for item in items]))


class WorkerQueue:
    """First in, first out per port. Used by `HostQueues` under its lock."""

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

    def pop_run(self, port: int, rows: int) -> list[Item]:
        """The first item and small ones behind it, of the same kind and in memory: so many rows at the most."""
        run = [self.pop_left(port)]
        first = run[0]
        rows, size = rows - first.rows, first.bytes
        items = self.items[port]
        while first.is_small and items and items[0].joins(first) and items[0].rows <= rows:
            size += items[0].bytes
            if size > RUN_BYTES:
                break
            rows -= items[0].rows
            run.append(self.pop_left(port))
        return run

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
                item = item.with_rows(batch.slice(item.rows - rows))
            taken.append(item)
            rows -= item.rows
        items.extend(reversed(others))
        self._resident[port] = deque(item for item in items if item.batch is not None)
        taken.reverse()
        return taken

    def _keep(self, item: Item, rest: pa.RecordBatch, others: list[Item]) -> None:
        kept = item.with_rows(rest)
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
