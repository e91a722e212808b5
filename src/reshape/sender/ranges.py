"""Ranges of an order: bounds come from samples of rows, agreed upon by way of the driver.

A sort cuts all of its rows into ranges, a window with keys only those of keys that are too heavy for one owner.

A router keeps its rows until the bounds are there. Whoever reads the rows from files by itself samples all of them
beforehand; any other router offers a sample of its first rows. The driver takes the samples that there are by then and
answers all routers, and every later one, with the same bounds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from reshape.control.routing import RoutingTable
from reshape.errors import FlowFailed
from reshape.exchange.router import Hashes, Partitioner, Router, Workers
from reshape.exchange.tally import NO_COUNTS, RouterCounts
from reshape.kernels.hashing import hash_rows, owners
from reshape.kernels.ordering import Ordering
from reshape.protocol.link import LOST_AFTER_S

if TYPE_CHECKING:
    from reshape.operators.heavy_keys import HeavyKeys
    from reshape.operators.range_bounds import RangeBounds

# Enough for bounds within some percent of even ranges; a few kilobytes on the control line.
SAMPLE_ROWS = 2_000
# The driver makes bounds at once, unless it is busy with something else.
BOUNDS_WAIT_S = LOST_AFTER_S


class RangePartitioner:
    """Owner by place in the order. Keys are hashed only while somebody chooses among them."""

    def __init__(self, bounds: RangeBounds, columns: tuple[int, ...]) -> None:
        self._bounds = bounds
        self._columns = columns
        self.hashing = False

    def partition(self, batch: pa.RecordBatch) -> tuple[Workers, Hashes | None]:
        owner = self._bounds.partition(batch).astype(np.uint16)
        return owner, hash_rows([batch.column(column) for column in self._columns]) if self.hashing else None


class HeavyKeyPartitioner:
    """Owner by the hash of a key, and for heavy keys by place in the order. Who chooses among keys chooses among all
    that the order knows: so each of them has one owner."""

    def __init__(self, heavy: HeavyKeys, keys: tuple[int, ...], workers: int) -> None:
        self._heavy = heavy
        self._keys = keys
        self._workers = workers
        self.hashing = False

    def partition(self, batch: pa.RecordBatch) -> tuple[Workers, Hashes | None]:
        hashes = hash_rows([batch.column(column) for column in self._keys])
        owner = self._heavy.spread(batch, owners(hashes, self._workers), hashes)
        columns = self._heavy.ordering.columns
        return owner, hash_rows([batch.column(column) for column in columns]) if self.hashing else None


def sample_of(batch: pa.RecordBatch, ordering: Ordering) -> pa.RecordBatch:
    """Key columns of evenly spaced rows."""
    step = max(1, batch.num_rows // SAMPLE_ROWS)
    keys = batch.select(list(ordering.columns))
    return keys.take(pa.array(np.arange(0, batch.num_rows, step)[:SAMPLE_ROWS]))


class RangeRouter:
    """A router that waits for its bounds, which may be set from another thread. With ``keys`` they are those of heavy
    keys, and all others have their owner among so many ``workers`` by hash."""

    def __init__(
        self,
        ordering: Ordering,
        make: Callable[[Partitioner], Router],
        offer: Callable[[pa.RecordBatch], None],
        keys: tuple[int, ...] = (),
        workers: int = 1,
    ) -> None:
        self._ordering = ordering
        self._keys = keys
        self._workers = workers
        self._make = make
        self._offer = offer
        self._kept: list[pa.RecordBatch] = []
        self._router: Router | None = None
        self._known = threading.Event()
        self._bounds: pa.RecordBatch | None = None
        self._given_up: str | None = None
        self._offered = False
        self._table: RoutingTable | None = None
        self._partitioner: RangePartitioner | HeavyKeyPartitioner | None = None

    def set_bounds(self, bounds: pa.RecordBatch) -> None:
        self._bounds = bounds
        self._known.set()

    def give_up(self, cause: str) -> None:
        """The flow has ended: nobody will set bounds."""
        self._given_up = cause
        self._known.set()

    def use(self, table: RoutingTable) -> bool:
        """Use a table from the next batch on; one that comes before the bounds waits with the rows."""
        self._table = table
        if self._router is None or self._partitioner is None:
            return True
        self._partitioner.hashing = bool(table.keys or table.buckets) or self._router.tally is not None
        return self._router.use(table)

    def counts(self) -> RouterCounts:
        """As :meth:`Router.counts`."""
        return self._router.counts() if self._router is not None else NO_COUNTS

    def offer(self, keys: pa.RecordBatch) -> None:
        """Give the driver key columns of some rows. When there are none it hears so, and first rows follow later."""
        self._offered = keys.num_rows > 0
        self._offer(keys)

    def route(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        if not self._offered and self._bounds is None:
            self.offer(sample_of(batch, self._ordering))
        self._kept.append(batch)
        if self._bounds is not None:
            self._drain()

    def tick(self) -> None:
        """As :meth:`Router.tick`."""
        self.flush()

    def flush(self) -> None:
        """Send what can be sent."""
        if self._bounds is not None:
            self._drain().flush()

    def await_bounds(self) -> None:
        """Return when what is kept can be sent."""
        if self._kept and not self._known.wait(BOUNDS_WAIT_S):
            raise FlowFailed("a sort", f"no range bounds came from the driver within {BOUNDS_WAIT_S:.0f} s")
        if self._given_up is not None:
            raise FlowFailed("another task", self._given_up)

    @property
    def waiting(self) -> bool:
        """Are rows kept back?"""
        return bool(self._kept)

    @property
    def unsent(self) -> int:
        return sum(batch.num_rows for batch in self._kept)

    def _drain(self) -> Router:
        if self._router is None:
            assert self._bounds is not None
            self._partitioner = self._partitioned_by(self._bounds)
            self._router = self._make(self._partitioner)
            self._partitioner.hashing = self._router.tally is not None
            if self._table is not None:
                self.use(self._table)
        kept, self._kept = self._kept, []
        for batch in kept:
            self._router.route(batch)
        return self._router

    def _partitioned_by(self, bounds: pa.RecordBatch) -> RangePartitioner | HeavyKeyPartitioner:
        # Imported late: senders of other edges are spared pandas, half of a task's start-up time.
        if self._keys:
            from reshape.operators.heavy_keys import HeavyKeys

            heavy = HeavyKeys(self._ordering, len(self._keys), bounds)
            return HeavyKeyPartitioner(heavy, self._keys, self._workers)
        from reshape.operators.range_bounds import RangeBounds

        return RangePartitioner(RangeBounds(self._ordering, bounds), self._ordering.columns)


def agree(samples: list[pa.RecordBatch], ordering: Ordering, ranges: int, keys: tuple[int, ...] = ()) -> pa.RecordBatch:
    """Bounds from samples of the columns of an ordering; with ``keys``, at its front, those of heavy keys."""
    from reshape.operators.heavy_keys import HeavyKeys
    from reshape.operators.range_bounds import RangeBounds

    of_sample = Ordering(
        tuple(type(key)(index, key.ascending, key.nulls_first) for index, key in enumerate(ordering.keys))
    )
    together = pa.concat_batches(samples)
    if keys:
        return HeavyKeys.from_sample(together, of_sample, len(keys), ranges).bounds
    return RangeBounds.from_sample(together, of_sample, ranges).bounds
