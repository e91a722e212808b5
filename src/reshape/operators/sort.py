"""Range-based sort: a mutable state of sorted runs (Table 1), merged when the last row has come.

Whole rows are kept, not only their keys. A helper's scattered runs are merged at the owner like its own (§5.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from reshape.kernels.columns import Indices, Rows
from reshape.kernels.hashing import hash_rows
from reshape.kernels.keys import check_keys
from reshape.kernels.ordering import Ordering, SortKey
from reshape.kernels.sort_keys import sorted_order
from reshape.operators.base import OUTPUT_ROWS, KeySet, Operator, bounded
from reshape.operators.spec import Narrowed, PortSpec, Spec

# Rows of a run. A run is sorted in some 15 ms, so control messages do not wait for it; 4 M rows make 16 runs, which
# merge at three times the speed of sorting them afresh.
_RUN_ROWS = 262_144


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
        self, spec: SortSpec, *, scattered: bool = False, output_rows: int = OUTPUT_ROWS, run_rows: int = _RUN_ROWS
    ) -> None:
        super().__init__(spec.output_schema, scattered=scattered, output_rows=output_rows)
        check_keys(self.name, spec.schema, spec.ordering.columns)
        self.spec = spec
        self._run_rows = run_rows
        self._runs: list[pa.RecordBatch] = []
        self._arriving: list[pa.RecordBatch] = []
        self._arriving_rows = 0
        self._rows = 0
        self._bytes = 0

    def add(self, port: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._check_open(port)
        if batch.num_rows:
            self._arriving.append(batch)
            self._arriving_rows += batch.num_rows
            self._rows += batch.num_rows
            self._bytes += batch.nbytes
            if self._arriving_rows >= self._run_rows:
                self._close_run()
        return iter(())

    def finish(self) -> Iterator[pa.RecordBatch]:
        self._check_finish()
        self._close_run()
        if not self._runs:
            return iter(())
        rows = Rows.of(self.spec.schema, self._runs)
        if len(self._runs) == 1:
            return map(self._shown, rows.batches(self.output_rows))
        # The block replaces the runs it was made of; both together would be twice the memory.
        self._runs = list(rows.batches(len(rows)))
        order = sorted_order([rows.columns[i] for i in self.spec.ordering.columns], self.spec.ordering, presorted=True)
        return map(self._shown, rows.batches(self.output_rows, order))

    @property
    def state_bytes(self) -> int:
        return self._bytes

    def export_state(self, keys: KeySet | None, remove: bool) -> Iterator[pa.RecordBatch]:
        """Sorted runs in slices. Keys are those of the ordering, all columns together."""
        self._close_run()
        exported, kept = [], []
        for run in self._runs:
            if keys is None:
                exported.append(run)
                continue
            chosen = keys.holds(hash_rows([run.column(i) for i in self.spec.ordering.columns]))
            exported.append(run.filter(pa.array(chosen)))
            if remove:
                kept.append(run.filter(pa.array(~chosen)))
        if remove:
            self._runs = [run for run in kept if run.num_rows]
            self._rows = sum(run.num_rows for run in self._runs)
            self._bytes = sum(run.nbytes for run in self._runs)
        return (part for run in exported for part in bounded(run, self.output_rows))

    def merge_state(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._check_schema(batch, self.spec.schema)
            if batch.num_rows:
                self._runs.append(batch)
                self._rows += batch.num_rows
                self._bytes += batch.nbytes

    def preview(self, limit: int) -> pa.RecordBatch | None:
        """The first rows in order among those that have come."""
        if not self._rows:
            return None
        heads = [run.slice(0, limit) for run in self._runs]
        arrived = Rows.of(self.spec.schema, [*heads, *self._arriving])
        return self._shown(arrived.take_batch(self._order(arrived)[:limit]))

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows without what only ordered them."""
        if not self.spec.hidden:
            return batch
        return pa.RecordBatch.from_arrays(batch.columns[: -self.spec.hidden], schema=self.output_schema)

    def _close_run(self) -> None:
        if not self._arriving:
            return
        rows = Rows.of(self.spec.schema, self._arriving)
        self._runs.append(rows.take_batch(self._order(rows)))
        self._arriving, self._arriving_rows = [], 0

    def _order(self, rows: Rows) -> Indices:
        return sorted_order([rows.columns[i] for i in self.spec.ordering.columns], self.spec.ordering)
