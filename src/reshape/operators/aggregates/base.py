"""What an aggregate is: partial states that rows update, that merge, and that finish as a value.

A partial state is one row of Arrow columns for each group. Every aggregate works on all groups at once; a group is a
number, and a group without rows must come out as an empty one does (a global aggregate of nothing is such a group).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.kernels.codes import order_of_codes
from reshape.kernels.columns import Indices
from reshape.kernels.hashing import Mask, validity
from reshape.operators.errors import UnsupportedAggregate

OPERATOR = "group-by"


class Groups:
    """Which group each row belongs to: codes from 0 to count - 1."""

    def __init__(self, codes: Indices, count: int) -> None:
        self.codes = codes
        self.count = count

    @cached_property
    def sizes(self) -> Indices:
        """Rows in each group."""
        return np.bincount(self.codes, minlength=self.count).astype(np.int64)

    @cached_property
    def order(self) -> Indices:
        """The rows, group by group, each group in order of arrival."""
        return order_of_codes(self.codes, self.count)

    def only(self, rows: Mask | Indices) -> Groups:
        """The same groups with some of the rows."""
        return Groups(self.codes[rows], self.count)

    def sums(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The sum of a weight over each group."""
        return np.bincount(self.codes, weights=weights, minlength=self.count).astype(np.float64, copy=False)

    def first_rows(self) -> Indices:
        """The first row of each group, -1 where there is none."""
        first = np.full(self.count, -1, dtype=np.int64)
        first[self.codes[::-1]] = np.arange(len(self.codes) - 1, -1, -1)
        return first

    def last_rows(self) -> Indices:
        """The last row of each group, -1 where there is none."""
        last = np.full(self.count, -1, dtype=np.int64)
        last[self.codes] = np.arange(len(self.codes))
        return last


class AggregateLogic(ABC):
    """One aggregate of one column (or of none, or of several)."""

    # Whether a partial state is of bounded size, so that combining before sending makes less to send.
    algebraic: bool = True
    # Whether merged states are smaller than those they were made of; lists only become fewer.
    merging_shrinks: bool = True
    # Whether the value of a group may be null, as Spark's schema says it.
    nullable: bool = True

    state_types: Sequence[pa.DataType]
    output_type: pa.DataType

    @abstractmethod
    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Rows to partial states."""

    @abstractmethod
    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Several partial states of a group to one."""

    @abstractmethod
    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        """The values to show."""

    def sums(self, states: Sequence[pa.Array]) -> list[npt.NDArray[np.float64]]:
        """The states as sums that grow with the input: one for a count or a sum, two for a mean, the first over the
        second; none where the value of a part of the input says nothing about that of the whole."""
        return []


def present(array: pa.Array, groups: Groups) -> tuple[pa.Array, Groups]:
    """The rows that have a value."""
    valid = validity(array)
    if valid is None:
        return array, groups
    return array.filter(pa.array(valid)), groups.only(valid)


def complete(columns: Sequence[pa.Array], groups: Groups) -> tuple[list[pa.Array], Groups]:
    """The rows that have a value in every column."""
    keep: Mask | None = None
    for column in columns:
        valid = validity(column)
        if valid is not None:
            keep = valid if keep is None else keep & valid
    if keep is None:
        return list(columns), groups
    return [column.filter(pa.array(keep)) for column in columns], groups.only(keep)


def as_doubles(array: pa.Array) -> npt.NDArray[np.float64]:
    """The values of a numeric array without nulls, as Spark's cast to double gives them."""
    doubles: npt.NDArray[np.float64] = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return doubles


def as_sums(states: Sequence[pa.Array]) -> list[npt.NDArray[np.float64]]:
    """States that are sums themselves, 0 where there was nothing to add."""
    return [np.nan_to_num(as_doubles(state)) for state in states]


def nullable(values: npt.NDArray[np.generic], absent: Mask, kind: pa.DataType) -> pa.Array:
    """An Arrow array with nulls where there is nothing to show."""
    return pa.array(values, type=kind, mask=absent if absent.any() else None)


def unsupported(aggregate: str, field: pa.Field) -> UnsupportedAggregate:
    return UnsupportedAggregate(OPERATOR, aggregate, field.name, str(field.type))
