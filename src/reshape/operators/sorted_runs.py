"""State of whole rows in sorted runs (Table 1): sorted when enough of them have come, merged when all have.

Runs of helpers are merged like one's own (§5.4): what they have sorted needs no sorting again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from reshape.kernels.columns import Indices, Rows
from reshape.kernels.hashing import U64
from reshape.kernels.ordering import Ordering
from reshape.kernels.sort_keys import sorted_order
from reshape.operators.base import KeySet, bounded

# Rows of a run. A run is sorted in some 15 ms, so control messages do not wait for it; 4 M rows make 16 runs, which
# merge at three times the speed of sorting them afresh.
RUN_ROWS = 262_144


class SortedRuns:
    """Rows of one schema. Without an ordering they stay as they come."""

    def __init__(self, schema: pa.Schema, ordering: Ordering | None, run_rows: int = RUN_ROWS) -> None:
        self._schema = schema
        self._ordering = ordering
        self._run_rows = run_rows
        self._runs: list[pa.RecordBatch] = []
        self._arriving: list[pa.RecordBatch] = []
        self._arriving_rows = 0
        self._merged: tuple[Rows, Indices | None] | None = None
        self.nbytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows in any order."""
        if batch.num_rows:
            self._arriving.append(batch)
            self._arriving_rows += batch.num_rows
            self.nbytes += batch.nbytes
            if self._arriving_rows >= self._run_rows:
                self._close_run()

    def add_run(self, batch: pa.RecordBatch) -> None:
        """Rows in order."""
        if batch.num_rows:
            self._runs.append(batch)
            self.nbytes += batch.nbytes

    def merged(self) -> tuple[Rows, Indices | None]:
        """All rows, of which there will be no more, and their order; None where they are in order as they are."""
        if self._merged is None:
            self._close_run()
            rows, merging = Rows.of(self._schema, self._runs), len(self._runs) > 1
            # The block replaces the runs it was made of; both together would be twice the memory.
            self._runs = []
            self._merged = rows, self._order(rows) if merging else None
        return self._merged

    def export(
        self, keys: KeySet | None, hashes: Callable[[pa.RecordBatch], U64], remove: bool, rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Runs with the rows of these keys, in slices of at most so many rows; ``hashes`` are those of rows' keys."""
        self._close_run()
        exported, kept = [], []
        for run in self._runs:
            if keys is None:
                exported.append(run)
                continue
            chosen = keys.holds(hashes(run))
            exported.append(run.filter(pa.array(chosen)))
            if remove:
                kept.append(run.filter(pa.array(~chosen)))
        if remove:
            self._runs = [run for run in kept if run.num_rows]
            self.nbytes = sum(run.nbytes for run in self._runs)
        return (part for run in exported for part in bounded(run, rows))

    def head(self, limit: int) -> pa.RecordBatch | None:
        """The first rows in order among those that have come."""
        if self._merged is not None:
            rows, order = self._merged
            return next(rows.batches(limit, None if order is None else order[:limit]), None)
        heads = [run.slice(0, limit) for run in self._runs]
        if not heads and not self._arriving:
            return None
        arrived = Rows.of(self._schema, [*heads, *self._arriving])
        order = self._order(arrived)
        return next(arrived.batches(limit, None if order is None else order[:limit]))

    def _close_run(self) -> None:
        if not self._arriving:
            return
        rows = Rows.of(self._schema, self._arriving)
        self._runs += rows.batches(len(rows), self._order(rows))
        self._arriving, self._arriving_rows = [], 0

    def _order(self, rows: Rows) -> Indices | None:
        """None where rows are in order as they are."""
        if self._ordering is None:
            return None
        order = sorted_order([rows.columns[column] for column in self._ordering.columns], self._ordering)
        return order if (order[1:] < order[:-1]).any() else None
