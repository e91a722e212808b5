"""Where a row stands in its partition: row_number, rank, dense_rank, percent_rank, cume_dist and ntile."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.kernels.columns import Indices
from reshape.operators.windows.description import WindowFunction
from reshape.operators.windows.frame import Windows


class _Standing(WindowFunction):
    """Reads no column: the order alone decides."""

    __slots__ = ()

    kind: ClassVar[pa.DataType] = pa.int32()

    @property
    def reach(self) -> int | None:
        return 0

    def output_type(self, fields: Sequence[pa.Field]) -> pa.DataType:
        return self.kind

    def compute(self, windows: Windows, columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
        return pa.array(self.standing(windows).astype(self.kind.to_pandas_dtype(), copy=False))

    @abstractmethod
    def standing(self, windows: Windows) -> npt.NDArray[np.generic]:
        """The values, maybe in a wider type."""


@dataclass(frozen=True, slots=True)
class RowNumber(_Standing):
    def standing(self, windows: Windows) -> Indices:
        return windows.row_numbers

    def text(self, names: Sequence[str]) -> str:
        return "row_number()"


@dataclass(frozen=True, slots=True)
class Rank(_Standing):
    def standing(self, windows: Windows) -> Indices:
        return _ranks(windows)


@dataclass(frozen=True, slots=True)
class DenseRank(_Standing):
    @property
    def carries(self) -> bool:
        return True

    def standing(self, windows: Windows) -> Indices:
        return windows.peer_numbers

    def text(self, names: Sequence[str]) -> str:
        return "dense_rank()"


@dataclass(frozen=True, slots=True)
class PercentRank(_Standing):
    kind: ClassVar[pa.DataType] = pa.float64()

    def standing(self, windows: Windows) -> npt.NDArray[np.float64]:
        # The only row of a partition has 0 over 1.
        return (_ranks(windows) - 1) / np.maximum(windows.partitions.sizes - 1, 1)

    def text(self, names: Sequence[str]) -> str:
        return "percent_rank()"


@dataclass(frozen=True, slots=True)
class CumeDist(_Standing):
    kind: ClassVar[pa.DataType] = pa.float64()

    def standing(self, windows: Windows) -> npt.NDArray[np.float64]:
        not_after = windows.peers.end - windows.partitions.first
        shares: npt.NDArray[np.float64] = not_after / windows.partitions.sizes
        return shares

    def text(self, names: Sequence[str]) -> str:
        return "cume_dist()"


@dataclass(frozen=True, slots=True)
class NTile(_Standing):
    """So many buckets of rows; the first ones have a row more where it does not divide evenly."""

    buckets: int

    @classmethod
    def examples(cls) -> tuple[WindowFunction, ...]:
        return (cls("ntile", 3), cls("ntile of many", 1_000))

    def standing(self, windows: Windows) -> Indices:
        small, larger = np.divmod(windows.partitions.sizes, self.buckets)
        rows = windows.row_numbers - 1
        in_larger = larger * (small + 1)
        behind = larger + (rows - in_larger) // np.maximum(small, 1)
        buckets: Indices = np.where(rows < in_larger, rows // (small + 1), behind) + 1
        return buckets

    def text(self, names: Sequence[str]) -> str:
        return f"ntile({self.buckets})"


def _ranks(windows: Windows) -> Indices:
    return windows.peers.first - windows.partitions.first + 1
