"""Rows of the probe side of a join, and what may have to hold for a pair of rows beside equal keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices
from reshape.kernels.hashing import Mask


class PairCondition(Protocol):
    """A condition on a left row and a right row. Frozen data that travels to tasks."""

    @property
    def left(self) -> tuple[int, ...]:
        """The columns of the left side that it reads."""
        ...

    @property
    def right(self) -> tuple[int, ...]:
        """The columns of the right side that it reads."""
        ...

    def renumbered(self, left: Callable[[int], int], right: Callable[[int], int]) -> PairCondition:
        """The same where columns have other numbers."""
        ...

    def holds(self, columns: Sequence[pa.Array], rows: int) -> Mask:
        """For which pairs it is true; the left side's columns come first."""
        ...


class Probe:
    """Rows of a probe batch by number; None for all of them as they are, which most probes of a dimension give."""

    __slots__ = ("batch", "rows")

    def __init__(self, batch: pa.RecordBatch, rows: Indices | None) -> None:
        """Rows that were left out of a batch: as many as it has means that none were."""
        self.batch = batch
        self.rows = None if rows is None or len(rows) == batch.num_rows else rows

    @classmethod
    def only(cls, batch: pa.RecordBatch, rows: Indices) -> Probe:
        """These rows, in this order, also where they are all."""
        probe = cls(batch, None)
        probe.rows = rows
        return probe

    @property
    def numbers(self) -> Indices:
        return np.arange(self.batch.num_rows, dtype=np.int64) if self.rows is None else self.rows

    def __len__(self) -> int:
        return int(self.batch.num_rows) if self.rows is None else len(self.rows)

    def part(self, start: int, most: int) -> Probe:
        """Some rows, one behind the other."""
        if len(self) <= most:
            return self
        if self.rows is None:
            return Probe(self.batch.slice(start, most), None)
        return Probe(self.batch, self.rows[start : start + most])

    def repeated(self, first: int, times: Indices) -> Probe:
        """Each row from the first on as often as is said."""
        last = first + len(times)
        if int(times.max(initial=0)) == 1 and int(times.min(initial=1)) == 1:
            return self.part(first, len(times))
        rows = np.arange(first, last, dtype=np.int64) if self.rows is None else self.rows[first:last]
        repeated = Probe(self.batch, None)
        repeated.rows = np.repeat(rows, times)
        return repeated
