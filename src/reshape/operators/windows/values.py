"""The value of another row: lag, lead, first_value, last_value and nth_value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices, concatenated, take
from reshape.kernels.hashing import validity
from reshape.operators.windows.description import OfFrame, WindowFunction, rows_or_null
from reshape.operators.windows.frame import WITH_PEERS, Frame, FrameRows, Windows


@dataclass(frozen=True, slots=True)
class Shifted(WindowFunction):
    """The value so many rows on (lead) or, if negative, back (lag), with `ignore_nulls` of those that have one.

    Rows that would look beyond their partition get a default: the `filler`, or their own value of a column.
    """

    column: int
    offset: int
    filler: Any = None
    filler_column: int | None = None
    ignore_nulls: bool = False

    @classmethod
    def examples(cls) -> tuple[WindowFunction, ...]:
        return (
            cls("lag", 1, -1),
            cls("lead", 1, 2, 5),
            cls("filled", 1, -1, None, 1),
            cls("lag of values", 1, -2, 7, ignore_nulls=True),
            cls("lead of values", 1, 1, ignore_nulls=True),
        )

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.column,) if self.filler_column is None else (self.column, self.filler_column)

    @property
    def reach(self) -> int | None:
        return None if self.ignore_nulls else abs(self.offset)

    def renumbered(self, number: Callable[[int], int]) -> Self:
        filler = None if self.filler_column is None else number(self.filler_column)
        return replace(self, column=number(self.column), filler_column=filler)

    def output_type(self, fields: Sequence[pa.Field]) -> pa.DataType:
        return fields[0].type

    def compute(self, windows: Windows, columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
        column = columns[0]
        rows = self._rows_with_values(windows, column) if self.ignore_nulls else self._rows(windows)
        if self.filler_column is None and self.filler is None:
            return rows_or_null(column, rows)
        kind = fields[0].type
        fillers = pa.array([self.filler], type=kind) if self.filler_column is None else columns[1]
        own = np.zeros_like(rows) if self.filler_column is None else np.arange(windows.size, dtype=np.int64)
        # One column behind the other: rows without a neighbour look there.
        rows = np.where(rows < 0, windows.size + own, rows)
        return take(concatenated([column, fillers], kind), pa.array(rows))

    def _rows(self, windows: Windows) -> Indices:
        distance = max(-windows.size, min(windows.size, self.offset))
        rows = np.arange(windows.size, dtype=np.int64) + distance
        first, end = np.maximum(windows.partitions.first, 0), np.minimum(windows.partitions.end, windows.size)
        inside = (rows >= first) & (rows < end)
        return np.where(inside, rows, -1)

    def _rows_with_values(self, windows: Windows, column: pa.Array) -> Indices:
        found = _Present(column)
        partitions = windows.partitions
        rows = np.arange(windows.size, dtype=np.int64)
        if self.offset > 0:
            return found.nth(rows + 1, partitions.end, self.offset)
        return found.nth(partitions.first, rows, self.offset)

    def text(self, names: Sequence[str]) -> str:
        call = f"{'lag' if self.offset < 0 else 'lead'}({names[0]}, {abs(self.offset)})"
        return f"{call} ignore nulls" if self.ignore_nulls else call


@dataclass(frozen=True, slots=True)
class NthValue(OfFrame):
    """The n-th value of the frame, from its end where n is negative: 1 is first_value, and -1 last_value."""

    n: int = 1
    ignore_nulls: bool = False

    @classmethod
    def examples(cls) -> tuple[WindowFunction, ...]:
        return tuple(
            cls(f"value {n} {ignore_nulls} {frame}", 1, frame, n, ignore_nulls)
            for n in (1, -1, 2)
            for ignore_nulls in (False, True)
            for frame in (WITH_PEERS, Frame("rows", -1, 2))
        )

    @property
    def reach(self) -> int | None:
        # From the end of all rows before, the last one alone is always at hand.
        far = self.n < -1 and self.frame.lower is None
        return None if self.ignore_nulls or far else self.frame.reach

    def output_type(self, fields: Sequence[pa.Field]) -> pa.DataType:
        return fields[0].type

    def compute(self, windows: Windows, columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
        frames = windows.rows_of(self.frame)
        if self.ignore_nulls:
            return rows_or_null(columns[0], _Present(columns[0]).nth(frames.first, frames.end, self.n))
        if self.n > 0 and windows.carries(frames):
            return self._so_far(windows, columns[0], frames)
        return rows_or_null(columns[0], self._rows(frames))

    def _so_far(self, windows: Windows, column: pa.Array, frames: FrameRows) -> pa.Array:
        """One row of the partition answers for all of a stretch; once it has come, it is carried along."""
        place = int(frames.first[0]) + self.n - 1
        if place < 0:
            value = windows.carried(self)
            windows.leave(self, value)
            return take(value, pa.array(np.zeros(windows.size, dtype=np.int64)))
        if place < windows.size:
            windows.leave(self, take(column, pa.array([place])))
        return rows_or_null(column, self._rows(frames))

    def _rows(self, frames: FrameRows) -> Indices:
        rows = frames.first + (self.n - 1) if self.n > 0 else frames.end + self.n
        return np.where((rows >= frames.first) & (rows < frames.end), rows, -1)

    def text(self, names: Sequence[str]) -> str:
        call = {1: f"first_value({names[0]})", -1: f"last_value({names[0]})"}.get(self.n)
        call = call or f"nth_value({names[0]}, {self.n})"
        return f"{call}{' ignore nulls' if self.ignore_nulls else ''} over {self.frame}"


class _Present:
    """The rows of a column that have a value, and how many of them are before each row."""

    def __init__(self, column: pa.Array) -> None:
        valid = validity(column)
        present = np.ones(len(column), dtype=np.bool_) if valid is None else valid
        self._rows = np.flatnonzero(present)
        self._before = np.zeros(len(column) + 1, dtype=np.int64)
        np.cumsum(present, out=self._before[1:])

    def nth(self, first: Indices, end: Indices, n: int) -> Indices:
        """The n-th row with a value from first[i] to end[i] - 1, from the end where n is negative; -1 for none."""
        begins, ends = self._before[first], self._before[end]
        places = begins + (n - 1) if n > 0 else ends + n
        found = (places >= begins) & (places < ends)
        rows = np.full(len(first), -1, dtype=np.int64)
        rows[found] = self._rows[places[found]]
        return rows
