"""A bounded summary of the heaviest keys (Space-Saving, Metwally et al. 2005).

Written here because the brain takes nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping

from reshape.control.routing import Key


class HeavyKeys:
    """Counts per key in a fixed number of places.

    A key that finds no place takes that of the lightest key and inherits its count as possible error, so a count is
    never too low, and any key with more than total/places rows is present.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._counts: dict[Key, int] = {}
        self._errors: dict[Key, int] = {}
        self.total = 0

    def add(self, rows: Mapping[Key, int]) -> None:
        for key, count in rows.items():
            if count <= 0:
                continue
            self.total += count
            if key in self._counts:
                self._counts[key] += count
            elif len(self._counts) < self._places:
                self._counts[key] = count
                self._errors[key] = 0
            else:
                lightest = min(self._counts, key=self._counts.__getitem__)
                inherited = self._counts.pop(lightest)
                del self._errors[lightest]
                self._counts[key] = inherited + count
                self._errors[key] = inherited

    def fade(self) -> None:
        """Halve all counts, so that recent rows outweigh those of long ago."""
        self._counts = {key: count // 2 for key, count in self._counts.items() if count > 1}
        self._errors = {key: self._errors[key] // 2 for key in self._counts}
        self.total //= 2

    def certain(self) -> dict[Key, int]:
        """Rows that each key has for sure, heaviest first."""
        sure = {key: count - self._errors[key] for key, count in self._counts.items()}
        return dict(sorted(sure.items(), key=lambda item: (-item[1], repr(item[0]))))

    def shares(self) -> dict[Key, float]:
        """Certain rows as a fraction of all rows seen, heaviest first."""
        if self.total == 0:
            return {}
        return {key: count / self.total for key, count in self.certain().items() if count > 0}
