"""min and max over frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from reshape.kernels.columns import Indices, concatenated, take
from reshape.kernels.hashing import validity
from reshape.kernels.keys import comparable
from reshape.kernels.segments import Segments, least_rows, running
from reshape.kernels.sort_keys import order_codes
from reshape.operators.errors import UnsupportedAggregate
from reshape.operators.windows.description import OPERATOR, OfFrame, rows_or_null
from reshape.operators.windows.frame import Windows

# The code of nulls, behind that of all values.
_NO_VALUE = np.int64(2**63 - 1)


class _Extreme(OfFrame):
    """Of values that are equal (zeros of both signs) Spark keeps the first. NaN is greater than all numbers."""

    __slots__ = ()

    ascending: ClassVar[bool]

    def output_type(self, fields: Sequence[pa.Field]) -> pa.DataType:
        kind = fields[0].type
        if pat.is_struct(kind) or not comparable(kind):
            raise UnsupportedAggregate(OPERATOR, type(self).__name__.lower(), fields[0].name, str(kind))
        return kind

    def compute(self, windows: Windows, columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
        column, frames = columns[0], windows.rows_of(self.frame)
        filled = frames.end > frames.first
        if not frames.from_start:
            rows = np.full(windows.size, -1, dtype=np.int64)
            codes = self._least_first(column, windows.codes_of(self.column, column))
            rows[filled] = least_rows(codes, frames.first[filled], frames.end[filled])
            # A frame may have rows, and nulls only; taking one of them gives null.
            return rows_or_null(column, rows)
        segments, ahead = windows.partitions, 0
        if windows.carries(frames):
            best = windows.carried(self)
            if best is not None:
                column, ahead = concatenated([best, column], column.type), 1
            segments = Segments(np.zeros(1, dtype=np.int64), windows.size + ahead)
        codes = order_codes(column) if ahead else windows.codes_of(self.column, column)
        records = _records(self._least_first(column, codes), segments)
        if windows.carries(frames):
            windows.leave(self, take(column, pa.array(records[-1:])))
        return rows_or_null(column, np.where(filled, records[frames.end - 1 + ahead], -1))

    def _least_first(self, column: pa.Array, codes: Indices) -> Indices:
        """The least is what is looked for; nulls are behind all values."""
        if not self.ascending:
            codes = ~codes
        valid = validity(column)
        if valid is not None:
            if (codes == _NO_VALUE).any():
                codes = np.unique(codes, return_inverse=True)[1]
            codes = np.where(valid, codes, _NO_VALUE)
        return codes


@dataclass(frozen=True, slots=True)
class Min(_Extreme):
    ascending: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Max(_Extreme):
    ascending: ClassVar[bool] = False


def _records(codes: Indices, segments: Segments) -> Indices:
    """For each row the first with the least code of its segment so far."""
    least = running(np.minimum, codes, segments)
    # A row with a lesser code than all before it answers until the next such row.
    is_record = np.zeros(segments.size, dtype=np.bool_)
    is_record[1:] = least[1:] < least[:-1]
    is_record[segments.starts] = True
    records: Indices = np.maximum.accumulate(np.where(is_record, np.arange(segments.size, dtype=np.int64), 0))
    return records
