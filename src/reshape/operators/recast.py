"""Rows of an operator made fit for the next one: other names, wider types, keys in the type of the other side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    @property
    def exact(self) -> bool:
        return True

    def needs(self, wanted: Sequence[int]) -> set[int]:
        return {self.columns[number] for number in wanted}

    def narrowed(self, wanted: Sequence[int], kept: Sequence[int], schema: pa.Schema) -> tuple[Recast, list[int]]:
        shown = pa.schema([self.schema.field(number) for number in wanted])
        return Recast(shown, tuple(kept.index(self.columns[number]) for number in wanted)), list(wanted)

    def passes(self, column: int) -> int | None:
        """None: a cast may change a value's hash."""
        return None
