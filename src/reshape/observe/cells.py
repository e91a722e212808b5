"""The values of a result as Python has them, whatever they are and whatever its columns are called."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

UNSHOWN = "(not to be shown)"


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table whose columns may have one name."""
    if not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*(values_of(column) for column in table.columns), strict=True))


def values_of(column: Any) -> list[Any]:
    """A column's values. Texts that are no UTF-8 are readable as far as they are; what Python has no value for, such as
    the year 20,000, is said to be so."""
    try:
        values: list[Any] = column.to_pylist()
    except (UnicodeDecodeError, OverflowError, ValueError, pa.ArrowException):
        return [_value_of(scalar) for scalar in column]
    return values


def _value_of(scalar: Any) -> Any:
    if scalar.is_valid and (pat.is_string(scalar.type) or pat.is_large_string(scalar.type)):
        return scalar.as_buffer().to_pybytes().decode("utf-8", "replace")
    try:
        return scalar.as_py()
    except (UnicodeDecodeError, OverflowError, ValueError, pa.ArrowException):
        return UNSHOWN


def distinct_names(names: Sequence[str]) -> list[str]:
    """Names that differ: of two columns ``n`` the second one is ``n (2)``."""
    return list(_distinct(names))


def _distinct(names: Sequence[str]) -> Iterator[str]:
    given: set[str] = set()
    for name in names:
        made, number = name, 1
        while made in given or (number > 1 and made in names):
            number += 1
            made = f"{name} ({number})"
        given.add(made)
        yield made


def as_json(value: Any) -> Any:
    """A value as JSON can hold it: as Spark's ``to_json`` has it for numbers that JSON lacks and for bytes."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case bytes():
            return base64.b64encode(value).decode()
        case list() | tuple():
            return [as_json(each) for each in value]
        case dict():
            return {str(key): as_json(each) for key, each in value.items()}
        case _:
            return str(value)
