"""Whether a record batch that came in a message is what it says. Its texts may be any bytes, as Spark's strings may."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pat


def validate(batch: pa.RecordBatch) -> None:
    """Raises ``pyarrow.ArrowInvalid`` unless all buffers and offsets are right."""
    for column in batch.columns:
        as_bytes = _with_bytes(column.type)
        # The same buffers under another type, in which Arrow does not look for UTF-8.
        (column if as_bytes.equals(column.type) else column.view(as_bytes)).validate(full=True)


def _with_bytes(kind: pa.DataType) -> pa.DataType:
    """The type with bytes wherever it has texts, but in dictionaries: Spark has none."""
    if pat.is_string(kind):
        return pa.binary()
    if pat.is_large_string(kind):
        return pa.large_binary()
    if pat.is_struct(kind):
        return pa.struct([field.with_type(_with_bytes(field.type)) for field in kind])
    if pat.is_map(kind):
        return pa.map_(_with_bytes(kind.key_type), _with_bytes(kind.item_type), kind.keys_sorted)
    if pat.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_bytes(kind.value_type)))
    return kind
