"""Record batches as bytes: Arrow's IPC messages, with the schema sent once at the opening of a stream.

Batches with dictionaries are the exception: pyarrow reads dictionaries from whole IPC streams only, so such a batch
travels as one, schema included.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from reshape.exchange.errors import WireError


class BatchCodec:
    """Batches of one schema. What comes in is checked as far as that takes no look at the rows: its buffers are as long
    as its rows need. A look at every offset and text would take half as long again as all else, and its sender knows
    the secret of the run."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._whole = any(_has_dictionary(field.type) for field in schema)

    def encode(self, batch: pa.RecordBatch) -> pa.Buffer:
        if not batch.schema.equals(self._schema):
            raise WireError(f"a batch of {batch.schema} cannot go into a stream of {self._schema}")
        if not self._whole:
            return batch.serialize()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue()

    def decode(self, data: Any) -> pa.RecordBatch:
        try:
            batch = self._decode(data)
            batch.validate()
        except (pa.ArrowException, OSError, ValueError, KeyError, StopIteration) as error:
            raise WireError(f"not a batch of the stream's schema: {error}") from error
        return batch

    def _decode(self, data: Any) -> pa.RecordBatch:
        if not self._whole:
            return pa.ipc.read_record_batch(data, self._schema)
        with pa.ipc.open_stream(data) as reader:
            if not reader.schema.equals(self._schema):
                raise WireError(f"a batch of {reader.schema} came in a stream of {self._schema}")
            return reader.read_next_batch()


def read_schema(data: Any) -> pa.Schema:
    try:
        return pa.ipc.read_schema(data)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise WireError(f"not a schema: {error}") from error


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    if isinstance(kind, pa.BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    return any(_has_dictionary(kind.field(number).type) for number in range(kind.num_fields))
