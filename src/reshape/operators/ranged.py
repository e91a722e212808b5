"""Operators that share partitions: each worker has a range of their order, and must know of the others before it
finishes.

A range tells the others how many rows it has, and its first and last ones; it hears where it stands among all, and
which rows are next to it. What has to be computed in order goes from range to range: each goes on from what the one
before it has left.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from reshape.operators.base import Operator


@dataclass(frozen=True, slots=True)
class Edges:
    """What others must know of a range: its number of rows, and as many of the first and the last as they look at."""

    rows: int
    first: pa.RecordBatch
    last: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Beside:
    """Where a range stands: rows in those before it, rows in all, and those that are next to it on both sides."""

    start: int
    total: int
    ahead: pa.RecordBatch
    behind: pa.RecordBatch


class RangedOperator(Operator):
    """One that hears which partitions are shared when its input has ended, is asked for the edges of its range of each,
    and is told what is beside it, before `finish`. Of a partition that it is told nothing about it has all rows.
    """

    @abstractmethod
    def share(self, keys: pa.RecordBatch | None) -> int:
        """Partitions with these keys are shared, or, with None, the one of all rows; how many they are. In what follows
        they are known by number."""

    @abstractmethod
    def edges(self, partition: int) -> Edges:
        """What the others must know of this range."""

    @abstractmethod
    def meet(self, partition: int, beside: Beside) -> None:
        """This is where the range stands."""

    @abstractmethod
    def carry(self, partition: int, before: pa.RecordBatch | None) -> pa.RecordBatch:
        """Go on from what the range before has left, None for the first one; what the next one goes on from."""


def beside_each(ranges: Sequence[Edges], reach: int) -> list[Beside]:
    """Where each of all ranges, in their order, stands; with so many rows next to it, where there are as many."""
    total = sum(edges.rows for edges in ranges)
    behind = [ranges[0].first.slice(0, 0)]
    for edges in reversed(ranges[1:]):
        behind.append(pa.concat_batches([edges.first, behind[-1]]).slice(0, reach))
    stands, start, ahead = [], 0, ranges[0].last.slice(0, 0)
    for edges in ranges:
        stands.append(Beside(start, total, ahead, behind.pop()))
        start += edges.rows
        together = pa.concat_batches([ahead, edges.last])
        ahead = together.slice(max(0, together.num_rows - reach))
    return stands
