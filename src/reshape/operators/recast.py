"""Rows of an operator made fit for the next one: other names, wider types, keys in the type of the other side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Recast:
    """Columns by number, cast to the types of the schema. A number may come twice: the second is a hidden key."""

    schema: pa.Schema
    columns: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            # Not safe: a long becomes the nearest double, as in Spark. Only casts that are exact otherwise come here.
            columns = [
                batch.column(number).cast(field.type, safe=False)
                for number, field in zip(self.columns, self.schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
