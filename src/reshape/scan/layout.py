"""How the columns of a scan lie in one Parquet file, and why a file cannot be read as Spark would read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from reshape.errors import ReshapeError
from reshape.scan.calendar import calendar_refusal
from reshape.scan.scan import ReadFacts, ScanColumn
from reshape.scan.stored_types import refusal

_LIST_ELEMENTS = ("element", "item")


class Unfit(ReshapeError):
    """A file that Arrow would not read as Spark does; becomes a typed error where the path is at hand."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """Where a column of the scan is in a file: its name there and the paths of its leaves; no name if it is missing."""

    name: str | None
    paths: tuple[str, ...]
    leaves: tuple[int, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class _Field:
    """A top-level field of a file with the numbers of its leaf columns."""

    name: str
    type: pa.DataType
    leaves: range


def layout(metadata: Any, columns: Sequence[ScanColumn], facts: ReadFacts) -> tuple[StoredColumn, ...]:
    """Where each column is. Raises Unfit where Arrow would not give what Spark gives."""
    fields = _fields(metadata)
    stored = tuple(_stored_column(metadata, fields, column, facts) for column in columns)
    _refuse_ambiguous_paths(metadata, stored)
    for column in stored:
        _refuse_codecs(metadata, column)
        reason = calendar_refusal(metadata, column.leaves, column.type, facts)
        if reason is not None:
            raise Unfit(f"column {column.name}: {reason}")
    return stored


def _fields(metadata: Any) -> list[_Field]:
    if metadata.num_columns == 0:
        raise Unfit("it has no columns")
    fields = []
    first = 0
    for field in metadata.schema.to_arrow_schema():
        count = _leaf_count(field.type)
        fields.append(_Field(field.name, field.type, range(first, first + count)))
        first += count
    if first != metadata.num_columns:
        raise Unfit("Arrow reads its schema as another number of columns than are stored")
    return fields


def _leaf_count(stored: pa.DataType) -> int:
    if isinstance(stored, pa.BaseExtensionType):
        return _leaf_count(stored.storage_type)
    if pat.is_dictionary(stored):
        return 1
    if stored.num_fields == 0:
        return 0 if pat.is_struct(stored) else 1
    return sum(_leaf_count(stored.field(i).type) for i in range(stored.num_fields))


def _stored_column(metadata: Any, fields: Sequence[_Field], column: ScanColumn, facts: ReadFacts) -> StoredColumn:
    named = [field for field in fields if _same(field.name, column.name, facts.case_sensitive)]
    if not named:
        return StoredColumn(None, (), (), column.type)
    if len(named) > 1:
        raise Unfit(f"it has more than one column named {column.name}")
    field = named[0]
    if not pat.is_nested(column.type):
        return _flat_column(metadata, field, column, facts)
    paths = tuple(_leaf_paths(field.name, field.type, column.type, column.name))
    numbers = {metadata.schema.column(leaf).path: leaf for leaf in field.leaves}
    missing = [path for path, _, _ in paths if path not in numbers]
    if missing:
        raise Unfit(f"column {column.name}: its nested fields are not stored as {', '.join(missing)}")
    for path, stored, wanted in paths:
        reason = refusal(metadata.schema.column(numbers[path]), stored, wanted, widening=False)
        if reason is not None:
            raise Unfit(f"column {path}: {reason}")
    leaves = tuple(numbers[path] for path, _, _ in paths)
    if list(leaves) != sorted(leaves):
        raise Unfit(f"column {column.name}: its nested fields are stored in another order")
    return StoredColumn(field.name, tuple(path for path, _, _ in paths), leaves, column.type)


def _flat_column(metadata: Any, field: _Field, column: ScanColumn, facts: ReadFacts) -> StoredColumn:
    leaf = metadata.schema.column(field.leaves[0]) if len(field.leaves) == 1 else None
    if leaf is None or leaf.max_repetition_level > 0 or leaf.path != field.name:
        raise Unfit(f"column {column.name}: it is stored as {field.type}")
    reason = refusal(leaf, field.type, column.type, facts.widening)
    if reason is not None:
        raise Unfit(f"column {column.name}: {reason}")
    return StoredColumn(field.name, (leaf.path,), (field.leaves[0],), column.type)


def _leaf_paths(
    path: str, stored: pa.DataType, wanted: pa.DataType, name: str
) -> Iterator[tuple[str, pa.DataType, pa.DataType]]:
    """The leaves of a nested column where today's writers store them, each with the type stored and the type wanted."""
    if pat.is_struct(wanted) and pat.is_struct(stored):
        for child in wanted:
            number = stored.get_field_index(child.name)
            if number < 0:
                raise Unfit(f"column {name}: it has no field {child.name} in the file")
            yield from _leaf_paths(f"{path}.{child.name}", stored.field(number).type, child.type, name)
    elif pat.is_map(wanted) and pat.is_map(stored):
        yield from _leaf_paths(f"{path}.key_value.key", stored.key_type, wanted.key_type, name)
        yield from _leaf_paths(f"{path}.key_value.value", stored.item_type, wanted.item_type, name)
    elif pat.is_list(wanted) and pat.is_list(stored):
        element = stored.value_field.name if stored.value_field.name in _LIST_ELEMENTS else _LIST_ELEMENTS[0]
        yield from _leaf_paths(f"{path}.list.{element}", stored.value_type, wanted.value_type, name)
    elif pat.is_nested(wanted) or pat.is_nested(stored):
        raise Unfit(f"column {name}: it is stored as {stored}")
    else:
        yield path, stored, wanted


def _same(stored: str, wanted: str, case_sensitive: bool) -> bool:
    return stored == wanted or (not case_sensitive and stored.lower() == wanted.lower())


def _refuse_ambiguous_paths(metadata: Any, stored: Sequence[StoredColumn]) -> None:
    """Arrow takes a path for all columns below it; a dot in a name can make that more columns than are meant."""
    leaves_below: dict[str, set[int]] = {}
    for leaf in range(metadata.num_columns):
        parts = metadata.schema.column(leaf).path.split(".")
        for count in range(1, len(parts) + 1):
            leaves_below.setdefault(".".join(parts[:count]), set()).add(leaf)
    for column in stored:
        chosen = set().union(*(leaves_below[path] for path in column.paths))
        if chosen != set(column.leaves):
            raise Unfit(f"column {column.name}: dots in names make it unclear which columns are meant")


def _refuse_codecs(metadata: Any, column: StoredColumn) -> None:
    for group in range(metadata.num_row_groups):
        for leaf in column.leaves:
            codec = metadata.row_group(group).column(leaf).compression
            if codec != "UNCOMPRESSED" and not _available(codec):
                raise Unfit(f"column {column.name}: it is compressed with {codec}, which this Arrow cannot read")


def _available(codec: str) -> bool:
    try:
        return bool(pa.Codec.is_available(codec.lower()))
    except ValueError:
        return False
