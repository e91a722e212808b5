"""A set of rows that grows: null equals null, NaN equals NaN. Each row carries one flag.

New rows come in small batches and must be known at once: one table numbers them all, in the order in which they came.
The rows themselves are kept in a few blocks, which are put together as they become many: a row is copied log(n) times,
and indexed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices, Rows, record_batch
from reshape.kernels.hashing import U64, Mask, hash_rows
from reshape.kernels.key_table import KeyTable
from reshape.kernels.keys import KeyColumns, normalised
from reshape.operators.base import KeySet

HashFunction = Callable[[Sequence[pa.Array]], U64]

# So many blocks of about one size are put together: some four copies of each row on the way to millions, and a dozen
# blocks to look into.
_BLOCKS_AT_ONCE = 5


class _Block:
    """Different rows."""

    def __init__(self, rows: Rows, hashes: U64, flags: Mask) -> None:
        self.rows = rows
        self.hashes = hashes
        self.flags = flags

    @cached_property
    def keys(self) -> KeyColumns:
        return KeyColumns(self.rows.columns, len(self.rows))

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
        self._table = self._empty_table()

    def __len__(self) -> int:
        return sum(len(block) for block in self._blocks)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes + sum(block.rows.nbytes + 9 * len(block) for block in self._blocks)

    def add(self, batch: pa.RecordBatch, flag: bool) -> pa.RecordBatch:
        """Puts rows in; returns those that were not there, each once, as Spark shows them (0.0 for -0.0).

        The flag is for new rows. Those that were there keep theirs.
        """
        return self._add(batch, np.full(batch.num_rows, flag), meet=False)

    def merge(self, batch: pa.RecordBatch, flags: Mask) -> None:
        """Puts rows in that another set had, with their flags; each row appears in the batch once."""
        self._add(batch, flags, meet=True)

    def _add(self, batch: pa.RecordBatch, flags: Mask, *, meet: bool) -> pa.RecordBatch:
        columns = [normalised(column) for column in batch.columns]
        hashes = self._hash(columns)
        numbers, new = self._table.number(hashes, KeyColumns(columns, batch.num_rows), self)
        if meet:
            for block, met, places in self._placed(numbers):
                block.flags[places] = self._meet(block.flags[places], flags[met])
        rows = Rows(self.schema, columns, batch.num_rows)
        # In the order of their numbers, which is not that of the rows where hashes collide.
        as_they_are = len(new) == len(rows) and bool((new[1:] > new[:-1]).all())
        added = record_batch(self.schema, columns, len(new)) if as_they_are else rows.take_batch(new)
        if len(new):
            self._append(_Block(Rows(self.schema, added.columns, len(new)), hashes[new], flags[new]))
        return added

    def equal(self, keys: KeyColumns, rows: Indices, numbers: Indices) -> Mask:
        """Whether these rows are those of the set with these numbers."""
        if len(self._blocks) == 1:
            return keys.equal(rows, self._blocks[0].keys, numbers)
        same = np.zeros(len(rows), dtype=np.bool_)
        for block, asked, places in self._placed(numbers):
            same[asked] = keys.equal(rows[asked], block.keys, places)
        return same

    def _placed(self, numbers: Indices) -> Iterator[tuple[_Block, Indices, Indices]]:
        """For each block: which of the numbers are in it, and where."""
        start = 0
        for block in self._blocks:
            within = np.flatnonzero((numbers >= start) & (numbers < start + len(block)))
            if len(within):
                yield block, within, numbers[within] - start
            start += len(block)

    def holds(self, batch: pa.RecordBatch) -> Mask:
        """Which of the rows are in the set."""
        columns = [normalised(column) for column in batch.columns]
        return self._table.find(self._hash(columns), KeyColumns(columns, batch.num_rows), self) >= 0

    def rows(self) -> tuple[Rows, Mask]:
        """All rows in one block, with their flags."""
        if len(self._blocks) > 1:
            self._blocks = [self._united(self._blocks)]
        if not self._blocks:
            return Rows.of(self.schema, []), np.zeros(0, dtype=np.bool_)
        return self._blocks[0].rows, self._blocks[0].flags

    @property
    def all_flagged(self) -> bool:
        return all(bool(block.flags.all()) for block in self._blocks)

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
        self._blocks, self._table = [], self._empty_table()
        if len(kept):
            block = _Block(Rows(self.schema, rows.take(kept), len(kept)), hashes[kept], flags[kept])
            self._table.number(block.hashes, block.keys, self)
            self._blocks = [block]

    def _empty_table(self) -> KeyTable:
        return KeyTable(self.schema.types, trusted=self._hash is hash_rows)

    def _append(self, block: _Block) -> None:
        self._blocks.append(block)
        while len(self._blocks) >= _BLOCKS_AT_ONCE and len(self._blocks[-_BLOCKS_AT_ONCE]) < _BLOCKS_AT_ONCE * len(
            self._blocks[-1]
        ):
            self._blocks[-_BLOCKS_AT_ONCE:] = [self._united(self._blocks[-_BLOCKS_AT_ONCE:])]

    def _united(self, blocks: Sequence[_Block]) -> _Block:
        batches = [record_batch(self.schema, block.rows.columns, len(block)) for block in blocks]
        return _Block(
            Rows.of(self.schema, batches),
            np.concatenate([block.hashes for block in blocks]),
            np.concatenate([block.flags for block in blocks]),
        )
