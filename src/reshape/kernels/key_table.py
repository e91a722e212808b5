"""A table that numbers keys, and grows: each number is found by hash and checked on the real key values.

Keys are numbered from 0 in the order in which they first come; only of those that come together, the second key of a
hash is numbered after all first ones. The table does not hold them: whoever does keeps them in the order of their
numbers, and shows those that are known. Different keys with the same hash (rare, but certain at some size) are told
apart by further tables: one for the second key of each hash, one for the third.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Protocol

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices
from reshape.kernels.hash_table import HashTable
from reshape.kernels.hashing import U64, Mask, is_injective
from reshape.kernels.keys import KeyColumns, first_rows


class KnownKeys(Protocol):
    """The keys that have a number, wherever they are kept."""

    def equal(self, keys: KeyColumns, rows: Indices, numbers: Indices) -> Mask:
        """Whether rows of `keys` have the keys of these numbers."""
        ...


class KeptTogether:
    """Known keys in one block, in the order of their numbers."""

    def __init__(self, columns: Sequence[pa.Array], size: int) -> None:
        self._keys = KeyColumns(columns, size)

    def equal(self, keys: KeyColumns, rows: Indices, numbers: Indices) -> Mask:
        return keys.equal(rows, self._keys, numbers)


def is_in_order(new: Indices) -> bool:
    """Whether rows with new keys, as a table gives them, are in the order in which they came."""
    return bool((np.diff(new) > 0).all())


class KeyTable:
    """Numbers by key. `types`: of the key columns. `trusted`: whether the hashes are those of `hash_rows`."""

    def __init__(self, types: Sequence[pa.DataType], *, trusted: bool = True) -> None:
        self._size = 0
        self._tables = [HashTable()]
        # Null is a key here, and its hash is that of some value: only as long as none has come nothing is compared.
        self._exact = trusted and is_injective(types)

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self._tables)

    def number(self, hashes: U64, keys: KeyColumns, known: KnownKeys) -> tuple[Indices, Indices]:
        """The number of each row, and the rows whose keys are new, in the order of their numbers."""
        before = self._size
        self._exact = self._exact and keys.nulls() is None
        numbers = np.empty(len(hashes), dtype=np.int64)
        new = np.zeros(0, dtype=np.int64)
        rows: Indices | None = None
        for depth in count():
            if depth == len(self._tables):
                self._tables.append(HashTable())
            found = self._tables[depth].number(hashes if rows is None else hashes[rows], self._size)
            fresh = np.flatnonzero(found >= self._size)
            added = int(found.max(initial=self._size - 1)) + 1 - self._size
            first = fresh[first_rows(found[fresh] - self._size, added)]
            new = np.concatenate([new, first if rows is None else rows[first]])
            self._size += added
            if rows is None:
                numbers = found
                rows = np.arange(len(hashes), dtype=np.int64)
            else:
                numbers[rows] = found
            if self._exact:
                break
            rows = self._wrong(keys, rows, numbers, new, before, known)
            if not len(rows):
                break
        return numbers, new

    def find(self, hashes: U64, keys: KeyColumns, known: KnownKeys) -> Indices:
        """The number of each row, -1 where its key is not here."""
        numbers = self._tables[0].find(hashes)
        if self._exact and keys.nulls() is None:
            return numbers
        rows = np.flatnonzero(numbers >= 0)
        for depth in range(1, len(self._tables) + 1):
            rows = rows[~known.equal(keys, rows, numbers[rows])] if len(rows) else rows
            if not len(rows):
                break
            numbers[rows] = self._tables[depth].find(hashes[rows]) if depth < len(self._tables) else -1
            rows = rows[numbers[rows] >= 0]
        return numbers

    def _wrong(
        self, keys: KeyColumns, rows: Indices, numbers: Indices, new: Indices, before: int, known: KnownKeys
    ) -> Indices:
        """The rows that do not have the key of their number; known keys are compared, and rows with new ones."""
        given = numbers[rows]
        old = given < before
        asked, theirs = rows[old], given[old]
        wrong = asked[~known.equal(keys, asked, theirs)] if len(asked) else asked
        asked = rows[~old]
        firsts = new[given[~old] - before]
        asked, firsts = asked[asked != firsts], firsts[asked != firsts]
        if len(asked):
            wrong = np.concatenate([wrong, asked[~keys.equal(asked, keys, firsts)]])
        return wrong
