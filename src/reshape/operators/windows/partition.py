"""A large partition of a window, computed in stretches: rows by their places in its order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices, Rows, as_array, concatenated, take
from reshape.kernels.keys import KeyColumns
from reshape.kernels.segments import Segments
from reshape.operators.ranged import Beside
from reshape.operators.windows.frame import changes

# Rows that are looked at first for the end of peers; mostly there are none.
_LOOK_AHEAD = 64


@dataclass(frozen=True, slots=True)
class Partition:
    """Rows of one partition, by their places in the order: ``first`` to ``end`` - 1 are to be computed.

    The partition itself is from ``begin`` to ``stop`` - 1: others may have rows of it before and behind these. Those
    that are next to them are ``ahead``, at the places before ``first``, and ``behind``.
    """

    rows: Rows
    order: Indices | None
    first: int
    end: int
    begin: int
    stop: int
    ahead: pa.RecordBatch | None = None
    behind: pa.RecordBatch | None = None

    def columns(self, numbers: Iterable[int], first: int, end: int) -> dict[int, pa.Array]:
        """Some columns from one place to another."""
        numbers, low, high = list(numbers), self.first, self.end
        columns = in_order([self.rows.columns[n] for n in numbers], self.order, max(first, low), min(end, high))
        found = dict(zip(numbers, columns, strict=True))
        if first >= low and end <= high:
            return found
        parts: dict[int, list[pa.Array]] = {number: [column] for number, column in found.items()}
        for number in numbers:
            if first < low and self.ahead is not None:
                ahead = self.ahead.num_rows
                parts[number].insert(0, self.ahead.column(number).slice(ahead + first - low, min(end, low) - first))
            if end > high and self.behind is not None:
                parts[number].append(self.behind.column(number).slice(max(first - high, 0), end - max(first, high)))
        return {n: as_array(concatenated(parts[n], self.rows.schema.field(n).type)) for n in numbers}


@dataclass(frozen=True, slots=True)
class Computed:
    """A stretch of a partition: its columns, as far as they were asked for, the values of its functions, and what the
    next one goes on from."""

    first: int
    end: int
    columns: Mapping[int, pa.Array]
    made: list[pa.Array]
    after: Mapping[Hashable, Any]


@dataclass(slots=True)
class OwnRange:
    """A worker's range of a partition that others have ranges of too: from one place of its order to another, what it
    knows of the others, and its values, where these went on from what the range before has left."""

    begin: int
    end: int
    beside: Beside | None = None
    computed: list[Computed] | None = None

    def of(self, rows: Rows, order: Indices | None) -> Partition:
        """The partition as it is seen from here."""
        assert self.beside is not None
        start, total = self.begin - self.beside.start, self.beside.total
        ahead, behind = self.beside.ahead, self.beside.behind
        return Partition(rows, order, self.begin, self.end, start, start + total, ahead, behind)


def own_ranges(shared: KeyColumns, keys: KeyColumns, order: Indices | None, partitions: Segments) -> list[OwnRange]:
    """Where a worker has the rows of each of the shared keys; nowhere, where it has none. ``keys`` are those of all its
    rows, and ``partitions`` lie in their order."""
    firsts = partitions.starts if order is None else order[partitions.starts]
    found = []
    for number in range(shared.size):
        same = np.flatnonzero(keys.equal(firsts, shared, np.full(len(firsts), number, dtype=np.int64)))
        places = [(int(partitions.starts[at]), int(partitions.ends[at])) for at in same]
        found.append(OwnRange(*places[0]) if places else OwnRange(0, 0))
    return found


def in_order(columns: Sequence[Any], order: Indices | None, begin: int, end: int) -> list[pa.Array]:
    """Rows of the order from here to there."""
    if order is None:
        return [as_array(column.slice(begin, end - begin)) for column in columns]
    wanted = pa.array(order[begin:end])
    return [take(column, wanted) for column in columns]


def end_of_peers(columns: Sequence[Any], order: Indices | None, at: int, end: int) -> int:
    """The first place from here on where these columns have other values than at the place before."""
    rows = _LOOK_AHEAD
    while at < end:
        stop = min(end, at + rows)
        looked_at = KeyColumns(in_order(columns, order, at - 1, stop), stop - at + 1)
        begins = changes(looked_at, np.arange(stop - at + 1))[1:]
        if begins.any():
            return at + int(begins.argmax())
        at, rows = stop, 2 * rows
    return end
