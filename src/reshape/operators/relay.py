"""Passes rows on as they are: what a flow's repartition does. Its rows only have to be where their keys are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from reshape.operators.base import OUTPUT_ROWS, KeySet, Mutability, Operator, bounded


@dataclass(frozen=True)
class RelaySpec:
    """Rows by key columns."""

    schema: pa.Schema
    keys: tuple[int, ...]

    @property
    def output_schema(self) -> pa.Schema:
        return self.schema

    def build(self, *, scattered: bool = False) -> Relay:
        return Relay(self, scattered=scattered)


class Relay(Operator):
    """No state at all, so rows may be processed anywhere."""

    name: ClassVar[str] = "repartition"

    def __init__(self, spec: RelaySpec, *, scattered: bool = False, output_rows: int = OUTPUT_ROWS) -> None:
        super().__init__(spec.schema, scattered=scattered, output_rows=output_rows)
        self._last: pa.RecordBatch | None = None

    def add(self, port: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._check_open(port)
        self._last = batch
        return bounded(batch, self.output_rows)

    def finish(self) -> Iterator[pa.RecordBatch]:
        return iter(())

    def mutability(self, port: int) -> Mutability:
        return Mutability.IMMUTABLE

    @property
    def state_rows(self) -> int:
        return 0

    @property
    def state_bytes(self) -> int:
        return 0

    def export_state(self, keys: KeySet | None, remove: bool) -> Iterator[pa.RecordBatch]:
        return iter(())

    def merge_state(self, batches: Iterable[pa.RecordBatch]) -> None:
        for _ in batches:
            pass

    def preview(self, limit: int) -> pa.RecordBatch | None:
        return None if self._last is None else self._last.slice(0, limit)
