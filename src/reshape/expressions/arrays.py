"""Arrow arrays as NumPy sees them and back, and what becomes of rows that an operation cannot give a value for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.expressions.errors import EvaluationFailed
from reshape.expressions.tree import Call

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[Any]

ANSI, LEGACY, TRY = "ANSI", "LEGACY", "TRY"


def nulls_of(*arrays: pa.Array) -> Mask:
    """The rows where any of the arrays is null."""
    nulls = np.zeros(len(arrays[0]), dtype=bool)
    for array in arrays:
        if array.null_count:
            nulls |= array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def numbers_of(array: pa.Array) -> Numbers:
    """The values; nulls are zeros. Dates are days, timestamps microseconds, booleans 0 and 1."""
    if pat.is_boolean(array.type):
        array = pc.cast(array, pa.int8())
    elif pat.is_date32(array.type):
        array = array.view(pa.int32())
    elif pat.is_timestamp(array.type):
        array = array.view(pa.int64())
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0, array.type))
    return np.asarray(array)


def array_of(values: Numbers, nulls: Mask, kind: pa.DataType) -> pa.Array:
    """An Arrow array of this type from NumPy's values; null where the mask says so."""
    mask = nulls if nulls.any() else None
    if pat.is_date32(kind):
        return pa.array(values.astype(np.int32, copy=False), mask=mask).view(kind)
    if pat.is_timestamp(kind):
        return pa.array(values.astype(np.int64, copy=False), mask=mask).view(kind)
    # Not by Arrow's own conversion: NaN is no null in Spark.
    return pa.array(values, type=kind, mask=mask, from_pandas=False)


def nulls_after(call: Call, nulls: Mask, failed: Mask, condition: str, legacy_null: bool) -> Mask:
    """The null rows of a result where some rows failed: an error under ANSI rules, null in TRY mode.

    Without ANSI rules they are null or, if `legacy_null` is false, what the operation gave.
    """
    failed = failed & ~nulls
    if failed.any():
        mode = call.option("mode")
        if mode == ANSI:
            raise EvaluationFailed(condition, call.function, f"{int(failed.sum())} rows of a batch have no {call.type}")
        if mode == TRY or legacy_null:
            return nulls | failed
    return nulls


def read_mode(expression: Any, facts: Any) -> dict[str, Any]:
    """The mode in which an arithmetic expression or cast treats failures."""
    return {"mode": str(expression.evalMode().toString())}


def read_fail_on_error(expression: Any, facts: Any) -> dict[str, Any]:
    return {"mode": ANSI if expression.failOnError() else LEGACY}


def is_ansi(call: Call) -> bool:
    return bool(call.option("mode") == ANSI)
