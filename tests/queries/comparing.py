"""Is an answer Spark's? The schema, the rows as a multiset, and their order where the query says it wholly."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql.types import StructType

# Sums of floats depend on the order of additions; a deviation of equal values need not be exactly nothing.
RELATIVE = 1e-9
ABSOLUTE = 1e-9

Row = tuple[Any, ...]


def schema_difference(got: StructType, want: StructType) -> str | None:
    """What differs in names, types or nullability, in words."""
    if got == want:
        return None
    return f"the flow's schema is {_described(got)}; Spark's is {_described(want)}"


def _described(schema: StructType) -> str:
    return ", ".join(
        f"{field.name} {field.dataType.simpleString()}{'' if field.nullable else ' not null'}" for field in schema
    )


def difference(got: pa.Table, want: pa.Table, *, ordered: bool) -> str | None:
    """What differs, in words. Floats are compared loosely, everything else exactly."""
    if got.num_columns != want.num_columns:
        return f"{got.num_columns} columns instead of {want.num_columns}"
    loose = [number for number, field in enumerate(want.schema) if _has_floats(field.type)]
    mine, theirs = _rows(got), _rows(want)
    if ordered:
        for place, (ours, spark) in enumerate(zip(mine, theirs, strict=False)):
            if not _close(ours, spark):
                return f"row {place} is {ours} instead of {spark}"
    return _multiset_difference(_grouped(mine, loose), _grouped(theirs, loose))


def _multiset_difference(mine: dict[Row, list[Row]], theirs: dict[Row, list[Row]]) -> str | None:
    counts = [Counter({key: len(rows) for key, rows in side.items()}) for side in (mine, theirs)]
    missing, extra = counts[1] - counts[0], counts[0] - counts[1]
    if missing or extra:
        return (
            f"{counts[0].total()} rows instead of {counts[1].total()}; {missing.total()} are missing, such as "
            f"{list(missing)[:3]}; {extra.total()} are too many, such as {list(extra)[:3]}"
        )
    for key, wanted in theirs.items():
        left = list(mine[key])
        for row in sorted(wanted, key=repr):
            found = next((number for number, other in enumerate(left) if _close(other, row)), None)
            if found is None:
                return f"no floats like {row} beside {key}, but {left[:5]}"
            del left[found]
    return None


def _grouped(rows: list[Row], loose: list[int]) -> dict[Row, list[Row]]:
    """Rows of floats by what stands beside them."""
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        beside = tuple(value for number, value in enumerate(row) if number not in loose)
        groups[beside].append(tuple(row[number] for number in loose))
    return groups


def _rows(table: pa.Table) -> list[Row]:
    """By position: names of columns need not be unique."""
    columns = [[_plain(value) for value in _quick(column).to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _quick(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Instants as numbers: Python datetimes with a time zone take their time."""
    if pat.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pat.is_date(column.type) else column


def _plain(value: Any) -> Any:
    """A value that compares as Spark compares: NaN is one value and zero has no sign."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return tuple((key, _plain(item)) for key, item in value.items())
    return value


def _close(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        return len(mine) == len(theirs) and all(map(_close, mine, theirs))
    if isinstance(mine, float) and isinstance(theirs, float):
        return mine == theirs or math.isclose(mine, theirs, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return bool(mine == theirs)


def _has_floats(kind: pa.DataType) -> bool:
    if pat.is_nested(kind):
        return any(_has_floats(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pat.is_floating(kind))
