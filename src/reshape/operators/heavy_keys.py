"""Which keys are so heavy that several workers share them, and which worker has which of their rows.

All other keys have one owner, by their hash. The rows of a heavy key are cut into ranges of an order, one for each
worker: a sample of rows tells which keys those are, and where to cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.kernels.columns import Indices, Rows, concatenated, take
from reshape.kernels.hashing import U64, hash_rows
from reshape.kernels.keys import KeyColumns, check_keys
from reshape.kernels.ordering import Ordering
from reshape.kernels.segments import Segments
from reshape.kernels.sort_keys import range_ids
from reshape.operators.range_bounds import RangeBounds

# A key is heavy that has half of what a worker has on the average: whoever owned it would have half as much again.
_SHARE = 0.5
# Of fewer rows of a sample nothing can be said.
_LEAST_SAMPLED = 8
# Rows of all bounds together; they go to all tasks. Of more heavy keys than these allow, the heaviest are shared.
_MOST_BOUNDS = 4_096


def most_heavy_keys(workers: int) -> int:
    """No more keys than these can be heavy, of so many workers."""
    return int(workers / _SHARE)


@dataclass(frozen=True, eq=False)
class HeavyKeys:
    """``bounds`` has the columns of the ordering, of which the first ones, ``keyed`` in number, are those of the key.
    Bounds of one key lie side by side, in order. No rows: no key is heavy."""

    ordering: Ordering
    keyed: int
    bounds: pa.RecordBatch

    @classmethod
    def from_sample(cls, sample: pa.RecordBatch, ordering: Ordering, keyed: int, ranges: int) -> HeavyKeys:
        """Those of a sample of these columns. A key whose rows are all equal in the order stays with its owner."""
        check_keys("window", sample.schema, ordering.columns)
        columns = [sample.column(number) for number in ordering.columns]
        rows = Rows(pa.schema([sample.schema.field(number) for number in ordering.columns]), columns, sample.num_rows)
        codes, _ = KeyColumns(columns[:keyed], len(rows)).codes()
        counts = np.bincount(codes)
        least = max(_LEAST_SAMPLED, _SHARE * len(rows) / ranges)
        most = max(1, min(most_heavy_keys(ranges), _MOST_BOUNDS // ranges))
        by_weight = np.argsort(-counts, kind="stable")[:most]
        heavy = by_weight[counts[by_weight] >= least]
        of_keys = [
            RangeBounds.from_sample(sample.take(pa.array(np.flatnonzero(codes == key))), ordering, ranges).bounds
            for key in heavy.tolist()
        ]
        return cls(ordering, keyed, pa.concat_batches([*of_keys, rows.take_batch(np.zeros(0, dtype=np.int64))]))

    @property
    def keys(self) -> pa.RecordBatch:
        """One row for each heavy key."""
        return self.bounds.select(list(range(self.keyed))).take(pa.array(self._of_keys.starts))

    def spread(self, batch: pa.RecordBatch, owner: npt.NDArray[np.uint16], hashes: U64) -> npt.NDArray[np.uint16]:
        """The owner of each row, for those whose keys are not heavy the one given. ``hashes`` are those of keys."""
        if not len(self._of_keys):
            return owner
        spread = owner.copy()
        keys = KeyColumns([batch.column(number) for number in self.ordering.columns[: self.keyed]], batch.num_rows)
        heavy = KeyColumns(self.bounds.columns[: self.keyed], self.bounds.num_rows)
        for start, end, hashed in zip(
            self._of_keys.starts.tolist(), self._of_keys.ends.tolist(), self._hashes.tolist(), strict=True
        ):
            rows = np.flatnonzero(hashes == np.uint64(hashed))
            # Another key may have the same hash.
            rows = rows[keys.equal(rows, heavy, np.full(len(rows), start, dtype=np.int64))]
            if len(rows):
                spread[rows] = self._ranges(batch, rows, start, end)
        return spread

    def _ranges(self, batch: pa.RecordBatch, rows: Indices, start: int, end: int) -> Indices:
        """The range of each of these rows, whose key these bounds are of."""
        order = Ordering(self.ordering.keys[self.keyed :])
        wanted = pa.array(rows)
        # Encoded together, because only then can the digits be compared.
        columns: list[Any] = [
            concatenated([bound.slice(start, end - start), take(batch.column(number), wanted)], bound.type)
            for bound, number in zip(self.bounds.columns[self.keyed :], order.columns, strict=True)
        ]
        return range_ids(columns, order, end - start)

    @cached_property
    def _of_keys(self) -> Segments:
        """The bounds of each key."""
        size = self.bounds.num_rows
        keys = KeyColumns(self.bounds.columns[: self.keyed], size)
        begins = np.ones(size, dtype=np.bool_)
        rows = np.arange(size, dtype=np.int64)
        begins[1:] = ~keys.equal(rows[1:], keys, rows[:-1])
        return Segments.of_changes(begins)

    @cached_property
    def _hashes(self) -> U64:
        return hash_rows(self.keys.columns)
