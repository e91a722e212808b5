"""Finds rows by key: a hash table over 64-bit hashes, in which every answer is checked on the real key values.

Each distinct key has a slot, numbered from 0. Different keys with the same hash (rare, but certain at some size) have
slots that are chained: the table knows the first, and a key that differs from a slot's goes on to the next.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from reshape.kernels.columns import Indices
from reshape.kernels.hashing import U64
from reshape.kernels.keys import KeyColumns, first_rows


class KeyIndex:
    """The slots of some rows of `keys`.

    `rows` are the rows to index (None: all); `exact` says that equal hashes imply equal keys, so nothing is compared.
    """

    def __init__(self, hashes: U64, keys: KeyColumns, *, exact: bool, rows: Indices | None = None) -> None:
        self._keys = keys
        self._exact = exact
        self.rows = np.arange(len(hashes), dtype=np.int64) if rows is None else rows
        found = hashes if rows is None else hashes[rows]
        codes, uniques = pd.factorize(found)
        self._table: Any = pd.Index(uniques)
        slots = codes.astype(np.int64, copy=False)
        self._next: Indices | None = None
        # The first row of each slot stands for its key.
        self.representatives = self.rows[first_rows(slots, len(uniques))]
        self.slots = slots if exact else self._resolved(found, slots)

    def __len__(self) -> int:
        """The number of distinct keys."""
        return len(self.representatives)

    @property
    def nbytes(self) -> int:
        # The hash table behind a pandas index keeps a key and a value for each entry, at most three quarters full.
        return int(self.slots.nbytes + self.rows.nbytes + self.representatives.nbytes + 40 * len(self._table))

    def find(self, hashes: U64, keys: KeyColumns, rows: Indices | None = None) -> Indices:
        """The slot of each of these rows of `keys` (None: of all), -1 where its key is not here."""
        wanted = hashes if rows is None else hashes[rows]
        slots: Indices = self._table.get_indexer(wanted).astype(np.int64, copy=False)
        if self._exact or len(self) == 0:
            return slots
        unsettled = np.flatnonzero(slots >= 0)
        while len(unsettled):
            candidates = slots[unsettled]
            asked = unsettled if rows is None else rows[unsettled]
            wrong = ~keys.equal(asked, self._keys, self.representatives[candidates])
            if not wrong.any():
                break
            unsettled, candidates = unsettled[wrong], candidates[wrong]
            slots[unsettled] = -1 if self._next is None else self._next[candidates]
            unsettled = unsettled[slots[unsettled] >= 0]
        return slots

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

    def _resolved(self, hashes: U64, slots: Indices) -> Indices:
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
