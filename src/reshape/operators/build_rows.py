"""The build side of a hash join: rows, an index on their keys, and which of them have found a match.

A row has an id that no other row of the same owner has, wherever it was first taken in. A *replica* is a copy of a row
that its owner still has. So a row that comes twice is kept once, and a match found at a helper finds its row again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices, Rows, record_batch
from reshape.kernels.hashing import U64, Mask
from reshape.kernels.key_index import KeyIndex
from reshape.kernels.keys import KeyColumns
from reshape.operators.base import KeySet
from reshape.operators.errors import StateMismatch
from reshape.operators.row_marks import Marks, RowMarks

_ROW_FIELDS = [pa.field("__row", pa.int64()), pa.field("__replica", pa.bool_()), pa.field("__matched", pa.bool_())]
_MATCH_SCHEMA = pa.schema([pa.field("__matched_row", pa.int64())])


class BuildRows:
    """Build rows of one owner at one worker. Indexed when first probed, and again when more rows have come."""

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[int],
        *,
        operator: str,
        hash_function: Callable[[Sequence[pa.Array]], U64],
        exact: bool,
        keeps_null_keys: bool,
    ) -> None:
        self._schema = schema
        self._keys = tuple(keys)
        self._operator = operator
        self._hash = hash_function
        self._exact = exact
        self._keeps_null_keys = keeps_null_keys
        self._state_schema = pa.schema([*_ROW_FIELDS, *schema])
        self._marks = RowMarks()
        self._batches: list[pa.RecordBatch] = []
        self._batch_bytes = 0
        self._rows: Rows | None = None
        self._index: KeyIndex | None = None
        self._slot_matched: Mask = np.zeros(0, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self._marks)

    @property
    def nbytes(self) -> int:
        index = 0 if self._index is None else self._index.nbytes
        return self._batch_bytes + self._marks.nbytes + index

    def append(self, batch: pa.RecordBatch) -> None:
        """Rows that this worker is the first to take in."""
        if not self._keeps_null_keys:
            batch = self._without_null_keys(batch)
        self._install(batch, self._marks.number(batch.num_rows))

    @property
    def rows(self) -> Rows:
        """All rows in one block."""
        if self._rows is None:
            self._rows = Rows.of(self._schema, self._batches)
            # The block replaces the batches it was made of; both together would be twice the memory.
            self._batches = list(self._rows.batches(max(len(self), 1)))
        return self._rows

    @property
    def index(self) -> KeyIndex:
        """The rows by key; rows with a null key are not in it."""
        if self._index is None:
            rows = self.rows
            columns = [rows.columns[key] for key in self._keys]
            keys = KeyColumns(columns, len(rows))
            nulls = keys.nulls()
            wanted = None if nulls is None else np.flatnonzero(~nulls)
            self._index = KeyIndex(self._hashes, keys, exact=self._exact, rows=wanted)
            self._slot_matched = np.zeros(len(self._index), dtype=np.bool_)
        return self._index

    def mark(self, slots: Indices) -> None:
        """The rows of these slots have found a match."""
        self._slot_matched[slots] = True

    def matched(self) -> Mask:
        """Which rows have found a match, here or at a helper whose part was merged."""
        early = self._marks.early_matches
        if early:
            raise StateMismatch(self._operator, f"matches of {early} unknown rows", "rows that were replicated")
        return self._all_marks().matched

    def export(self, keys: KeySet | None, *, remove: bool) -> list[pa.RecordBatch]:
        """Rows of these keys: those that go are as they are, those that stay are given as replicas."""
        size = len(self)
        if not size:
            return []
        chosen = np.arange(size) if keys is None else np.flatnonzero(keys.holds(self._hashes()))
        if not len(chosen):
            return []
        rows, marks = self.rows, self._all_marks().take(chosen)
        if not remove:
            # A replica starts without matches: those found so far are already counted where they were found.
            marks = Marks(marks.ids, np.ones(len(chosen), dtype=np.bool_), np.zeros(len(chosen), dtype=np.bool_))
        columns = next(rows.batches(size)).columns if len(chosen) == size else rows.take(chosen)
        exported = record_batch(self._state_schema, [*map(pa.array, marks), *columns], len(chosen))
        if remove:
            self._keep(np.delete(np.arange(size, dtype=np.int64), chosen))
        return [exported]

    def export_scattered(self) -> list[pa.RecordBatch]:
        """Rows that the owner does not have, and the ids of its own rows that found a match here."""
        if not len(self):
            return []
        marks = self._all_marks()
        matched_ids = marks.ids[marks.replicas & marks.matched]
        self._keep(np.flatnonzero(~marks.replicas))
        parts = self.export(None, remove=True)
        if len(matched_ids):
            parts.append(pa.RecordBatch.from_arrays([pa.array(matched_ids)], schema=_MATCH_SCHEMA))
        return parts

    def merge(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Takes in what `export` and `export_scattered` gave, here or elsewhere."""
        matches = []
        for batch in batches:
            if batch.schema.names == _MATCH_SCHEMA.names:
                matches.append(batch.column(0).to_numpy(zero_copy_only=False))
            elif batch.schema.types != self._state_schema.types:
                raise StateMismatch(self._operator, str(batch.schema), str(self._state_schema))
            elif batch.num_rows:
                self._merge_rows(batch)
        self._fold_slot_matches()
        self._marks.match(matches)

    def _merge_rows(self, batch: pa.RecordBatch) -> None:
        marks = Marks(*(column.to_numpy(zero_copy_only=False) for column in batch.columns[:3]))
        rows = pa.RecordBatch.from_arrays(batch.columns[3:], schema=self._schema) if self._schema else batch
        self._fold_slot_matches()
        new = self._marks.meet(marks)
        if new is None:
            self._install(rows, marks.copied())
        else:
            self._install(rows.take(pa.array(new)), marks.take(new))

    def _install(self, batch: pa.RecordBatch, marks: Marks) -> None:
        if not batch.num_rows:
            return
        self._fold_slot_matches()
        self._batches.append(batch)
        self._marks.append(marks)
        self._batch_bytes += batch.nbytes
        self._rows = self._index = None

    def _keep(self, chosen: Indices) -> None:
        """Only these rows stay."""
        rows, marks = self.rows, self._all_marks()
        self._marks.clear()
        self._batches, self._batch_bytes = [], 0
        self._rows = self._index = None
        self._slot_matched = np.zeros(0, dtype=np.bool_)
        if len(chosen):
            self._install(rows.take_batch(chosen), marks.take(chosen))

    def _all_marks(self) -> Marks:
        self._fold_slot_matches()
        return self._marks.whole()

    def _fold_slot_matches(self) -> None:
        """Moves what `mark` noted for slots to the rows, before the slots are lost."""
        if self._index is not None and self._slot_matched.any():
            found = self._slot_matched[self._index.slots]
            self._marks.whole().matched[self._index.rows[found]] = True
            self._slot_matched[:] = False

    def _hashes(self) -> U64:
        return self._hash([self.rows.columns[key] for key in self._keys])

    def _without_null_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with a null key match nothing: unless they are shown at the end they need not be kept."""
        columns = [batch.column(key) for key in self._keys]
        if not any(column.null_count for column in columns):
            return batch
        nulls = KeyColumns(columns, batch.num_rows).nulls()
        return batch if nulls is None else batch.take(pa.array(np.flatnonzero(~nulls)))
