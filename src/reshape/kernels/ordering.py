"""The order of rows, as in Spark's ORDER BY."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column (by number), its direction, and where its nulls go. Spark's defaults: ascending, nulls first."""

    column: int
    ascending: bool = True
    nulls_first: bool = True

    @classmethod
    def descending(cls, column: int, *, nulls_first: bool = False) -> SortKey:
        """Spark's `desc`: nulls last unless told otherwise."""
        return cls(column, ascending=False, nulls_first=nulls_first)


@dataclass(frozen=True, slots=True)
class Ordering:
    """Keys, the most significant first. NaN is the greatest number; strings are ordered by their bytes."""

    keys: tuple[SortKey, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("an ordering needs at least one key")

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(key.column for key in self.keys)
