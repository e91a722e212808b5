"""count, sum and avg over frames, with the types and rules of the group-by's.

Whole numbers are summed by differences of running sums, which is exact. Doubles are added in the order of rows, frame
by frame where a frame does not begin with its partition: a difference of two running sums would be another number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from reshape.kernels.columns import Indices
from reshape.kernels.hashing import Mask, fixed_words, validity
from reshape.kernels.segments import sums_in_order
from reshape.operators.aggregates.base import nullable
from reshape.operators.aggregates.sums import EvalMode, MeanOfDecimals, SumOfIntegers
from reshape.operators.errors import OutOfRange, UnsupportedAggregate
from reshape.operators.windows.decimal_sums import decimal_means, decimal_sums, means_by_doubles
from reshape.operators.windows.description import OPERATOR, OfFrame, WindowFunction
from reshape.operators.windows.frame import WITH_PEERS, Frame, FrameRows, Windows

Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

_OVERFLOW = 2**63


@dataclass(frozen=True, slots=True)
class Count(WindowFunction):
    """Values that are not null; without a column, rows."""

    column: int | None = None
    frame: Frame = WITH_PEERS

    @classmethod
    def examples(cls) -> tuple[WindowFunction, ...]:
        return (cls("rows"), cls("values", 1), cls("near values", 1, Frame("rows", -1, 3)))

    @property
    def reads(self) -> tuple[int, ...]:
        return () if self.column is None else (self.column,)

    @property
    def reach(self) -> int | None:
        return self.frame.reach

    @property
    def carries(self) -> bool:
        return self.frame.lower is None

    def renumbered(self, number: Callable[[int], int]) -> Self:
        return self if self.column is None else replace(self, column=number(self.column))

    def output_type(self, fields: Sequence[pa.Field]) -> pa.DataType:
        return pa.int64()

    def compute(self, windows: Windows, columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
        frames = windows.rows_of(self.frame)
        return pa.array(_counts(self, columns[0], frames, windows) if columns else frames.end - frames.first)

    def text(self, names: Sequence[str]) -> str:
        return f"count({names[0] if names else '*'}) over {self.frame}"


@dataclass(frozen=True, slots=True)
class Sum(OfFrame):
    """Integers give a long, decimal(p, s) gives decimal(min(38, p + 10), s), floats give a double."""

    mode: EvalMode = EvalMode.ANSI

    def output_type(self, fields: Sequence[pa.Field]) -> pa.DataType:
        kind = fields[0].type
        if pat.is_floating(kind) or pat.is_null(kind):
            return pa.float64()
        if pat.is_integer(kind) or pat.is_decimal(kind):
            return SumOfIntegers(fields[0], self.mode).output_type
        raise UnsupportedAggregate(OPERATOR, "sum", fields[0].name, str(kind))

    def compute(self, windows: Windows, columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
        frames, kind = windows.rows_of(self.frame), fields[0].type
        counts = _counts(self, columns[0], frames, windows)
        if pat.is_decimal(kind):
            logic = SumOfIntegers(fields[0], self.mode)
            return decimal_sums(self, columns[0], frames, windows, counts == 0, logic)
        if not pat.is_integer(kind):
            return nullable(_double_sums(self, columns[0], frames, windows), counts == 0, pa.float64())
        values = _longs(columns[0])
        sums = windows.sums((self, "sum"), values, frames)
        absent = counts == 0
        if self.mode != EvalMode.LEGACY and (beyond := _beyond_longs(self, values, frames, windows)) is not None:
            if self.mode == EvalMode.ANSI and beyond.any():
                raise OutOfRange(OPERATOR, "sum", fields[0].name, "bigint")
            absent = absent | beyond
        return nullable(sums, absent, pa.int64())


@dataclass(frozen=True, slots=True)
class Mean(OfFrame):
    """A double, or decimal(min(38, p + 4), min(38, s + 4)) of a decimal(p, s).

    ``by_doubles``: Spark computes the mean of a decimal of few digits with doubles, which may round differently.
    """

    mode: EvalMode = EvalMode.ANSI
    by_doubles: bool = False

    def output_type(self, fields: Sequence[pa.Field]) -> pa.DataType:
        kind = fields[0].type
        if pat.is_decimal(kind):
            return MeanOfDecimals(fields[0], self.mode).output_type
        if pat.is_integer(kind) or pat.is_floating(kind) or pat.is_null(kind):
            return pa.float64()
        raise UnsupportedAggregate(OPERATOR, "avg", fields[0].name, str(kind))

    def compute(self, windows: Windows, columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
        frames = windows.rows_of(self.frame)
        counts = _counts(self, columns[0], frames, windows)
        kind = self.output_type(fields)
        if pat.is_decimal(kind) and not self.by_doubles:
            logic = SumOfIntegers(fields[0], self.mode)
            sums = decimal_sums(self, columns[0], frames, windows, counts == 0, logic)
            return decimal_means(sums, counts, kind, self.mode, fields[0].name)
        means = _double_sums(self, columns[0], frames, windows) / np.maximum(counts, 1)
        if not pat.is_decimal(kind):
            return nullable(means, counts == 0, kind)
        return means_by_doubles(means / 10.0 ** fields[0].type.scale, counts == 0, kind)

    def text(self, names: Sequence[str]) -> str:
        return f"avg({names[0]}) over {self.frame}"


def _counts(function: WindowFunction, column: pa.Array, frames: FrameRows, windows: Windows) -> Indices:
    """Values in each frame."""
    valid = validity(column)
    if valid is not None:
        return windows.sums((function, "count"), valid.astype(np.int64), frames)
    if windows.carries(frames):  # there may be nulls in other stretches
        return windows.sums((function, "count"), np.ones(len(column), dtype=np.int64), frames)
    return frames.end - frames.first


def _longs(column: pa.Array) -> Longs:
    """Whole numbers, 0 for null."""
    words = fixed_words(column)
    assert words is not None
    values, valid = words[0].view(np.int64), validity(column)
    return values if valid is None else np.where(valid, values, 0)


def _double_sums(function: WindowFunction, column: pa.Array, frames: FrameRows, windows: Windows) -> Doubles:
    """Sums from 0.0 on, so that they are never -0.0, and adding 0.0 for a null changes nothing."""
    if pat.is_decimal(column.type):
        values = _longs(column).astype(np.float64)  # the digits without their point
    else:
        filled: pa.Array = column.cast(pa.float64(), safe=False)
        values = filled.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    with np.errstate(invalid="ignore", over="ignore"):  # infinity less infinity is no news
        if not frames.from_start:
            return sums_in_order(values, frames.first, frames.end)
        sums = windows.running((function, "sum"), np.add, values)
    return np.where(frames.end > frames.first, sums[frames.end - 1], 0.0)


def _beyond_longs(function: WindowFunction, values: Longs, frames: FrameRows, windows: Windows) -> Mask | None:
    """Frames in which a sum leaves 64 bits at some row, as Spark adds them one by one; None when it cannot happen."""
    largest = max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))
    longest = int((frames.end - frames.first).max(initial=0))
    if largest * longest < _OVERFLOW and not windows.carries(frames):
        return None
    if frames.from_start:
        sums = windows.running((function, "sum"), np.add, values)
        wrapped = _wrapped(sums - values, values, sums)
        at_some_row = windows.running((function, "beyond"), np.logical_or, wrapped)
        found: Mask = (frames.end > frames.first) & at_some_row[frames.end - 1]
        return found
    beyond = np.zeros(len(values), dtype=np.bool_)
    so_far = np.zeros(len(values), dtype=np.int64)
    rows = np.flatnonzero(frames.end > frames.first)
    for step in range(longest):
        added = values[frames.first[rows] + step]
        sums = so_far[rows] + added
        beyond[rows] |= _wrapped(so_far[rows], added, sums)
        so_far[rows] = sums
        rows = rows[frames.end[rows] - frames.first[rows] > step + 1]
    return beyond


def _wrapped(before: Longs, added: Longs, sums: Longs) -> Mask:
    """Whether an addition has left 64 bits: both numbers have one sign, and their sum the other."""
    return ((before ^ sums) & (added ^ sums)) < 0
