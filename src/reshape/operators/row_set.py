"""A set of rows that grows: null equals null, NaN equals NaN. Each row carries one flag.

New rows come in small batches and must be known at once, so the set is a few blocks, each with an index of its own and
at most half as large as the one before it. A row is indexed again as often as its block is merged: log(n) times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Rows, record_batch
from reshape.kernels.hashing import U64, Mask, hash_rows
from reshape.kernels.key_index import KeyIndex
from reshape.kernels.keys import KeyColumns, normalised
from reshape.operators.base import KeySet

HashFunction = Callable[[Sequence[pa.Array]], U64]


class _Block:
    """Different rows with their index."""

    __slots__ = ("flags", "hashes", "index", "keys", "rows")

    def __init__(self, rows: Rows, hashes: U64, flags: Mask) -> None:
        self.rows = rows
        self.hashes = hashes
        self.flags = flags
        self.keys = KeyColumns(rows.columns, len(rows))
        # Never exact: null is a key here, and its hash is that of some value.
        self.index = KeyIndex(hashes, self.keys, exact=False)

    def __len__(self) -> int:
        return len(self.rows)


class RowSet:
    """The set. `meeting`: what becomes of the flag of a row that is merged again (or: once set, it stays)."""

    def __init__(
        self, schema: pa.Schema, *, meeting: Literal["and", "or"], hash_function: HashFunction = hash_rows
    ) -> None:
        self.schema = schema
        self._meet: np.ufunc = np.logical_or if meeting == "or" else np.logical_and
        self._hash = hash_function
        self._blocks: list[_Block] = []

    def __len__(self) -> int:
        return sum(len(block) for block in self._blocks)

    @property
    def nbytes(self) -> int:
        return sum(block.rows.nbytes + 9 * len(block) + block.index.nbytes for block in self._blocks)

    def add(self, batch: pa.RecordBatch, flag: bool) -> pa.RecordBatch:
        """Puts rows in; returns those that were not there, each once, as Spark shows them (0.0 for -0.0).

        The flag is for new rows. Those that were there keep theirs.
        """
        return self._add(batch, np.full(batch.num_rows, flag), meet=False)

    def merge(self, batch: pa.RecordBatch, flags: Mask) -> None:
        """Puts rows in that another set had, with their flags; each row appears in the batch once."""
        self._add(batch, flags, meet=True)

    def _add(self, batch: pa.RecordBatch, flags: Mask, *, meet: bool) -> pa.RecordBatch:
        candidate = self._block(batch, flags)
        missing = np.arange(len(candidate), dtype=np.int64)
        for block in self._blocks:
            if not len(missing):
                break
            slots = block.index.find(candidate.hashes, candidate.keys, missing)
            known = slots >= 0
            if meet:
                places = block.index.representatives[slots[known]]
                block.flags[places] = self._meet(block.flags[places], candidate.flags[missing[known]])
            missing = missing[~known]
        new = candidate.rows.take_batch(missing)
        if len(missing) == len(candidate):
            self._append(candidate)
        elif len(missing):
            rows = Rows(self.schema, new.columns, len(missing))
            self._append(_Block(rows, candidate.hashes[missing], candidate.flags[missing]))
        return new

    def holds(self, batch: pa.RecordBatch) -> Mask:
        """Which of the rows are in the set."""
        result = np.zeros(batch.num_rows, dtype=np.bool_)
        if not self._blocks or not batch.num_rows:
            return result
        columns = [normalised(column) for column in batch.columns]
        keys, hashes = KeyColumns(columns, batch.num_rows), self._hash(columns)
        missing = np.arange(batch.num_rows, dtype=np.int64)
        for block in self._blocks:
            found = block.index.find(hashes, keys, missing) >= 0
            result[missing[found]] = True
            missing = missing[~found]
        return result

    def rows(self) -> tuple[Rows, Mask]:
        """All rows in one block, with their flags."""
        if len(self._blocks) > 1:
            self._blocks = [self._united(self._blocks)]
        if not self._blocks:
            return Rows.of(self.schema, []), np.zeros(0, dtype=np.bool_)
        return self._blocks[0].rows, self._blocks[0].flags

    def chosen(self, keys: KeySet | None) -> Mask:
        """Which of `rows()` belong to these keys; a row is its own key."""
        rows, _ = self.rows()
        if keys is None or not len(rows):
            return np.ones(len(rows), dtype=np.bool_)
        return keys.holds(self._blocks[0].hashes)

    def keep(self, wanted: Mask) -> None:
        """Only these of `rows()` stay."""
        rows, flags = self.rows()
        kept = np.flatnonzero(wanted)
        if len(kept) == len(rows):
            return
        hashes = self._blocks[0].hashes
        self._blocks = []
        if len(kept):
            block = Rows(self.schema, rows.take(kept), len(kept))
            self._blocks = [_Block(block, hashes[kept], flags[kept])]

    def _block(self, batch: pa.RecordBatch, flags: Mask) -> _Block:
        """The different rows of a batch."""
        columns = [normalised(column) for column in batch.columns]
        hashes = self._hash(columns)
        index = KeyIndex(hashes, KeyColumns(columns, batch.num_rows), exact=False)
        first = index.representatives
        rows = Rows(self.schema, columns, batch.num_rows)
        return _Block(Rows(self.schema, rows.take(first), len(first)), hashes[first], flags[first])

    def _append(self, block: _Block) -> None:
        tail = [block]
        while self._blocks and len(self._blocks[-1]) < 2 * sum(map(len, tail)):
            tail.insert(0, self._blocks.pop())
        self._blocks.append(tail[0] if len(tail) == 1 else self._united(tail))

    def _united(self, blocks: Sequence[_Block]) -> _Block:
        batches = [record_batch(self.schema, block.rows.columns, len(block)) for block in blocks]
        return _Block(
            Rows.of(self.schema, batches),
            np.concatenate([block.hashes for block in blocks]),
            np.concatenate([block.flags for block in blocks]),
        )
