"""Which range a row belongs to: the partitioning of a sort.

Range i holds the keys above bound i - 1 up to and including bound i, so equal keys never part. What lies before the
first or after the last bound, and so outside the sample, belongs to the first or the last range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices, Rows, concatenated
from reshape.kernels.keys import KeyColumns, check_keys
from reshape.kernels.ordering import Ordering
from reshape.kernels.sort_keys import range_ids, sorted_order


@dataclass(frozen=True, eq=False)
class RangeBounds:
    """Bounds in order, all different: a batch of the key columns only, one row for each bound."""

    ordering: Ordering
    bounds: pa.RecordBatch

    @classmethod
    def from_sample(cls, sample: pa.RecordBatch, ordering: Ordering, ranges: int) -> RangeBounds:
        """Bounds that cut the sample into ranges of about equal size, as far as its keys allow it.

        A key that is more frequent than a range is large fills a range alone; the others share what is left.
        """
        check_keys("sort", sample.schema, ordering.columns)
        keys = Rows(
            pa.schema([sample.schema.field(i) for i in ordering.columns]),
            [sample.column(i) for i in ordering.columns],
            sample.num_rows,
        )
        order = sorted_order(keys.columns, ordering)
        compared = KeyColumns(keys.columns, len(keys))
        is_new = np.ones(len(order), dtype=np.bool_)
        is_new[1:] = ~compared.equal(order[1:], compared, order[:-1])
        distinct = order[is_new]
        # Rows of the sample up to and including each distinct key.
        reached = np.append(np.flatnonzero(is_new)[1:], len(order))
        return cls(ordering, keys.take_batch(distinct[_cuts(reached, ranges)]))

    @property
    def ranges(self) -> int:
        """How many ranges there are: at most as many as were asked for."""
        return int(self.bounds.num_rows) + 1

    def partition(self, batch: pa.RecordBatch) -> Indices:
        """The range of each row, from 0 to ranges - 1."""
        count = self.bounds.num_rows
        if not count:
            return np.zeros(batch.num_rows, dtype=np.int64)
        # Encoded together, because only then can the digits be compared.
        columns: list[Any] = [
            concatenated([bound, batch.column(number)], bound.type)
            for bound, number in zip(self.bounds.columns, self.ordering.columns, strict=True)
        ]
        return range_ids(columns, self.ordering, count)


def _cuts(reached: Indices, ranges: int) -> list[int]:
    """The distinct keys that end a range, given the rows reached with each. The last key ends none."""
    cuts: list[int] = []
    begun = 0  # rows that closed ranges hold
    for closed in range(ranges - 1):
        first = cuts[-1] + 1 if cuts else 0
        if first >= len(reached) - 1:
            break
        wanted = begun + (int(reached[-1]) - begun) / (ranges - closed)
        cut = max(int(np.searchsorted(reached, wanted)), first)
        # A frequent key may reach far beyond: the range ends before it if that is nearer to what is wanted.
        if cut > first and wanted - reached[cut - 1] < reached[cut] - wanted:
            cut -= 1
        cuts.append(min(cut, len(reached) - 2))
        begun = int(reached[cuts[-1]])
    return cuts
