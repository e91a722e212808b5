"""Finds rows by key: a hash table over 64-bit hashes, in which every answer is checked on the real key values. Keys
that are whole numbers close together need none: their place follows from their value.

Each distinct key has a slot, numbered from 0. Different keys with the same hash (rare, but certain at some size) have
slots that are chained: the table knows the first, and a key that differs from a slot's goes on to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pandas as pd

from reshape.kernels.columns import Indices
from reshape.kernels.direct_table import DirectTable
from reshape.kernels.hash_table import HashTable
from reshape.kernels.hashing import U64
from reshape.kernels.keys import KeyColumns, first_rows

# Hashes cost about as much as finding them: made only where they are needed.
MakeHashes = Callable[[], U64]


class KeyIndex:
    """The slots of some rows of `keys`.

    `rows` are the rows to index (None: all); `exact` says that equal hashes imply equal keys, and equal words imply
    equal hashes, so nothing is compared.
    """

    def __init__(self, hashes: MakeHashes, keys: KeyColumns, *, exact: bool, rows: Indices | None = None) -> None:
        self._keys = keys
        self._exact = exact
        self._all_rows = rows is None
        self.rows = np.arange(keys.size, dtype=np.int64) if rows is None else rows
        self._next: Indices | None = None
        self._hash_table = HashTable()
        words = keys.single_words() if exact else None
        self._direct = None if words is None else DirectTable.of(words if rows is None else words[rows])
        if self._direct is not None:
            self.slots, count = self._direct.codes, self._direct.size
            self.representatives = self._first_rows(self.slots, count)
            return
        indexed = hashes() if rows is None else hashes()[rows]
        slots = self._hash_table.number(indexed, 0)
        # The first row of each slot stands for its key.
        self.representatives = self._first_rows(slots, len(self._hash_table))
        self.slots = slots if exact else self._resolved(slots)

    def __len__(self) -> int:
        """The number of distinct keys."""
        return len(self.representatives)

    @property
    def nbytes(self) -> int:
        table = self._hash_table.nbytes if self._direct is None else self._direct.nbytes
        return int(self.slots.nbytes + self.rows.nbytes + self.representatives.nbytes + table)

    def find(self, hashes: MakeHashes, keys: KeyColumns) -> Indices:
        """The slot of each row of `keys`, -1 where its key is not here. Rows that are null get any slot."""
        if self._direct is not None:
            words = keys.single_words()
            assert words is not None, "both sides of a key are of one type"
            return self._direct.find(words)
        slots = self._hash_table.find(hashes())
        if self._exact or len(self) == 0:
            return slots
        unsettled = np.flatnonzero(slots >= 0)
        while len(unsettled):
            candidates = slots[unsettled]
            wrong = ~keys.equal(unsettled, self._keys, self.representatives[candidates])
            if not wrong.any():
                break
            unsettled, candidates = unsettled[wrong], candidates[wrong]
            slots[unsettled] = -1 if self._next is None else self._next[candidates]
            unsettled = unsettled[slots[unsettled] >= 0]
        return slots

    def _first_rows(self, slots: Indices, count: int) -> Indices:
        return self.rows if count == len(slots) else self.rows[first_rows(slots, count)]

    def rows_of(self, slots: Indices) -> Indices:
        """The first row of each of these slots; -1 gives anything."""
        return slots if self.unique and self._all_rows else self.representatives[slots]

    @cached_property
    def counts(self) -> Indices:
        """How many rows each slot has."""
        return np.bincount(self.slots, minlength=len(self)).astype(np.int64)

    @cached_property
    def starts(self) -> Indices:
        """Where the rows of each slot begin in `ordered`."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def ordered(self) -> Indices:
        """The indexed rows, those of one slot side by side, in their order of arrival."""
        if self.unique:
            return self.representatives
        return self.rows[np.argsort(self.slots, kind="stable")]

    @property
    def unique(self) -> bool:
        """Whether no key has more than one row."""
        return len(self) == len(self.slots)

    def _resolved(self, slots: Indices) -> Indices:
        """Gives keys that only share a hash slots of their own, chained behind the first; one round a link."""
        last = np.arange(len(self.representatives), dtype=np.int64)  # the end of the chain of each hash
        hash_of_row = slots
        unsettled = np.arange(len(slots), dtype=np.int64)
        while True:
            wrong = ~self._keys.equal(self.rows[unsettled], self._keys, self.representatives[slots[unsettled]])
            unsettled = unsettled[wrong]
            if not len(unsettled):
                return slots
            if self._next is None:
                slots = slots.copy()
                self._next = np.full(len(self.representatives), -1, dtype=np.int64)
            codes, chains = pd.factorize(hash_of_row[unsettled])
            added = np.arange(len(chains), dtype=np.int64) + len(self.representatives)
            self._next = np.concatenate([self._next, np.full(len(chains), -1, dtype=np.int64)])
            self._next[last[chains]] = added
            last[chains] = added
            self.representatives = np.concatenate(
                [self.representatives, self.rows[unsettled[first_rows(codes.astype(np.int64), len(chains))]]]
            )
            slots[unsettled] = added[codes]
