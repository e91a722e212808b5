"""Range-based sort: a mutable state of sorted runs (Table 1), merged when the last row has come.

Whole rows are kept, not only their keys. A helper's scattered runs are merged at the owner like its own (§5.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from reshape.kernels.hashing import U64, hash_rows
from reshape.kernels.keys import check_keys
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.base import OUTPUT_ROWS, KeySet, Operator
from reshape.operators.sorted_runs import RUN_ROWS, SortedRuns
from reshape.operators.spec import Narrowed, PortSpec, Spec


@dataclass(frozen=True)
class SortSpec(Spec):
    """What to sort, and how. The last ``hidden`` columns only order the rows; they do not appear."""

    schema: pa.Schema
    ordering: Ordering
    hidden: int = 0

    @classmethod
    def examples(cls, schema: pa.Schema) -> tuple[Spec, ...]:
        last = len(schema) - 1
        by_last = Ordering((SortKey.descending(last), SortKey(0)))
        return (cls(schema, Ordering((SortKey(1), SortKey(0)))), cls(schema, by_last), cls(schema, by_last, hidden=1))

    @property
    def label(self) -> str:
        return "sort"

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return (self.schema,)

    @property
    def ports(self) -> tuple[PortSpec, ...]:
        return (PortSpec(ordering=self.ordering),)

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema(list(self.schema)[: self._shown])

    @property
    def combinable(self) -> bool:
        return False

    def build(self, *, scattered: bool = False) -> Sort:
        return Sort(self, scattered=scattered)

    def needs(self, wanted: Sequence[int]) -> tuple[set[int], ...]:
        return ({*wanted, *self.ordering.columns, *range(self._shown, len(self.schema))},)

    def narrowed(self, wanted: Sequence[int], kept: Sequence[list[int]], schemas: Sequence[pa.Schema]) -> Narrowed:
        keys = tuple(replace(key, column=kept[0].index(key.column)) for key in self.ordering.keys)
        # All hidden columns were asked for, and what is kept is in order: they are the last ones still.
        spec = replace(self, schema=schemas[0], ordering=Ordering(keys))
        return Narrowed(spec, [number for number in kept[0] if number < self._shown])

    def facts(self, shown: Callable[[pa.Field], str]) -> list[str]:
        keys = (
            f"{self.schema.field(key.column).name} {'asc' if key.ascending else 'desc'} "
            f"nulls {'first' if key.nulls_first else 'last'}"
            for key in self.ordering.keys
        )
        return [f"order: {', '.join(keys)}; each worker has a range of it"]

    @property
    def _shown(self) -> int:
        return len(self.schema) - self.hidden


class Sort(Operator):
    """The rows of one range."""

    name: ClassVar[str] = "sort"

    def __init__(
        self, spec: SortSpec, *, scattered: bool = False, output_rows: int = OUTPUT_ROWS, run_rows: int = RUN_ROWS
    ) -> None:
        super().__init__(spec.output_schema, scattered=scattered, output_rows=output_rows)
        check_keys(self.name, spec.schema, spec.ordering.columns)
        self.spec = spec
        self._runs = SortedRuns(spec.schema, spec.ordering, run_rows)

    def add(self, port: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._check_open(port)
        self._runs.add(batch)
        return iter(())

    def finish(self) -> Iterator[pa.RecordBatch]:
        self._check_finish()
        rows, order = self._runs.merged()
        return map(self._shown, rows.batches(self.output_rows, order))

    @property
    def state_bytes(self) -> int:
        return self._runs.nbytes

    def export_state(self, keys: KeySet | None, remove: bool) -> Iterator[pa.RecordBatch]:
        """Sorted runs in slices. Keys are those of the ordering, all columns together."""
        return self._runs.export(keys, self._hashes, remove, self.output_rows)

    def merge_state(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._check_schema(batch, self.spec.schema)
            self._runs.add_run(batch)

    def preview(self, limit: int) -> pa.RecordBatch | None:
        """The first rows in order among those that have come."""
        head = self._runs.head(limit)
        return None if head is None else self._shown(head)

    def _hashes(self, run: pa.RecordBatch) -> U64:
        return hash_rows([run.column(column) for column in self.spec.ordering.columns])

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows without what only ordered them."""
        if not self.spec.hidden:
            return batch
        return pa.RecordBatch.from_arrays(batch.columns[: -self.spec.hidden], schema=self.output_schema)
