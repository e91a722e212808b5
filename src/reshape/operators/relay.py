"""Passes rows on as they are: what a flow's repartition does. Its rows only have to be where their keys are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from reshape.operators.base import OUTPUT_ROWS, KeySet, Operator, bounded
from reshape.operators.spec import Narrowed, PortSpec, Spec


@dataclass(frozen=True)
class RelaySpec(Spec):
    """Rows by key columns."""

    schema: pa.Schema
    keys: tuple[int, ...]
    label: str = "repartition"

    @classmethod
    def examples(cls, schema: pa.Schema) -> tuple[Spec, ...]:
        return (cls(schema, (0,)), cls(schema, (1, 0)))

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return (self.schema,)

    @property
    def ports(self) -> tuple[PortSpec, ...]:
        return (PortSpec(keys=self.keys, mutable=False),)

    @property
    def output_schema(self) -> pa.Schema:
        return self.schema

    def build(self, *, scattered: bool = False) -> Relay:
        return Relay(self, scattered=scattered)

    def gives_at_once(self, port: int) -> bool:
        return True

    def passes(self, port: int, column: int) -> int | None:
        return column

    def needs(self, wanted: Sequence[int]) -> tuple[set[int], ...]:
        return ({*wanted, *self.keys},)

    def narrowed(self, wanted: Sequence[int], kept: Sequence[list[int]], schemas: Sequence[pa.Schema]) -> Narrowed:
        keys = tuple(kept[0].index(key) for key in self.keys)
        return Narrowed(replace(self, schema=schemas[0], keys=keys), kept[0])


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
