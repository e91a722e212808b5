"""A function of a window as a plan describes it. Columns are numbers of the window's input; `name` is the column of the
result, and `nullable` says whether that may hold nulls, as Spark's schema has it.

Frozen data that travels to tasks. It is computed on all partitions at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import pyarrow as pa

from reshape.kernels.columns import Indices, take
from reshape.operators.windows.frame import WITH_PEERS, Frame, Windows

OPERATOR = "window"


@dataclass(frozen=True, slots=True)
class WindowFunction(ABC):
    """One column that a window adds to its rows."""

    name: str
    nullable: bool = field(default=True, kw_only=True)

    @classmethod
    def examples(cls) -> tuple[WindowFunction, ...]:
        """Some of this kind over column 1, which holds whole numbers: checks of all functions run on these."""
        return (cls(cls.__name__.lower()),)

    @property
    def reads(self) -> tuple[int, ...]:
        """The input columns that it reads."""
        return ()

    @property
    def reach(self) -> int | None:
        """How many rows before and behind a row its value follows from, beside its peers and what `Windows` carries
        from stretch to stretch of a partition. None: from any row, so that a partition is computed as a whole."""
        return None

    @property
    def carries(self) -> bool:
        """Whether its values go on from those of the rows before, beside their number."""
        return False

    def renumbered(self, number: Callable[[int], int]) -> Self:
        """The same function where its columns have other numbers."""
        return self

    @abstractmethod
    def output_type(self, fields: Sequence[pa.Field]) -> pa.DataType:
        """The type of its values, for columns like these; raises `UnsupportedAggregate` where one does not fit."""

    @abstractmethod
    def compute(self, windows: Windows, columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
        """The value of each row. ``columns`` and ``fields`` are those that it reads."""

    def text(self, names: Sequence[str]) -> str:
        """The call as people write it, given the names of the columns that it reads."""
        return f"{type(self).__name__.lower()}({', '.join(names)})"


@dataclass(frozen=True, slots=True)
class OfFrame(WindowFunction):
    """Of one column, over a frame."""

    column: int
    frame: Frame = WITH_PEERS

    @classmethod
    def examples(cls) -> tuple[WindowFunction, ...]:
        frames = (Frame(), WITH_PEERS, Frame("rows", None, 0), Frame("rows", -2, 1), Frame("rows", 1, None))
        return tuple(cls(f"{cls.__name__.lower()}_{n}", 1, frame) for n, frame in enumerate(frames))

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.column,)

    @property
    def reach(self) -> int | None:
        return self.frame.reach

    @property
    def carries(self) -> bool:
        return self.frame.lower is None

    def renumbered(self, number: Callable[[int], int]) -> Self:
        return replace(self, column=number(self.column))

    def text(self, names: Sequence[str]) -> str:
        return f"{type(self).__name__.lower()}({', '.join(names)}) over {self.frame}"


def rows_or_null(column: pa.Array, rows: Indices) -> pa.Array:
    """The values at these rows, null where the row is negative."""
    absent = rows < 0
    return take(column, pa.array(rows, mask=absent if absent.any() else None))
