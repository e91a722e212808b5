"""Frames of windows: which rows of its partition a row looks at, and where these begin and end.

A bound is None (unbounded) or a distance from the current row: negative before it, 0 for the row itself. In a range
frame 0 means all rows that are equal in the order (peers), and other distances are of values, not of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices
from reshape.kernels.keys import KeyColumns
from reshape.kernels.segments import Segments


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows from `lower` to `upper`, both included."""

    unit: Literal["rows", "range"] = "rows"
    lower: int | None = None
    upper: int | None = None

    def __str__(self) -> str:
        if self.lower is None and self.upper is None:
            return "the partition"
        return f"{self.unit} {_shown(self.lower, 'preceding')} to {_shown(self.upper, 'following')}"


WHOLE = Frame()
SO_FAR = Frame("rows", None, 0)
WITH_PEERS = Frame("range", None, 0)


@dataclass(frozen=True, slots=True)
class FrameRows:
    """For each row its frame, from `first` to `end` - 1; empty where these are equal.

    ``from_start``: every frame begins with its partition, so that running values answer for it.
    """

    first: Indices
    end: Indices
    from_start: bool


class Windows:
    """Rows of whole partitions, in order: where partitions begin, and peers in them."""

    def __init__(self, partitions: Segments, peers: Segments) -> None:
        self.partitions = partitions
        self.peers = peers
        self.size = partitions.size
        # Functions of one window have mostly the same frame.
        self.rows_of = cache(self._rows_of)

    @classmethod
    def of(cls, keys: Sequence[pa.Array], order: Sequence[pa.Array], size: int) -> Windows:
        """The windows of rows that are sorted by these columns."""
        begins = changes(KeyColumns(keys, size), np.arange(size, dtype=np.int64))
        partitions = Segments.of_changes(begins)
        if not order:
            return cls(partitions, partitions)
        differ = changes(KeyColumns(order, size), np.arange(size, dtype=np.int64))
        return cls(partitions, Segments.of_changes(begins | differ))

    @cached_property
    def row_numbers(self) -> Indices:
        """Rows of the partition up to this one, from 1."""
        return np.arange(1, self.size + 1, dtype=np.int64) - self.partitions.first

    def _rows_of(self, frame: Frame) -> FrameRows:
        partitions = self.partitions
        first = partitions.first if frame.lower is None else self._bound(frame, frame.lower, is_lower=True)
        end = partitions.end if frame.upper is None else self._bound(frame, frame.upper, is_lower=False)
        return FrameRows(first, np.maximum(end, first), frame.lower is None)

    def _bound(self, frame: Frame, distance: int, *, is_lower: bool) -> Indices:
        if frame.unit == "range":
            assert distance == 0, "the reader of Spark's frames refuses distances of values"
            return self.peers.first if is_lower else self.peers.end
        # Larger distances than there are rows would wrap around.
        distance = max(-self.size, min(self.size, distance))
        rows = np.arange(self.size, dtype=np.int64) + (distance if is_lower else distance + 1)
        return np.clip(rows, self.partitions.first, self.partitions.end)


def changes(columns: KeyColumns, order: Indices) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether each row of the order has other values than the one before; so has the first."""
    begins = np.ones(len(order), dtype=np.bool_)
    np.logical_not(columns.equal(order[1:], columns, order[:-1]), out=begins[1:])
    return begins


def _shown(bound: int | None, side: str) -> str:
    if bound is None:
        return f"unbounded {side}"
    return "current row" if bound == 0 else f"{abs(bound)} {'preceding' if bound < 0 else 'following'}"
