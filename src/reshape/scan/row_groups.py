"""Which row groups of a file belong to a split, and which of them no row can come from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from operator import ge, gt, le, lt
from typing import Any

import pyarrow.types as pat

from reshape.expressions.tree import Call, ColumnRef, Expression, Literal
from reshape.scan.layout import StoredColumn
from reshape.scan.scan import Keep, Scan

# For `column <operator> constant`: what some row needs of the group's smallest and largest value. Columns of integers
# and dates only: their statistics are exact and ordered as Spark orders them.
_SMALLEST: dict[str, Callable[[int, int], bool]] = {"LessThan": lt, "LessThanOrEqual": le, "EqualTo": le}
_LARGEST: dict[str, Callable[[int, int], bool]] = {"GreaterThan": gt, "GreaterThanOrEqual": ge, "EqualTo": ge}
_MIRRORED = {
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "EqualTo": "EqualTo",
}


def middle_byte(group: Any) -> int:
    """The byte that decides which split a row group is read in: parquet-java's rule, that Spark follows.

    The group starts with the first page of its first column, the dictionary page if there is one before the data, and
    is as long as its compressed columns.
    """
    first = group.column(0)
    start = first.data_page_offset
    if first.has_dictionary_page and first.dictionary_page_offset is not None:
        start = min(start, first.dictionary_page_offset)
    size = sum(group.column(i).total_compressed_size for i in range(group.num_columns))
    return int(start + size // 2)


def groups_between(metadata: Any, start: int, end: int) -> list[int]:
    """The row groups of the split from byte `start` up to `end`, in the file's order."""
    groups = range(metadata.num_row_groups)
    return [group for group in groups if start <= middle_byte(metadata.row_group(group)) < end]


def groups_to_read(metadata: Any, groups: Sequence[int], scan: Scan, stored: Sequence[StoredColumn]) -> list[int]:
    """Without the groups that by their statistics hold no row that the scan's first filters keep."""
    bounds = list(_bounds(scan))
    return [
        group
        for group in groups
        if all(_may_hold(metadata.row_group(group), stored, name, number, limit) for name, number, limit in bounds)
    ]


def _bounds(scan: Scan) -> Iterator[tuple[str, int, int]]:
    """The comparisons of a file column with a constant that each row must pass, as operator, column and constant."""
    for step in scan.steps:
        if not isinstance(step, Keep):
            return
        for part in _conjuncts(step.predicate):
            if not isinstance(part, Call) or part.function not in _MIRRORED:
                continue
            left, right = part.arguments
            name = part.function
            if isinstance(left, Literal):
                left, right, name = right, left, _MIRRORED[name]
            if isinstance(left, ColumnRef) and isinstance(right, Literal) and _comparable(left, right):
                yield name, left.number, right.value


def _comparable(column: ColumnRef, constant: Literal) -> bool:
    return type(constant.value) is int and bool(pat.is_integer(column.type) or pat.is_date32(column.type))


def _conjuncts(predicate: Expression) -> Iterator[Expression]:
    if isinstance(predicate, Call) and predicate.function == "And":
        for argument in predicate.arguments:
            yield from _conjuncts(argument)
    else:
        yield predicate


def _may_hold(group: Any, stored: Sequence[StoredColumn], name: str, number: int, limit: int) -> bool:
    if number >= len(stored):  # a partition column: Spark has pruned by it already
        return True
    column = stored[number]
    if column.name is None:
        return False  # all null, and a comparison with null keeps no row
    chunk = group.column(column.leaves[0])
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None or not statistics.has_min_max or _unsigned(statistics):
        return True
    lowest, highest = statistics.min_raw, statistics.max_raw
    small_enough = name not in _SMALLEST or _SMALLEST[name](lowest, limit)
    return small_enough and (name not in _LARGEST or _LARGEST[name](highest, limit))


def _unsigned(statistics: Any) -> bool:
    """Raw statistics of unsigned integers are given as signed ones."""
    return not json.loads(statistics.logical_type.to_json()).get("isSigned", True)
