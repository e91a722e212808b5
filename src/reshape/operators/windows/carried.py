"""What a range of a window leaves to the next one, as one row of Arrow: it travels from host to host."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from reshape.operators.windows.description import WindowFunction

# There even if nothing else is, so that there is a row.
_MARK = "carried"


def pack(values: Mapping[Hashable, Any], functions: Sequence[WindowFunction]) -> pa.RecordBatch:
    """Values by the names that functions have left them under: a function, with a word or a number of its own, or a
    word that all share. Each value is a number, or an array of one value, of NumPy or of Arrow."""
    columns: dict[str, pa.Array] = {_MARK: pa.array([0])}
    for what, value in values.items():
        if isinstance(value, pa.Array):
            kind, array = "arrow", value
        elif isinstance(value, np.ndarray):
            kind, array = "numpy", pa.array(value)
        else:
            kind, array = "number", pa.array([value], pa.int64())
        columns[f"{kind}/{_name(what, functions)}"] = array
    return pa.record_batch(columns)


def unpack(carried: pa.RecordBatch, functions: Sequence[WindowFunction]) -> dict[Hashable, Any]:
    values: dict[Hashable, Any] = {}
    for field, column in zip(carried.schema, carried.columns, strict=True):
        if field.name == _MARK:
            continue
        kind, name = field.name.split("/", 1)
        what = _what(name, functions)
        if kind == "arrow":
            values[what] = column
        else:
            values[what] = column.to_numpy(zero_copy_only=False) if kind == "numpy" else column[0].as_py()
    return values


def _name(what: Hashable, functions: Sequence[WindowFunction]) -> str:
    if isinstance(what, str):
        return f"/{what}"
    function, *own = what if isinstance(what, tuple) else (what,)
    assert isinstance(function, WindowFunction)
    return "/".join(map(str, (functions.index(function), *own)))


def _what(name: str, functions: Sequence[WindowFunction]) -> Hashable:
    number, *own = name.split("/")
    if not number:
        return own[0]
    function = functions[int(number)]
    return (function, int(own[0]) if own[0].isdigit() else own[0]) if own else function
