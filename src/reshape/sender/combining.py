"""Rows of a group-by, combined at the sender as Spark does it: a partial row per group instead of its rows."""

from __future__ import annotations

import pyarrow as pa

from reshape.control.routing import RoutingTable
from reshape.exchange.router import Router
from reshape.exchange.tally import RouterCounts
from reshape.operators.spec import Combiner

# A sender stops to combine when that leaves more than so many of its rows: it costs about as much as sending them.
WORTHWHILE = 0.7
# Rows that are combined at once. More rows have more groups in common.
BLOCK_ROWS = 65_536
TELLING_ROWS = 8_192


class CombiningRouter:
    """Combines while that is worth it, and from then on sends rows as they are."""

    def __init__(self, combiner: Combiner, combined: Router, plain: Router) -> None:
        """Two routers of one sender: their counts are those of one."""
        self._combiner = combiner
        self._combined = combined
        self._plain = plain
        self._block: list[pa.RecordBatch] = []
        self._rows = 0
        self._combining = True

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
        if self._rows >= BLOCK_ROWS:
            self._combine()

    def flush(self) -> None:
        self._combine()
        self._combined.flush()
        self._plain.flush()

    def _combine(self) -> None:
        if not self._rows:
            return
        block, rows = self._block, self._rows
        self._block, self._rows = [], 0
        made = self._combiner.combine(pa.concat_batches(block) if len(block) > 1 else block[0])
        self._combined.route(made)
        # A small block says little about a large one.
        self._combining = rows < TELLING_ROWS or made.num_rows <= WORTHWHILE * rows
