"""Which stored Parquet column Arrow reads as Spark does, type by type."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from reshape.plan.types import type_name

_UNITS = ("microseconds", "milliseconds")


def refusal(column: Any, stored: pa.DataType, wanted: pa.DataType, widening: bool) -> str | None:
    """Why a leaf column (pyarrow's ColumnSchema) is not read as `wanted`; None where Arrow's cast gives Spark's values.

    `stored` is the type that Arrow reads it as, which an Arrow schema in the file can make something else than what
    Parquet says and Spark goes by.
    """
    annotation = json.loads(column.logical_type.to_json())
    if _exact(column, annotation, wanted) or (widening and _widened(column, annotation, wanted)):
        return None if _castable(stored, wanted) else f"the file says that Arrow shall read it as {stored}"
    kind = annotation["Type"]
    stored_as = column.physical_type if kind == "None" else f"{column.physical_type} ({_spelled(annotation)})"
    return f"it is stored as {stored_as} and wanted as {type_name(wanted)}"


def _spelled(annotation: dict[str, Any]) -> str:
    """An annotation as people know it: Int(8, unsigned), Timestamp(nanoseconds), Decimal(5, 2)."""
    kind = annotation["Type"]
    if kind == "Int":
        return f"Int({annotation['bitWidth']}, {'signed' if annotation['isSigned'] else 'unsigned'})"
    if kind == "Timestamp":
        return f"Timestamp({annotation['timeUnit']}, {'UTC' if annotation['isAdjustedToUTC'] else 'no zone'})"
    if kind == "Decimal":
        return f"Decimal({annotation['precision']}, {annotation['scale']})"
    return str(kind)


def _exact(column: Any, annotation: dict[str, Any], wanted: pa.DataType) -> bool:
    """The pairs that Spark's schema inference makes, so that each of its readers takes them."""
    physical, kind = column.physical_type, annotation["Type"]
    if pat.is_boolean(wanted):
        return bool(physical == "BOOLEAN")
    if pat.is_integer(wanted):
        return bool(_signed(physical, annotation) == wanted.bit_width or _unsigned(annotation) * 2 == wanted.bit_width)
    if pat.is_floating(wanted):
        return bool(physical == {32: "FLOAT", 64: "DOUBLE"}.get(wanted.bit_width))
    if pat.is_decimal128(wanted):
        if kind == "Decimal":
            return bool(annotation["precision"] == wanted.precision and annotation["scale"] == wanted.scale)
        return _unsigned(annotation) == 64 and (wanted.precision, wanted.scale) == (20, 0)
    if pat.is_string(wanted):
        return physical == "BYTE_ARRAY" and kind in ("String", "Enum", "None")
    if pat.is_binary(wanted):
        return physical in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY") and kind in ("None", "String")
    if pat.is_date32(wanted):
        return bool(physical == "INT32" and kind == "Date")
    if pat.is_timestamp(wanted):
        return _is_timestamp(physical, annotation, wanted)
    return False


def _is_timestamp(physical: str, annotation: dict[str, Any], wanted: pa.DataType) -> bool:
    if physical == "INT96":
        return bool(wanted.tz is not None)
    if annotation["Type"] != "Timestamp" or annotation["timeUnit"] not in _UNITS:
        return False
    return bool(annotation["isAdjustedToUTC"] == (wanted.tz is not None))


def _widened(column: Any, annotation: dict[str, Any], wanted: pa.DataType) -> bool:
    """What Spark's vectorized reader widens without loss."""
    signed = _signed(column.physical_type, annotation)
    if pat.is_integer(wanted):
        return bool(0 < signed < wanted.bit_width)
    if pat.is_float64(wanted):
        return bool(column.physical_type == "FLOAT" or 0 < signed <= 32)
    if pat.is_decimal128(wanted) and annotation["Type"] == "Decimal":
        more_digits = wanted.precision - annotation["precision"]
        more_scale = wanted.scale - annotation["scale"]
        return bool(more_scale >= 0 and more_digits >= more_scale)
    return False


def _signed(physical: str, annotation: dict[str, Any]) -> int:
    """The bits of a signed integer; 0 for anything else."""
    if annotation["Type"] == "None":
        return {"INT32": 32, "INT64": 64}.get(physical, 0)
    if annotation["Type"] == "Int" and annotation["isSigned"]:
        return int(annotation["bitWidth"])
    return 0


def _unsigned(annotation: dict[str, Any]) -> int:
    """The bits of an unsigned integer, which Spark reads as the next wider signed one; 0 for anything else."""
    if annotation["Type"] == "Int" and not annotation["isSigned"]:
        return int(annotation["bitWidth"])
    return 0


def _castable(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow's cast keeps the values: an Arrow schema in the file may name a type of another nature."""
    if pat.is_string(wanted) or pat.is_binary(wanted):
        values = stored.value_type if pat.is_dictionary(stored) else stored
        return bool(
            pat.is_string(values)
            or pat.is_large_string(values)
            or pat.is_binary(values)
            or pat.is_large_binary(values)
            or (pat.is_fixed_size_binary(values) and pat.is_binary(wanted))
        )
    if pat.is_decimal(wanted):
        return bool(pat.is_decimal(stored) or pat.is_uint64(stored))
    if pat.is_float64(wanted):
        return bool(pat.is_float32(stored) or pat.is_float64(stored) or pat.is_integer(stored))
    if pat.is_integer(wanted):
        return bool(pat.is_integer(stored))
    if pat.is_timestamp(wanted):
        return bool(pat.is_timestamp(stored))
    return bool(stored == wanted)
