"""The arithmetic of a group-by, without any state: rows to partial rows, partial rows to fewer, and those to a result.

A partial row has the key of a group (as Spark shows it: 0.0 for -0.0) and the partial state of each aggregate. Routers
may send partial rows in place of rows, and helpers send them to owners; both look the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from reshape.kernels.columns import Indices, Rows, as_array, concatenated, record_batch, take
from reshape.kernels.hashing import hash_rows
from reshape.kernels.key_table import KeptTogether, KeyTable, is_in_order
from reshape.kernels.keys import KeyColumns, check_keys, normalised
from reshape.operators.aggregates.base import OPERATOR, Groups
from reshape.operators.aggregates.description import Aggregate


class Grouping:
    """The kernels of one group-by."""

    def __init__(self, input_schema: pa.Schema, keys: Sequence[int], aggregates: Sequence[Aggregate]) -> None:
        check_keys(OPERATOR, input_schema, keys)
        self._input_schema = input_schema
        self._keys = tuple(keys)
        schema = pa.schema([field.with_type(_decoded(field.type)) for field in input_schema])
        self._columns = [aggregate.reads for aggregate in aggregates]
        self._logics = [
            aggregate.logic([schema.field(column) for column in aggregate.reads]) for aggregate in aggregates
        ]
        key_fields = [schema.field(key) for key in keys]
        self.key_count = len(key_fields)
        # Names that no user has, so that partial rows are told from rows by their schema.
        self.partial_schema = pa.schema(
            [pa.field(f"__key{i}", field.type) for i, field in enumerate(key_fields)]
            + [
                pa.field(f"__aggregate{i}_{j}", kind)
                for i, logic in enumerate(self._logics)
                for j, kind in enumerate(logic.state_types)
            ]
        )
        self.output_schema = pa.schema(
            key_fields
            + [
                pa.field(aggregate.name, logic.output_type, logic.nullable)
                for aggregate, logic in zip(aggregates, self._logics, strict=True)
            ]
        )
        ends = np.cumsum([len(logic.state_types) for logic in self._logics]) + self.key_count
        self._states = [
            slice(int(end) - len(logic.state_types), int(end)) for end, logic in zip(ends, self._logics, strict=True)
        ]

    @property
    def algebraic(self) -> bool:
        """Whether partial rows are small, so that combining rows before sending them can be a win."""
        return all(logic.algebraic for logic in self._logics)

    @property
    def merging_shrinks(self) -> bool:
        """Whether merged partial rows are smaller than those they were made of; otherwise they are merged once."""
        return all(logic.merging_shrinks for logic in self._logics)

    def is_partial(self, batch: pa.RecordBatch) -> bool:
        """Whether these are partial rows rather than rows."""
        return bool(batch.schema.names == self.partial_schema.names)

    def gathered(self, batches: Sequence[pa.RecordBatch]) -> Rows:
        """The rows in one block. Columns that nobody reads are left empty."""
        read = {*self._keys, *(number for numbers in self._columns for number in numbers)}
        size = sum(batch.num_rows for batch in batches)
        columns = [
            concatenated([batch.column(i) for batch in batches], field.type) if i in read else pa.nulls(size)
            for i, field in enumerate(self._input_schema)
        ]
        schema = pa.schema(
            [field.with_type(column.type) for field, column in zip(self._input_schema, columns, strict=True)]
        )
        return Rows(schema, columns, size)

    def combine(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows to partial rows, one for each group among them."""
        keys = [normalised(_plain(batch.column(key))) for key in self._keys]
        codes, first = KeyColumns(keys, batch.num_rows).codes()
        return self._partial(batch, Groups(codes, len(first)), [key.take(pa.array(first)) for key in keys])

    def empty_group(self) -> pa.RecordBatch:
        """The partial row of a global aggregate over nothing."""
        nothing = pa.RecordBatch.from_pylist([], schema=self._input_schema)
        return self._partial(nothing, Groups(np.zeros(0, dtype=np.int64), 1), [])

    def key_table(self) -> KeyTable:
        """An empty table for the keys of partial rows."""
        return KeyTable([field.type for field in list(self.partial_schema)[: self.key_count]])

    def merge(self, groups: pa.RecordBatch | None, parts: Sequence[pa.RecordBatch], table: KeyTable) -> pa.RecordBatch:
        """Partial rows, one for each group, and more of them to one for each group.

        The table numbers the rows of `groups`; only the keys of the others are looked up.
        """
        if groups is None and not self.key_count and [part.num_rows for part in parts] == [1]:
            return parts[0]
        if groups is not None and self.key_count and not len(table):
            groups = self._entered(groups, table)
        before = 0 if groups is None else groups.num_rows
        columns = [
            as_array(concatenated([batch.column(i) for batch in parts], field.type))
            for i, field in enumerate(self.partial_schema)
        ]
        codes, new = self._numbered(groups, columns[: self.key_count], sum(part.num_rows for part in parts), table)
        chosen = pa.array(new)
        keys = [column.take(chosen) for column in columns[: self.key_count]]
        if groups is not None:
            codes = np.concatenate([np.arange(before), codes])
            columns = [as_array(concatenated(pair, pair[0].type)) for pair in zip(groups.columns, columns, strict=True)]
            keys = [concatenated(pair, pair[0].type) for pair in zip(groups.columns, keys, strict=False)]
        merged = Groups(codes, before + len(new))
        for logic, states in zip(self._logics, self._states, strict=True):
            keys += logic.merge(columns[states], merged)
        return record_batch(self.partial_schema, keys, merged.count)

    def _entered(self, groups: pa.RecordBatch, table: KeyTable) -> pa.RecordBatch:
        """Groups as an empty table numbers them."""
        keys = groups.columns[: self.key_count]
        known = KeptTogether(keys, groups.num_rows)
        _, order = table.number(hash_rows(keys), KeyColumns(keys, groups.num_rows), known)
        if is_in_order(order):
            return groups
        chosen = pa.array(order)
        return record_batch(self.partial_schema, [take(column, chosen) for column in groups.columns], len(order))

    def _numbered(
        self, groups: pa.RecordBatch | None, columns: Sequence[pa.Array], rows: int, table: KeyTable
    ) -> tuple[Indices, Indices]:
        """The group of each row, and the rows that are the first of new groups."""
        if not columns:
            return np.zeros(rows, dtype=np.int64), np.zeros(0 if groups is not None else 1, dtype=np.int64)
        known = columns if groups is None else groups.columns[: self.key_count]
        return table.number(hash_rows(columns), KeyColumns(columns, rows), KeptTogether(known, len(known[0])))

    def finish(self, partial: pa.RecordBatch) -> pa.RecordBatch:
        """Partial rows, one for each group, to the result."""
        columns = partial.columns[: self.key_count]
        for logic, states in zip(self._logics, self._states, strict=True):
            columns.append(logic.finish(partial.columns[states]))
        return record_batch(self.output_schema, columns, partial.num_rows)

    def sums(self, partial: pa.RecordBatch) -> list[list[npt.NDArray[np.float64]]]:
        """For each aggregate, its states as sums that grow with the input; see `AggregateLogic.sums`."""
        return [logic.sums(partial.columns[states]) for logic, states in zip(self._logics, self._states, strict=True)]

    def largest(self, partial: pa.RecordBatch, limit: int) -> pa.RecordBatch:
        """So many groups, in their order: those that have most of the first count or sum."""
        if partial.num_rows <= limit:
            return partial
        measures = (
            logic.sums(partial.columns[states]) for logic, states in zip(self._logics, self._states, strict=True)
        )
        measure = next((sums[0] for sums in measures if sums), None)
        if measure is None:
            return partial.slice(0, limit)
        chosen = np.argpartition(-np.abs(measure), limit - 1)[:limit]
        return partial.take(pa.array(np.sort(chosen)))

    def _partial(self, batch: pa.RecordBatch, groups: Groups, keys: list[pa.Array]) -> pa.RecordBatch:
        columns = keys
        for logic, numbers in zip(self._logics, self._columns, strict=True):
            columns += logic.update([_plain(batch.column(number)) for number in numbers], groups)
        return record_batch(self.partial_schema, columns, groups.count)


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pat.is_dictionary(kind) else kind


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pat.is_dictionary(array.type) else array
