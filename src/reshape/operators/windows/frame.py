"""Frames of windows: which rows of its partition a row looks at, and where these begin and end.

A bound is None (unbounded) or a distance from the current row: negative before it, 0 for the row itself. In a range
frame 0 means all rows that are equal in the order (peers), and other distances are of values in the one column that
orders the rows: whole numbers, days of dates, microseconds of timestamps, or floats.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from reshape.kernels.columns import Indices
from reshape.kernels.hashing import Mask, fixed_words, validity
from reshape.kernels.keys import KeyColumns
from reshape.kernels.ordering import SortKey
from reshape.kernels.segments import Around, Segments, running, searched
from reshape.kernels.sort_keys import order_codes
from reshape.operators.errors import OutOfRange


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows from `lower` to `upper`, both included."""

    unit: Literal["rows", "range"] = "rows"
    lower: int | float | None = None
    upper: int | float | None = None

    def __str__(self) -> str:
        if self.lower is None and self.upper is None:
            return "the partition"
        return f"{self.unit} {_shown(self.lower, 'preceding')} to {_shown(self.upper, 'following')}"

    @property
    def reach(self) -> int | None:
        """How far from a row its frame goes, beside its peers and what can be carried along: the rows before it, all of
        them. None where that is not known before."""
        if self.lower is None or self.unit == "range":
            return 0 if self.lower in (None, 0) and self.upper == 0 else None
        return None if self.upper is None else int(max(abs(self.lower), abs(self.upper)))


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
    """Rows of whole partitions, in order: where partitions begin, and peers in them.

    ``values`` is the one column that orders the rows, for frames that measure distances in it.
    """

    def __init__(self, partitions: Segments, peers: Segments, values: OrderedValues | None = None) -> None:
        self.partitions = partitions
        self.peers = peers
        self.size = partitions.size
        self._values = values
        self._frames: dict[Frame, FrameRows] = {}
        self._codes: dict[int, Indices] = {}

    @classmethod
    def of(
        cls, keys: Sequence[pa.Array], order: Sequence[pa.Array], directions: Sequence[SortKey], size: int
    ) -> Windows:
        """The windows of rows that are sorted by these columns, of which the last ones have these directions."""
        rows = np.arange(size, dtype=np.int64)
        begins = changes(KeyColumns(keys, size), rows)
        partitions = Segments.of_changes(begins)
        if not order:
            return cls(partitions, partitions)
        peers = Segments.of_changes(begins | changes(KeyColumns(order, size), rows))
        values = OrderedValues(order[0], directions[0], partitions) if len(order) == 1 else None
        return cls(partitions, peers, values)

    @cached_property
    def row_numbers(self) -> Indices:
        """Rows of the partition up to this one, from 1."""
        return np.arange(1, self.size + 1, dtype=np.int64) - self.partitions.first

    @cached_property
    def peer_numbers(self) -> Indices:
        """Groups of peers in the partition up to this row's, from 1."""
        return self.peers.ids - self.peers.ids[self.partitions.first] + 1

    def carries(self, frames: FrameRows) -> bool:
        """Do these frames hold rows that are not at hand, so that their values go on from those of a stretch before?"""
        return False

    def carried(self, what: Hashable) -> Any:
        """What the stretch before this one has left under this name; None for nothing."""
        return None

    def leave(self, what: Hashable, value: Any) -> None:
        """Something for the next stretch; of whole partitions nobody needs it."""

    def running(self, what: Hashable, function: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`function.accumulate` over each partition, in the order of rows. ``what`` tells these values from others."""
        return running(function, values, self.partitions)

    def sums(self, what: Hashable, values: npt.NDArray[np.int64], frames: FrameRows) -> npt.NDArray[np.int64]:
        """Sums of frames modulo 2**64, which are exact where they fit."""
        if self.carries(frames):
            so_far: npt.NDArray[np.int64] = self.running(what, np.add, values)[frames.end - 1]
            return so_far
        before = np.zeros(len(values) + 1, dtype=np.int64)
        np.cumsum(values, out=before[1:])
        sums: npt.NDArray[np.int64] = before[frames.end] - before[frames.first]
        return sums

    def rows_of(self, frame: Frame) -> FrameRows:
        """The frame of each row; functions of one window have mostly the same."""
        if frame not in self._frames:
            self._frames[frame] = self._found(frame)
        return self._frames[frame]

    def codes_of(self, number: int, column: pa.Array) -> Indices:
        """The order codes of a column of these rows; ``min`` and ``max`` are mostly asked for together."""
        if number not in self._codes:
            self._codes[number] = order_codes(column)
        return self._codes[number]

    def _found(self, frame: Frame) -> FrameRows:
        partitions = self.partitions
        first = partitions.first if frame.lower is None else self._bound(frame.unit, frame.lower, is_lower=True)
        end = partitions.end if frame.upper is None else self._bound(frame.unit, frame.upper, is_lower=False)
        return FrameRows(first, np.maximum(end, first), frame.lower is None)

    def _bound(self, unit: str, distance: float, *, is_lower: bool) -> Indices:
        if unit == "range":
            peers = self.peers.first if is_lower else self.peers.end
            if distance == 0:
                return peers
            assert self._values is not None, "a distance of values needs one column that orders the rows"
            return np.where(self._values.present, self._values.bounds(distance, is_lower=is_lower), peers)
        # Larger distances than there are rows would wrap around.
        rows = np.arange(self.size, dtype=np.int64) + max(-self.size, min(self.size, int(distance)))
        # No row beyond those at hand is asked for; a stretch's own rows have all of their frames there.
        first, end = np.maximum(self.partitions.first, 0), np.minimum(self.partitions.end, self.size)
        return np.clip(rows if is_lower else rows + 1, first, end)


class Stretch(Windows):
    """Some rows of one partition that is computed bit by bit; no two peers are in different stretches.

    ``before`` has what the stretch before has left, ``after`` gets what is left to the next one. Two of them, because
    a value may be asked for twice.
    """

    def __init__(
        self, partition: Around, peers: Segments, before: Mapping[Hashable, Any], after: dict[Hashable, Any]
    ) -> None:
        super().__init__(partition, peers)
        self._before = before
        self._after = after

    @cached_property
    def peer_numbers(self) -> Indices:
        groups: int = self._before.get("groups of peers", 0)
        self._after["groups of peers"] = groups + len(self.peers)
        return self.peers.ids + (groups + 1)

    def carries(self, frames: FrameRows) -> bool:
        return frames.from_start

    def carried(self, what: Hashable) -> Any:
        return self._before.get(what)

    def leave(self, what: Hashable, value: Any) -> None:
        self._after[what] = value

    def running(self, what: Hashable, function: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        last = self._before.get(what)
        if last is not None:
            values = values.copy()
            values[:1] = function(last, values[:1])
        result: npt.NDArray[Any] = function.accumulate(values)
        # A copy, which does not keep the others in memory.
        self._after[what] = result[-1:].copy()
        return result


class OrderedValues:
    """The column that orders the rows. Nulls are at one end of a partition and have only each other for a frame."""

    def __init__(self, column: pa.Array, key: SortKey, partitions: Segments) -> None:
        self._column = column
        self._key = key
        self._partitions = partitions

    @cached_property
    def present(self) -> Mask:
        valid = validity(self._column)
        return np.ones(len(self._column), dtype=np.bool_) if valid is None else valid

    def bounds(self, distance: float, *, is_lower: bool) -> Indices:
        """Where the frame of each row begins or ends, for rows that have a value."""
        partitions = self._partitions
        absent = np.zeros(len(self.present) + 1, dtype=np.int64)
        np.cumsum(~self.present, out=absent[1:])
        nulls = absent[partitions.end] - absent[partitions.first]
        first = partitions.first + nulls if self._key.nulls_first else partitions.first
        end = partitions.end if self._key.nulls_first else partitions.end - nulls
        codes = order_codes(self._column)
        wanted = order_codes(self._moved(distance if self._key.ascending else -distance))
        if not self._key.ascending:
            codes, wanted = ~codes, ~wanted
        return searched(codes, wanted, first, np.maximum(first, end), behind=not is_lower)

    def _moved(self, distance: float) -> pa.Array:
        """Values so far away; beyond the type of the column is an error, as it is for Spark."""
        column = self._column
        if pat.is_floating(column.type):
            floats = column.fill_null(0.0).to_numpy(zero_copy_only=False)
            return pa.array(floats + floats.dtype.type(distance))
        words = fixed_words(column)
        assert words is not None
        values = np.where(self.present, words[0].view(np.int64), 0)
        most = (1 << (column.type.bit_width - 1)) - 1
        low, high = int(values.min(initial=0)) + int(distance), int(values.max(initial=0)) + int(distance)
        if low < ~most or high > most:
            raise OutOfRange("window", "a distance", f"of its order by {distance}", str(column.type))
        return pa.array(values + np.int64(distance))


def changes(columns: KeyColumns, order: Indices) -> Mask:
    """Whether each row of the order has other values than the one before; so has the first."""
    begins = np.ones(len(order), dtype=np.bool_)
    np.logical_not(columns.equal(order[1:], columns, order[:-1]), out=begins[1:])
    return begins


def _shown(bound: float | None, side: str) -> str:
    if bound is None:
        return f"unbounded {side}"
    return "current row" if bound == 0 else f"{abs(bound)} {'preceding' if bound < 0 else 'following'}"
