"""Some rows of an operator and no more: what a limit behind a flow wants of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa


@dataclass(frozen=True)
class FirstRows:
    """So many rows, whichever come first, are enough of a result. Of each batch no more are passed on; when all hosts
    together have given so many, the driver ends the flow."""

    schema: pa.Schema
    rows: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.slice(0, self.rows) for batch in batches)

    def __str__(self) -> str:
        return f"ends when there are {self.rows:,} rows"

    @property
    def exact(self) -> bool:
        return False

    def needs(self, wanted: Sequence[int]) -> set[int]:
        return set(wanted)

    def narrowed(self, wanted: Sequence[int], kept: Sequence[int], schema: pa.Schema) -> tuple[FirstRows, list[int]]:
        return replace(self, schema=schema), list(kept)

    def passes(self, column: int) -> int | None:
        return column
