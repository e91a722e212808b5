"""Is a result the one that Spark gives? Rows as a multiset, sorted results in order too."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from .steps import Case

# Sums of floats depend on the order of additions, and variances of equal values need not be exactly nothing.
RELATIVE = 1e-9
ABSOLUTE = 1e-9

Row = tuple[Any, ...]


def check(case: Case, got: pa.Table, want: pa.Table) -> None:
    """Raise an AssertionError that shows the flow unless both results are the same."""
    problem = _difference(case, got, want)
    assert problem is None, f"{problem}\n{case}"


def _difference(case: Case, got: pa.Table, want: pa.Table) -> str | None:
    promised = [(column.name, _shape(column.type)) for column in case.columns]
    for whose, table in (("Spark's", want), ("the flow's", got)):
        types = [(field.name, _shape(field.type)) for field in table.schema]
        if types != promised:
            return f"{whose} columns are {types}, not {promised}"
    exact = [column.name for column in case.columns if column.exact]
    loose = [column.name for column in case.columns if not column.exact]
    mine, theirs = _rows(got, exact), _rows(want, exact)
    if Counter(mine) != Counter(theirs):
        missing, extra = Counter(theirs) - Counter(mine), Counter(mine) - Counter(theirs)
        return (
            f"{len(mine)} rows instead of {len(theirs)} in {exact}; {missing.total()} are missing, such as "
            f"{_few(missing)}; {extra.total()} are too many, such as {_few(extra)}"
        )
    if case.order and _rows(got, case.order) != _rows(want, case.order):
        pairs = zip(_rows(got, case.order), _rows(want, case.order), strict=True)
        place, (ours, spark) = next((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
        return f"out of order at row {place}: {ours} instead of {spark} in {case.order}"
    return _loose_difference(_by_key(mine, _rows(got, loose)), _by_key(theirs, _rows(want, loose))) if loose else None


def _by_key(keys: list[Row], rows: list[Row]) -> dict[Row, list[Row]]:
    groups: dict[Row, list[Row]] = defaultdict(list)
    for key, row in zip(keys, rows, strict=True):
        groups[key].append(row)
    return groups


def _loose_difference(mine: dict[Row, list[Row]], theirs: dict[Row, list[Row]]) -> str | None:
    for key, wanted in theirs.items():
        left = list(mine[key])
        for row in sorted(wanted, key=repr):
            found = next((other for other in left if _close(other, row)), None)
            if found is None:
                return f"no row like {row} for {key}, but {left[:5]}"
            left.remove(found)
    return None


def _close(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        return len(mine) == len(theirs) and all(_close(a, b) for a, b in zip(mine, theirs, strict=True))
    if isinstance(mine, float) and isinstance(theirs, float):
        return math.isclose(mine, theirs, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return bool(mine == theirs)


def _rows(table: pa.Table, names: Any) -> list[Row]:
    """Rows of some columns, with values that compare as Spark compares: NaN is one value and zero has no sign."""
    if not names:
        return [()] * table.num_rows
    columns = [[_plain(value) for value in _quick(table[name]).to_pylist()] for name in names]
    return list(zip(*columns, strict=True))


def _quick(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Instants as numbers: thousands of Python datetimes with a time zone take their time."""
    if pat.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pat.is_date(column.type) else column


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return tuple(sorted((_plain(item) for item in value), key=repr))
    return value


def _shape(kind: pa.DataType) -> str:
    """A type without the time zone that a session shows it in, and without the names within lists."""
    if pat.is_timestamp(kind):
        return "timestamp"
    return f"list of {_shape(kind.value_type)}" if pat.is_list(kind) else str(kind)


def _few(rows: Counter[Row]) -> list[Row]:
    return list(rows)[:3]
