"""What a build side knows of each of its rows besides the row: an id, whether it is a replica, whether it has matched.

Parallel to the rows and in their order. They come in parts, as rows do, and become one array each when they are used.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from reshape.kernels.columns import Indices
from reshape.kernels.hashing import Mask

# Every object numbers its rows from a random place: two of them meet with a chance of 1 in 2**30 even after 2**30 rows
# each, and no worker has to be told who it is.
_ID_BITS = 61


class Marks(NamedTuple):
    """Marks of some rows. ``replicas`` are copies of rows that their owner still has."""

    ids: Indices
    replicas: Mask
    matched: Mask

    def take(self, rows: Indices) -> Marks:
        return Marks(self.ids[rows], self.replicas[rows], self.matched[rows])

    def copied(self) -> Marks:
        """With flags that may be changed; those that came over the wire may not."""
        return Marks(self.ids, self.replicas.copy(), self.matched.copy())


class RowMarks:
    """The marks of all rows of one owner at one worker."""

    def __init__(self) -> None:
        self._next_id = secrets.randbits(_ID_BITS)
        self._parts: list[Marks] = []
        self._size = 0
        # Matches of rows that have not come yet: state may be merged in any order.
        self._early: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        return 10 * self._size

    @property
    def early_matches(self) -> int:
        """Matches of rows that have not come."""
        return len(self._early)

    def number(self, rows: int) -> Marks:
        """Marks for rows that nobody has taken in before."""
        ids = np.arange(self._next_id, self._next_id + rows, dtype=np.int64)
        self._next_id += rows
        return Marks(ids, np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_))

    def append(self, marks: Marks) -> None:
        self._parts.append(marks)
        self._size += len(marks.ids)

    def clear(self) -> None:
        """Forgets all rows, not the matches of those that have not come."""
        self._parts, self._size = [], 0

    def whole(self) -> Marks:
        """The marks of all rows, in one array each that may be changed in place."""
        if len(self._parts) != 1:
            empty = Marks(np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0, np.bool_))
            parts = self._parts or [empty]
            self._parts = [Marks(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))]
        return self._parts[0]

    def has_replicas(self) -> bool:
        return any(part.replicas.any() for part in self._parts)

    def meet(self, marks: Marks) -> Indices | None:
        """Rows that come again: their marks are merged. Which of the rows are new; None when all are."""
        # Only what was exported can come twice, so a state made of own rows alone needs no search.
        if not self._size or not (marks.replicas.any() or self.has_replicas()):
            return None
        whole = self.whole()
        places = pd.Index(whole.ids).get_indexer(pd.Index(marks.ids))
        known = np.flatnonzero(places >= 0)
        if not len(known):
            return None
        whole.matched[places[known]] |= marks.matched[known]
        whole.replicas[places[known]] &= marks.replicas[known]
        return np.flatnonzero(places < 0)

    def match(self, ids: list[Indices]) -> None:
        """Rows that found a match elsewhere, by id, whether they have come or not."""
        if ids:
            self._early = np.concatenate([self._early, *ids])
        if not len(self._early) or not self._size:
            return
        whole = self.whole()
        places = pd.Index(whole.ids).get_indexer(pd.Index(self._early))
        whole.matched[places[places >= 0]] = True
        self._early = self._early[places < 0]
