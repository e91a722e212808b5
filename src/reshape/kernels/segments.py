"""Rows cut into segments that lie one behind the other: running values that begin anew with each of them, and values
over a frame of rows.

A partition of a window is a segment, and so are the rows of it that are equal in its order. There may be one segment of
millions of rows, or millions of segments of one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from reshape.kernels.columns import Indices
from reshape.kernels.hashing import Mask

# A segment of this size is gone through in about the time that a step of Python costs besides.
_ALONE = 512


class Segments:
    """Where each segment starts, the first at row 0."""

    def __init__(self, starts: Indices, size: int) -> None:
        self.starts = starts
        self.size = size

    @classmethod
    def of_changes(cls, begins: Mask) -> Segments:
        """Segments that begin where this is true; it is so for the first row, if there is one."""
        return cls(np.flatnonzero(begins), len(begins))

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def ends(self) -> Indices:
        """The row behind each segment."""
        return np.append(self.starts[1:], self.size)[: len(self.starts)]

    @cached_property
    def lengths(self) -> Indices:
        return self.ends - self.starts

    @cached_property
    def ids(self) -> Indices:
        """For each row the number of its segment."""
        return np.repeat(np.arange(len(self.starts), dtype=np.int64), self.lengths)

    @cached_property
    def first(self) -> Indices:
        """For each row the start of its segment."""
        return np.repeat(self.starts, self.lengths)

    @cached_property
    def end(self) -> Indices:
        """For each row the end of its segment."""
        return np.repeat(self.ends, self.lengths)

    @cached_property
    def sizes(self) -> Indices:
        """For each row the length of its segment."""
        return self.end - self.first

    def between(self, first: int, last: int) -> Segments:
        """The segments from one row to another; both are ends of segments."""
        begin, end = np.searchsorted(self.starts, [first, last])
        return Segments(self.starts[begin:end] - first, last - first)

    def pieces(self, rows: int) -> Iterator[tuple[int, int]]:
        """Ranges of whole segments with about so many rows; a segment that is much larger is a range of its own."""
        begin = 0
        while begin < self.size:
            place = int(np.searchsorted(self.starts, begin + rows))
            end = int(self.starts[place]) if place < len(self.starts) else self.size
            last = int(self.starts[place - 1])
            if end - begin > 2 * rows and last > begin:
                end = last
            yield begin, end
            begin = end


class Around(Segments):
    """The one segment that all rows at hand are in; it may begin before them and end behind them."""

    def __init__(self, first: int, end: int, size: int) -> None:
        super().__init__(np.array([first]), size)
        self._end = end

    @cached_property
    def ends(self) -> Indices:
        return np.array([self._end])

    @cached_property
    def ids(self) -> Indices:
        return np.zeros(self.size, dtype=np.int64)

    @cached_property
    def first(self) -> Indices:
        return np.full(self.size, self.starts[0])

    @cached_property
    def end(self) -> Indices:
        return np.full(self.size, self._end)


def running(function: np.ufunc, values: npt.NDArray[Any], segments: Segments) -> npt.NDArray[Any]:
    """`function.accumulate` over each segment, one row after the other: floats are added in the order of rows.

    Long segments are gone through one by one, short ones side by side.
    """
    result = np.empty_like(values)
    is_long = segments.lengths >= _ALONE
    for start, end in zip(segments.starts[is_long].tolist(), segments.ends[is_long].tolist(), strict=True):
        function.accumulate(values[start:end], out=result[start:end])
    short = np.flatnonzero(~is_long)
    order, counts = _longest_first(segments.lengths[short])
    starts = segments.starts[short[order]]
    so_far = values[starts]
    result[starts] = so_far
    for step, active in enumerate(counts[1:], start=1):
        places = starts[:active] + step
        so_far = function(so_far[:active], values[places])
        result[places] = so_far
    return result


def sums_in_order(values: npt.NDArray[np.float64], first: Indices, end: Indices) -> npt.NDArray[np.float64]:
    """The sums of rows first[i] to end[i] - 1, from 0.0 and in the order of rows. All rows of all frames are added."""
    order, counts = _longest_first(end - first)
    starts = first[order]
    so_far = np.zeros(len(first), dtype=np.float64)
    for step, active in enumerate(counts):
        so_far[:active] += values[starts[:active] + step]
    sums = np.empty_like(so_far)
    sums[order] = so_far
    return sums


def least_rows(codes: Indices, first: Indices, end: Indices) -> Indices:
    """The first row with the least code among rows first[i] to end[i] - 1, which are one at least.

    Blocks of 1, 2, 4, ... rows are looked at once each; a frame is two of them that overlap.
    """
    best = np.arange(len(codes), dtype=np.int64)
    found = np.empty(len(first), dtype=np.int64)
    lengths = end - first
    level = np.frexp(lengths.astype(np.float64))[1] - 1
    for power in range(int(level.max(initial=-1)) + 1):
        if power:
            half = 1 << (power - 1)
            best = _lesser(codes, best[:-half], best[half:])
        asked = np.flatnonzero(level == power)
        if len(asked):
            found[asked] = _lesser(codes, best[first[asked]], best[end[asked] - (1 << power)])
    return found


def _lesser(codes: Indices, left: Indices, right: Indices) -> Indices:
    """Of two rows the one with the lesser code; the left one, which comes first, when they are equal."""
    return np.where(codes[right] < codes[left], right, left)


def searched(codes: Indices, wanted: Indices, first: Indices, end: Indices, *, behind: bool) -> Indices:
    """For each of the wanted codes the first place from first[i] to end[i] whose code is not less; with ``behind`` the
    first whose code is greater. Codes are in order between these places."""
    low, high = first.copy(), end.copy()
    while (searching := low < high).any():
        middle = (low + high) >> 1
        met = codes[np.minimum(middle, len(codes) - 1)]
        is_right = searching & ((met <= wanted) if behind else (met < wanted))
        low = np.where(is_right, middle + 1, low)
        high = np.where(searching & ~is_right, middle, high)
    return low


def _longest_first(lengths: Indices) -> tuple[Indices, list[int]]:
    """The order of stretches by length, and for each step how many of them go on: always the foremost ones."""
    order = np.argsort(-lengths, kind="stable")
    steps = np.arange(int(lengths.max(initial=0)))
    return order, np.searchsorted(-lengths[order], -steps).tolist()
