"""The row with the smallest or largest value of each group, by Spark's order, whatever the type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices
from reshape.kernels.ordering import Ordering, SortKey
from reshape.kernels.sort_keys import digits_of
from reshape.operators.aggregates.base import Groups


def best_rows(values: pa.Array, groups: Groups, *, largest: bool) -> Indices:
    """One of the best rows of each group, -1 where it has none. The values must not be null.

    A digit after the other decides, each for the rows that are still among the best; one is often enough.
    """
    ordering = Ordering((SortKey(0, ascending=not largest, nulls_first=not largest),))
    rows = np.arange(len(values), dtype=np.int64)
    codes = groups.codes
    for digit in digits_of([values], ordering):
        if len(rows) <= groups.count and len(np.unique(codes)) == len(rows):
            break
        found = digit(rows)
        least = np.full(groups.count, np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(least, codes, found)
        among = found == least[codes]
        rows, codes = rows[among], codes[among]
    best = np.full(groups.count, -1, dtype=np.int64)
    best[codes[::-1]] = rows[::-1]
    return best
