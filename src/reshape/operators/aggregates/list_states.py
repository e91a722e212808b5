"""States that are lists: many values of a group in one row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reshape.kernels.columns import Indices
from reshape.kernels.hashing import Mask
from reshape.kernels.keys import KeyColumns
from reshape.operators.aggregates.base import Groups


def lists_of(values: pa.Array, groups: Groups, kind: pa.DataType) -> pa.Array:
    """The values of each group as a list. Large lists: a partition may have more than 2**31 values."""
    return listed(values.take(pa.array(groups.order)), groups.sizes, kind)


def listed(values: pa.Array, lengths: Indices, kind: pa.DataType) -> pa.Array:
    """Values that lie group by group, as lists of these lengths."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return pa.LargeListArray.from_arrays(pa.array(offsets), values, type=pa.large_list(kind))


def lengths_of(lists: pa.Array) -> Indices:
    """How many values each list has."""
    lengths: Indices = pc.list_value_length(lists).to_numpy()
    return lengths


def flattened(lists: pa.Array, groups: Groups) -> tuple[pa.Array, Groups]:
    """The values of all lists, each in the group of its list."""
    return lists.flatten(), Groups(np.repeat(groups.codes, lengths_of(lists)), groups.count)


def each_alone(lists: pa.Array) -> Groups:
    """Every list a group of its own."""
    return Groups(np.arange(len(lists), dtype=np.int64), len(lists))


def spark_list(kind: pa.DataType, *, nulls: bool = False) -> pa.DataType:
    """Spark's array type; ``nulls``: whether a value may be null."""
    return pa.list_(pa.field("element", kind, nullable=nulls))


def shown_lists(values: pa.Array, lengths: Indices, kind: pa.DataType, absent: Mask | None = None) -> pa.Array:
    """Lists of a result, null where absent; those have no values."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = pa.array(absent) if absent is not None and absent.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=kind, mask=mask)


def weighed(values: pa.Array, weights: Indices, groups: Groups) -> tuple[pa.Array, Indices, Indices]:
    """The different values of each group, group by group, with the sums of their weights; and how many a group has."""
    pairs, first = KeyColumns([pa.array(groups.codes), values], len(values)).codes()
    # Exact: counts of rows stay far below 2**53.
    sums = np.bincount(pairs, weights=weights, minlength=len(first)).astype(np.int64)
    different = groups.only(first)
    return values.take(pa.array(first[different.order])), sums[different.order], different.sizes


def spread_over(columns: Sequence[pa.Array], groups: Groups) -> tuple[list[pa.Array], Groups]:
    """The values of several lists that are alike in length."""
    return [column.flatten() for column in columns], flattened(columns[0], groups)[1]
