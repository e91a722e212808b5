"""Rows of a group-by, combined at the sender as Spark does it: a partial row per group instead of its rows."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from reshape.control.routing import RoutingTable
from reshape.exchange.router import Router
from reshape.exchange.tally import RouterCounts
from reshape.operators.spec import Combiner

# A sender stops to combine when that leaves more than so many of its rows: it costs about as much as sending them.
WORTHWHILE = 0.7
# Rows that are combined at once. More rows have more groups in common: blocks grow while they at least halve.
BLOCK_ROWS = 65_536
MOST_BLOCK_ROWS = 4 * BLOCK_ROWS
BLOCK_BYTES = 32 << 20
TELLING_ROWS = 8_192
# Combined rows that are kept for more of their groups to come.
KEPT_ROWS = 65_536
# Combined rows leave so often: a result that is shown four times a second is none the older for it.
COMBINED_FLUSH_S = 0.1


class CombiningRouter:
    """Combines while that is worth it, and from then on sends rows as they are. Combined rows of several blocks are
    merged as long as that leaves fewer of them."""

    def __init__(
        self, combiner: Combiner, combined: Router, plain: Router, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Two routers of one sender: their counts are those of one."""
        self._combiner = combiner
        self._combined = combined
        self._plain = plain
        self._clock = clock
        self._flush_at = clock() + COMBINED_FLUSH_S
        self._block: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._block_rows = BLOCK_ROWS
        self._combining = True
        self._kept: list[pa.RecordBatch] = []
        self._kept_rows = 0
        self._merging = True
        self.unsent = 0  # rows that wait to be combined, or combined ones to be sent

    def use(self, table: RoutingTable) -> bool:
        """Use a table from the next batch on. What waits to be combined is sent under the one before."""
        self.flush()
        return all([self._combined.use(table), self._plain.use(table)])

    def counts(self) -> RouterCounts:
        """As :meth:`Router.counts`."""
        return self._combined.counts() + self._plain.counts()

    def route(self, batch: pa.RecordBatch) -> None:
        if not self._combining:
            self._plain.route(batch)
            return
        self._block.append(batch)
        self._rows += batch.num_rows
        self.unsent += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self._block_rows or self._bytes >= BLOCK_BYTES:
            self._combine()

    def tick(self) -> None:
        """Send what has waited long enough: rows at once, combined ones when their time has come."""
        now = self._clock()
        if now >= self._flush_at:
            self._flush_at = now + COMBINED_FLUSH_S
            self.flush()
        elif not self._combining:
            self._plain.flush()

    def flush(self) -> None:
        self._combine()
        self._merge()
        self._send_kept()
        self._combined.flush()
        self._plain.flush()

    def _combine(self) -> None:
        if not self._rows:
            return
        block, rows = self._block, self._rows
        self._block, self._rows, self._bytes = [], 0, 0
        made = self._combiner.combine(pa.concat_batches(block) if len(block) > 1 else block[0])
        self._kept.append(made)
        self._kept_rows += made.num_rows
        if rows >= TELLING_ROWS:  # a small block says little about a large one
            self._combining = made.num_rows <= WORTHWHILE * rows
            if 2 * made.num_rows <= rows:
                self._block_rows = min(2 * self._block_rows, MOST_BLOCK_ROWS)
        if self._kept_rows >= KEPT_ROWS:
            self._merge()
            # With as many left the next merge would come soon, and find little new.
            if 2 * self._kept_rows >= KEPT_ROWS:
                self._send_kept()
        if not self._merging or not self._combining:
            self._send_kept()

    def _merge(self) -> None:
        """One row for each group of those that are kept."""
        if len(self._kept) < 2 or not self._merging:
            return
        before = self._kept_rows
        merged = self._combiner.merge(self._kept)
        self._kept, self._kept_rows = [merged], merged.num_rows
        if before >= TELLING_ROWS:
            self._merging = merged.num_rows <= WORTHWHILE * before

    def _send_kept(self) -> None:
        kept, self._kept, self._kept_rows = self._kept, [], 0
        for batch in kept:
            self._combined.route(batch)
        self.unsent = self._rows
