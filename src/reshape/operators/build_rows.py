"""The build side of a hash join: rows, an index on their keys, and which of them have found a match.

A row has an id that no other row of the same owner has, wherever it was first taken in. A *replica* is a copy of a row
that its owner still has. So a row that comes twice is kept once, and a match found at a helper finds its row again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from reshape.kernels.columns import Indices, Rows, record_batch
from reshape.kernels.hashing import U64, Mask
from reshape.kernels.key_index import KeyIndex
from reshape.kernels.keys import KeyColumns
from reshape.operators.base import KeySet
from reshape.operators.errors import StateMismatch

# Every object numbers its rows from a random place: two of them meet with a chance of 1 in 2**30 even after 2**30 rows
# each, and no worker has to be told who it is.
_ID_BITS = 61

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
        self._next_id = secrets.randbits(_ID_BITS)
        self._batches: list[pa.RecordBatch] = []
        self._ids: list[Indices] = []
        self._replicas: list[Mask] = []
        self._matches: list[Mask] = []
        self._size = 0
        self._batch_bytes = 0
        # Matches of rows that have not come yet: state may be merged in any order.
        self._early_matches: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._rows: Rows | None = None
        self._index: KeyIndex | None = None
        self._slot_matched: Mask = np.zeros(0, dtype=np.bool_)
        self._state_schema = pa.schema([*_ROW_FIELDS, *schema])

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        index = 0 if self._index is None else self._index.nbytes
        return self._batch_bytes + 10 * self._size + index

    def append(self, batch: pa.RecordBatch) -> None:
        """Rows that this worker is the first to take in."""
        if not self._keeps_null_keys:
            batch = self._without_null_keys(batch)
        rows = batch.num_rows
        ids = np.arange(self._next_id, self._next_id + rows, dtype=np.int64)
        self._next_id += rows
        self._install(batch, ids, np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_))

    @property
    def rows(self) -> Rows:
        """All rows in one block."""
        return self._consolidate()

    @property
    def index(self) -> KeyIndex:
        """The rows by key; rows with a null key are not in it."""
        if self._index is None:
            rows = self.rows
            columns = [rows.columns[key] for key in self._keys]
            keys = KeyColumns(columns, len(rows))
            nulls = keys.nulls()
            wanted = None if nulls is None else np.flatnonzero(~nulls)
            self._index = KeyIndex(self._hashes(), keys, exact=self._exact, rows=wanted)
            self._slot_matched = np.zeros(len(self._index), dtype=np.bool_)
        return self._index

    def mark(self, slots: Indices) -> None:
        """The rows of these slots have found a match."""
        self._slot_matched[slots] = True

    def matched(self) -> Mask:
        """Which rows have found a match, here or at a helper whose part was merged."""
        if len(self._early_matches):
            raise StateMismatch(
                self._operator, f"matches of {len(self._early_matches)} unknown rows", "rows that were replicated"
            )
        return self._all_matches()

    def export(self, keys: KeySet | None, *, remove: bool, as_replica: bool) -> list[pa.RecordBatch]:
        """Rows of these keys with their flags, as replicas or as they are."""
        if not self._size:
            return []
        rows, matched = self.rows, self._all_matches()
        chosen = np.arange(self._size) if keys is None else np.flatnonzero(keys.holds(self._hashes()))
        if not len(chosen):
            return []
        ids, replicas = self._ids[0], self._replicas[0]
        flags = np.ones(len(chosen), dtype=np.bool_) if as_replica else replicas[chosen]
        # A replica starts without matches: those found so far are already counted where they were found.
        found = np.zeros(len(chosen), dtype=np.bool_) if as_replica else matched[chosen]
        everything = len(chosen) == self._size
        columns = next(rows.batches(self._size)).columns if everything else rows.take(chosen)
        exported = record_batch(
            self._state_schema,
            [pa.array(ids[chosen]), pa.array(flags), pa.array(found), *columns],
            len(chosen),
        )
        if remove:
            self._keep(np.delete(np.arange(self._size, dtype=np.int64), chosen))
        return [exported]

    def export_scattered(self) -> list[pa.RecordBatch]:
        """Rows that the owner does not have, and the ids of its own rows that found a match here."""
        if not self._size:
            return []
        matched = self._all_matches()
        replicas = self._replicas[0]
        matched_ids = self._ids[0][replicas & matched]
        self._keep(np.flatnonzero(~replicas))
        parts = self.export(None, remove=True, as_replica=False)
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
        if matches:
            self._early_matches = np.concatenate([self._early_matches, *matches])
        if len(self._early_matches) and self._size:
            self._apply_early_matches()

    def _merge_rows(self, batch: pa.RecordBatch) -> None:
        ids = batch.column(0).to_numpy()
        replicas = batch.column(1).to_numpy(zero_copy_only=False)
        found = batch.column(2).to_numpy(zero_copy_only=False)
        rows = pa.RecordBatch.from_arrays(batch.columns[3:], schema=self._schema) if self._schema else batch
        # Only what was exported can come twice, so a state made of own rows alone needs no search.
        if self._size and (replicas.any() or any(part.any() for part in self._replicas)):
            self._consolidate()
            places = pd.Index(self._ids[0]).get_indexer(pd.Index(ids))
            known = np.flatnonzero(places >= 0)
            if len(known):
                self._fold_slot_matches()
                self._matches[0][places[known]] |= found[known]
                self._replicas[0][places[known]] &= replicas[known]
                new = np.flatnonzero(places < 0)
                rows, ids, replicas, found = rows.take(pa.array(new)), ids[new], replicas[new], found[new]
        self._install(rows, ids, replicas.copy(), found.copy())

    def _install(self, batch: pa.RecordBatch, ids: Indices, replicas: Mask, found: Mask) -> None:
        if not batch.num_rows:
            return
        self._fold_slot_matches()
        self._batches.append(batch)
        self._ids.append(ids)
        self._replicas.append(replicas)
        self._matches.append(found)
        self._size += batch.num_rows
        self._batch_bytes += batch.nbytes
        self._rows = self._index = None

    def _keep(self, chosen: Indices) -> None:
        """Only these rows stay."""
        rows, matched = self.rows, self._all_matches()
        ids, replicas = self._ids, self._replicas
        self._batches, self._ids, self._replicas, self._matches = [], [], [], []
        self._size = self._batch_bytes = 0
        self._rows = self._index = None
        self._slot_matched = np.zeros(0, dtype=np.bool_)
        if len(chosen):
            self._install(rows.take_batch(chosen), ids[0][chosen], replicas[0][chosen], matched[chosen])

    def _apply_early_matches(self) -> None:
        self._consolidate()
        self._fold_slot_matches()
        places = pd.Index(self._ids[0]).get_indexer(pd.Index(self._early_matches))
        self._matches[0][places[places >= 0]] = True
        self._early_matches = self._early_matches[places < 0]

    def _consolidate(self) -> Rows:
        """One block of rows, and one array each for their ids and flags."""
        if self._rows is None:
            self._rows = Rows.of(self._schema, self._batches)
            # The block replaces the batches it was made of; both together would be twice the memory.
            self._batches = list(self._rows.batches(max(self._size, 1)))
            self._ids = [np.concatenate(self._ids)] if self._ids else []
            self._replicas = [np.concatenate(self._replicas)] if self._replicas else []
            self._matches = [np.concatenate(self._matches)] if self._matches else []
        return self._rows

    def _all_matches(self) -> Mask:
        self._consolidate()
        self._fold_slot_matches()
        return self._matches[0] if self._matches else np.zeros(0, dtype=np.bool_)

    def _fold_slot_matches(self) -> None:
        """Moves what `mark` noted for slots to the rows, before the slots are lost."""
        if self._index is not None and self._slot_matched.any():
            found = self._slot_matched[self._index.slots]
            self._matches[0][self._index.rows[found]] = True
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
