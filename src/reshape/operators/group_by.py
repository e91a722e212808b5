"""Hash-based group-by: a mutable state of one partial row for each group (Table 1).

Rows are collected into blocks, a block becomes partial rows, and partial rows wait in a pool until they weigh as much
as the groups they will be merged into. So each row is merged a constant number of times on average, however many
groups there are, and nothing happens row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.kernels.hashing import U64, hash_rows
from reshape.operators.aggregates.base import OPERATOR
from reshape.operators.aggregates.description import Aggregate
from reshape.operators.base import OUTPUT_ROWS, KeySet, Operator, bounded
from reshape.operators.grouping import Grouping
from reshape.operators.spec import Combiner, GroupSums, Narrowed, PortSpec, Spec, chosen

# Rows of one block: some hundred microseconds of fixed cost are then a few nanoseconds a row.
_BLOCK_ROWS = 131_072

# A pool smaller than this is not worth a merge.
_POOL_BYTES = 16 << 20

# What a preview may merge on its own account, four times a second.
_PREVIEW_BYTES = 16 << 20


@dataclass(frozen=True)
class GroupBySpec(Spec):
    """What to group and compute. Without keys there is one group of all rows.

    `emit_when_empty`: give the one row of a global aggregate even when no row came; for one worker only to have.
    """

    schema: pa.Schema
    keys: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]
    emit_when_empty: bool = False

    @classmethod
    def examples(cls, schema: pa.Schema) -> tuple[Spec, ...]:
        from reshape.operators.aggregates.counts import CountAll, CountDistinct
        from reshape.operators.aggregates.sums import Sum

        algebraic = (CountAll("rows"), Sum("sum", 1))
        different = CountDistinct("different", (1, 0))
        return (
            cls(schema, (0,), algebraic),
            cls(schema, (0,), (*algebraic, different)),
            cls(schema, (), algebraic),
            cls(schema, (), algebraic[:1]),
        )

    @property
    def label(self) -> str:
        return "group by" if self.keys else "aggregate"

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return (self.schema,)

    @property
    def ports(self) -> tuple[PortSpec, ...]:
        return (PortSpec(keys=self.keys),)

    @property
    def output_schema(self) -> pa.Schema:
        return self.grouping().output_schema

    def grouping(self) -> Grouping:
        return Grouping(self.schema, self.keys, self.aggregates)

    def build(self, *, scattered: bool = False) -> GroupBy:
        return GroupBy(self, scattered=scattered)

    def at(self, owner: int) -> GroupBySpec:
        """A global aggregate of no rows is still one row, which the first worker gives."""
        return replace(self, emit_when_empty=True) if owner == 0 and not self.keys else self

    @property
    def combinable(self) -> bool:
        return self.grouping().algebraic

    def combiner(self) -> Combiner | None:
        return GroupCombiner(self) if self.combinable else None

    def merged_preview(self, parts: Sequence[pa.RecordBatch], limit: int) -> list[pa.RecordBatch]:
        """Groups with all their parts put together: helpers have some of them."""
        groups = self.build()
        groups.merge_state(parts)
        whole = groups.preview(limit)
        return [] if whole is None else [whole]

    @property
    def group_keys(self) -> int:
        return len(self.keys)

    def merged_sums(self, parts: Sequence[pa.RecordBatch], limit: int) -> GroupSums | None:
        groups = self.build()
        groups.merge_state(parts)
        return groups.preview_sums(limit)

    def passes(self, port: int, column: int) -> int | None:
        return self.keys.index(column) if column in self.keys else None

    def needs(self, wanted: Sequence[int]) -> tuple[set[int], ...]:
        needed = {*self.keys, *(column for aggregate in self.aggregates for column in aggregate.reads)}
        # Rows without any column could not be counted.
        return (needed or {0},)

    def narrowed(self, wanted: Sequence[int], kept: Sequence[list[int]], schemas: Sequence[pa.Schema]) -> Narrowed:
        spec = replace(
            self,
            schema=chosen(self.schema, kept[0]),  # its keys may have other names than in the input
            keys=tuple(kept[0].index(key) for key in self.keys),
            aggregates=tuple(aggregate.renumbered(kept[0].index) for aggregate in self.aggregates),
        )
        return Narrowed(spec, list(range(len(self.keys) + len(self.aggregates))))

    def facts(self, shown: Callable[[pa.Field], str]) -> list[str]:
        names = ", ".join(shown(self.schema.field(key)) for key in self.keys)
        texts = []
        for aggregate in self.aggregates:
            text = aggregate.text([self.schema.field(column).name for column in aggregate.reads])
            texts.append(text if text == aggregate.name else f"{text} AS {aggregate.name}")
        keys = f"keys: {names}" if names else "keys: none; all rows are one group, at worker 0"
        return [keys, f"aggregates: {', '.join(texts)}"]


class GroupBy(Operator):
    """The groups of one partition."""

    name: ClassVar[str] = OPERATOR

    def __init__(self, spec: GroupBySpec, *, scattered: bool = False, output_rows: int = OUTPUT_ROWS) -> None:
        self._grouping = spec.grouping()
        super().__init__(self._grouping.output_schema, scattered=scattered, output_rows=output_rows)
        self.spec = spec
        self._groups: pa.RecordBatch | None = None
        # Numbers the keys of the groups; empty until it is needed.
        self._table = self._grouping.key_table()
        self._pool: list[pa.RecordBatch] = []
        self._pool_bytes = 0
        self._block: list[pa.RecordBatch] = []
        self._block_rows = 0

    def add(self, port: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows, or partial rows that a router has combined."""
        self._check_open(port)
        if batch.num_rows:
            if self._grouping.is_partial(batch):
                self._add_partial(batch)
            else:
                self._block.append(batch)
                self._block_rows += batch.num_rows
                if self._block_rows >= _BLOCK_ROWS:
                    self._reduce_block()
        return iter(())

    def finish(self) -> Iterator[pa.RecordBatch]:
        self._check_finish()
        groups = self._merged()
        if groups is None and self.spec.emit_when_empty and not self.spec.keys:
            groups = self._grouping.empty_group()
        if groups is None:
            return iter(())
        return map(self._grouping.finish, bounded(groups, self.output_rows))

    @property
    def state_bytes(self) -> int:
        merged = 0 if self._groups is None else self._groups.nbytes + self._table.nbytes
        return int(merged + self._pool_bytes + sum(batch.nbytes for batch in self._block))

    def export_state(self, keys: KeySet | None, remove: bool) -> Iterator[pa.RecordBatch]:
        groups = self._merged()
        if groups is None:
            return iter(())
        if keys is not None:
            chosen = keys.holds(self._hashes(groups))
            if remove:
                rest = groups.filter(pa.array(~chosen))
                self._replace(rest if rest.num_rows else None)
            groups = groups.filter(pa.array(chosen))
        elif remove:
            self._replace(None)
        return bounded(groups, self.output_rows)

    def merge_state(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._check_schema(batch, self._grouping.partial_schema)
            if batch.num_rows:
                self._add_partial(batch)

    def preview(self, limit: int) -> pa.RecordBatch | None:
        """The largest groups with their values so far."""
        part = self.preview_part(limit)
        return None if part is None else self._grouping.finish(part)

    def preview_part(self, limit: int) -> pa.RecordBatch | None:
        """Up to so many groups as partial rows, to be shown together with the parts that other workers have."""
        if self.state_bytes <= _PREVIEW_BYTES:
            self._merged()
        return None if self._groups is None else self._grouping.largest(self._groups, limit)

    def preview_leaves_out(self, limit: int) -> int | None:
        if self._pool or self._block:
            return None
        return 0 if self._groups is None else max(0, self._groups.num_rows - limit)

    def preview_sums(self, limit: int) -> GroupSums | None:
        """The same groups as a preview, as rows of the result and as sums."""
        part = self.preview_part(limit)
        if part is None:
            return None
        columns: list[npt.NDArray[np.float64]] = []
        of: dict[str, tuple[int, ...]] = {}
        for aggregate, sums in zip(self.spec.aggregates, self._grouping.sums(part), strict=True):
            if sums:
                of[aggregate.name] = tuple(range(len(columns), len(columns) + len(sums)))
                columns += sums
        table = np.stack(columns, axis=1) if columns else np.zeros((part.num_rows, 0))
        return GroupSums(self._grouping.finish(part), self._hashes(part), table, of)

    def _add_partial(self, batch: pa.RecordBatch) -> None:
        self._pool.append(batch)
        self._pool_bytes += batch.nbytes
        merged = 0 if self._groups is None else self._groups.nbytes
        if self._grouping.merging_shrinks and self._pool_bytes > max(_POOL_BYTES, merged):
            self._merge_pool()

    def _reduce_block(self) -> None:
        """Rows of the block to partial rows in the pool."""
        if not self._block:
            return
        rows = self._grouping.gathered(self._block)
        self._block, self._block_rows = [], 0
        for block in rows.batches(len(rows)):
            self._add_partial(self._grouping.combine(block))

    def _merge_pool(self) -> None:
        self._groups = self._grouping.merge(self._groups, self._pool, self._table)
        self._pool, self._pool_bytes = [], 0

    def _replace(self, groups: pa.RecordBatch | None) -> None:
        """Other groups in place of those that the table numbers."""
        self._groups = groups
        self._table = self._grouping.key_table()

    def _merged(self) -> pa.RecordBatch | None:
        """All groups, one partial row each."""
        self._reduce_block()
        if self._pool:
            self._merge_pool()
        return self._groups

    def _hashes(self, groups: pa.RecordBatch) -> U64:
        if not self._grouping.key_count:
            return np.zeros(groups.num_rows, dtype=np.uint64)
        return hash_rows(groups.columns[: self._grouping.key_count])


@dataclass(frozen=True)
class GroupCombiner:
    """Combines rows at the router before they are sent, for aggregates whose partial state is small."""

    spec: GroupBySpec

    @property
    def keys(self) -> tuple[int, ...]:
        """The key columns of the partial rows, which hash like those of the rows they were made of."""
        return tuple(range(len(self.spec.keys)))

    def combine(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Partial rows, which the operator takes on the same port."""
        return self._grouping.combine(batch)

    def merge(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Fewer partial rows of many: one for each group among them."""
        return self._grouping.merge(None, parts, self._grouping.key_table())

    @cached_property
    def _grouping(self) -> Grouping:
        return self.spec.grouping()
