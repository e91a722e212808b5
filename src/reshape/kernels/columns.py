"""Arrow columns as operators hold them: many batches become one block of rows, from which rows are taken by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_UNCHECKED = pc.TakeOptions(boundscheck=False)

Indices = npt.NDArray[np.int64]


class Rows:
    """Rows in one block: one contiguous array a column, so that taking rows by number is a single gather."""

    __slots__ = ("columns", "schema", "size")

    def __init__(self, schema: pa.Schema, columns: Sequence[Any], size: int) -> None:
        self.schema = schema
        self.columns = list(columns)
        self.size = size

    @classmethod
    def of(cls, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> Rows:
        """The rows of the batches, in their order."""
        columns = [concatenated([batch.column(i) for batch in batches], field.type) for i, field in enumerate(schema)]
        return cls(schema, columns, sum(batch.num_rows for batch in batches))

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns)

    def take(self, indices: Any) -> list[pa.Array]:
        """These rows of every column."""
        wanted = indices if isinstance(indices, pa.Array) else pa.array(indices)
        return [take(column, wanted) for column in self.columns]

    def take_batch(self, indices: Any) -> pa.RecordBatch:
        """These rows as a batch."""
        return record_batch(self.schema, self.take(indices), len(indices))

    def batches(self, rows: int, order: Indices | None = None) -> Iterator[pa.RecordBatch]:
        """All rows (or those of `order`, in that order) in batches of at most so many rows."""
        total = len(self) if order is None else len(order)
        for start in range(0, total, rows):
            if order is not None:
                yield self.take_batch(order[start : start + rows])
            else:
                stop = min(start + rows, total)
                columns = [as_array(column.slice(start, rows)) for column in self.columns]
                yield record_batch(self.schema, columns, stop - start)


def concatenated(arrays: Sequence[pa.Array], kind: pa.DataType) -> Any:
    """One array; where offsets of 32 bits cannot hold it (2 GB of strings), a chunked one, which is slower to take."""
    if len(arrays) == 1:
        return arrays[0]
    if not arrays:
        return pa.array([], type=kind)
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowInvalid:
        return pa.chunked_array(arrays, type=kind)


def take(column: Any, indices: pa.Array) -> pa.Array:
    """The rows of a column; a null index gives a null. Nobody checks that there are such rows: half of the time."""
    if isinstance(column, pa.ChunkedArray):
        return as_array(column.take(indices))
    return pc.call_function("array_take", [column, indices], _UNCHECKED)


def as_array(column: Any) -> pa.Array:
    """An array, whether it was chunked or not."""
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column


def record_batch(schema: pa.Schema, columns: Sequence[pa.Array], rows: int) -> pa.RecordBatch:
    """A batch that keeps its number of rows even when it has no columns."""
    if not columns:
        empty_struct = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
        return pa.RecordBatch.from_struct_array(empty_struct)
    return pa.RecordBatch.from_arrays(list(columns), schema=schema)
