"""Numbers by value, for values that lie close together: a place for each value between the least and the largest.

No hash and nothing to compare: about a quarter of the time of a hash table.
"""

from __future__ import annotations

import numpy as np

from reshape.kernels.columns import Indices
from reshape.kernels.hashing import U64

# Places for each value at the most: the table then takes no more memory than a hash table of the same values.
_SPAN_PER_VALUE = 8
# A table of so many places fits the second-level cache, however few values there are.
_SMALL_SPAN = 65_536


class DirectTable:
    """The words are whole numbers of 64 bits, signed or not: both wrap around alike, so only differences count."""

    __slots__ = ("_before", "_numbers", "codes", "size")

    def __init__(self, words: U64, least: int, span: int) -> None:
        """`codes` are the numbers of the words, from 0 in the order in which values first come; `size` counts them."""
        # One place at either end stands for all other values.
        self._before = np.uint64((least - 1) % 2**64)
        self._numbers = np.full(span + 2, -1, dtype=np.int64)
        places = (words - self._before).view(np.int64)
        rows = np.arange(len(words), dtype=np.int64)
        # Written backwards, so that the first row of each value stays.
        self._numbers[places[::-1]] = rows[::-1]
        is_first = self._numbers[places] == rows
        self.codes = rows
        self.size = int(np.count_nonzero(is_first))
        if self.size < len(words):
            self._numbers[places[is_first]] = np.arange(self.size, dtype=np.int64)
            self.codes = self._numbers[places]

    @classmethod
    def of(cls, words: U64) -> DirectTable | None:
        """None where the values lie too far apart."""
        if not len(words):
            return None
        signed = words.view(np.int64)
        least = int(signed.min())
        span = int(signed.max()) - least + 1
        return cls(words, least, span) if span <= max(_SMALL_SPAN, _SPAN_PER_VALUE * len(words)) else None

    @property
    def nbytes(self) -> int:
        return int(self._numbers.nbytes)

    def find(self, words: U64) -> Indices:
        """The number of each word, -1 where it is not here."""
        # What lies outside, on whichever side after wrapping around, is clipped to one of the ends.
        places = (words - self._before).view(np.int64)
        return self._numbers.take(places, mode="clip")
