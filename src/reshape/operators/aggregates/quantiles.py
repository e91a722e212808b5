"""Summaries of many numbers from which any of them can be told by its rank, at most so many ranks off.

Some of the values are kept, in order. Between them lie rows of which only their number is known. A summary says how
many rows are at or below a kept value, give or take, so summaries can be merged without losing more than they have lost
before: bounds add up, and so do the rows that they are measured by.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Summary:
    """Kept values, each once, in order. With ``counts`` summed up to it, a value has at least so many rows at or below
    it, and ``widths`` more at the most; any number between it and the one before has ``gaps`` more at the most than
    that one."""

    values: Doubles
    counts: Counts
    gaps: Counts
    widths: Counts

    @classmethod
    def exact(cls, values: Doubles, counts: Counts) -> Summary:
        """Of different values, in any order."""
        order, nothing = np.argsort(values, kind="stable"), np.zeros(len(values), dtype=np.int64)
        return cls(values[order], counts[order], nothing, nothing)

    @property
    def rows(self) -> int:
        return int(self.counts.sum())


def merged(parts: Sequence[Summary]) -> Summary:
    """Of the rows of all parts."""
    values = np.unique(np.concatenate([part.values for part in parts]))
    below, gaps, widths = (np.zeros(len(values), dtype=np.int64) for _ in range(3))
    for part in parts:
        at = np.searchsorted(part.values, values)
        inside = at < len(part.values)
        near = np.minimum(at, len(part.values) - 1)
        here = inside & ((part.values[near] == values) | (np.isnan(values) & np.isnan(part.values[near])))
        gap = np.where(inside, part.gaps[near], 0)
        below += np.concatenate([[0], np.cumsum(part.counts)])[at + here]
        gaps += gap
        widths += np.where(here, part.widths[near], gap)
    return Summary(values, np.diff(below, prepend=0), gaps, widths)


def compressed(summary: Summary, most: int) -> Summary:
    """With as few values as let no gap become larger than this; the least and the largest one stay."""
    upto = np.cumsum(summary.counts)
    before = upto - summary.counts
    most_before = before + summary.gaps  # rows below any number of the gap before a value
    most_upto = upto + summary.widths
    # A value may go with the one before it if all that is known of both still holds for the larger gap.
    reach = np.maximum(most_before, np.concatenate([[0], most_upto[:-1]]))
    limits = np.maximum.accumulate(reach).tolist()
    starts, ends, first = [0], [0], before.tolist()
    while ends[-1] + 1 < len(limits):
        start = ends[-1] + 1
        starts.append(start)
        ends.append(max(start, bisect_right(limits, first[start] + most, start) - 1))
    dropped = most_upto
    dropped[ends] = 0
    gaps = np.maximum.reduceat(np.maximum(most_before, dropped), starts) - before[starts]
    return Summary(summary.values[ends], np.diff(upto[ends], prepend=0), gaps, summary.widths[ends])
