"""The result of hosts on its way through Spark's exchange: packed, so that Spark moves a few values, not rows.

Rows as Spark's own would cost more in the exchange than the whole flow before it. A packed value is an Arrow stream of
some batches; what reads it gets rows again. Where all tasks are on one machine, the stream stays in a file and the
value says where: nothing but the name goes through the JVM.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.driver.stages import ArrowFunction
from reshape.errors import FlowFailed
from reshape.machine.task_process import prepare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOST_COLUMN = "__reshape_host"
PACKED = pa.schema(
    [
        pa.field(HOST_COLUMN, pa.int32(), nullable=False),
        pa.field("__reshape_file", pa.string()),
        pa.field("__reshape_rows", pa.binary()),
    ]
)

# A value is some batches; Spark hands 64 MiB of them at a time to whoever unpacks them.
_VALUE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Packing:
    """How the rows of hosts become packed values. ``folder`` is where they stay, if all tasks can read files there."""

    folder: str | None

    def pack(
        self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, host: int, task: int
    ) -> Iterator[pa.RecordBatch]:
        """``task`` is a number that no other task has: rows of two attempts never meet in one file."""
        if self.folder is None:
            return _pack_in_values(batches, schema, host)
        return _pack_in_file(batches, schema, host, Path(self.folder) / f"{host}-{task}.arrows")


def _pack_in_values(batches: Iterator[pa.RecordBatch], schema: pa.Schema, host: int) -> Iterator[pa.RecordBatch]:
    """Rows of a host as packed values, in their order."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _VALUE_BYTES:
            yield _packed(waiting, schema, host)
            waiting, size = [], 0
    if waiting:
        yield _packed(waiting, schema, host)


def _pack_in_file(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, host: int, path: Path
) -> Iterator[pa.RecordBatch]:
    """Rows of a host in a new file; one value with its name, once it is complete."""
    try:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    yield pa.record_batch([[host], [str(path)], [None]], schema=PACKED)


def unpacking() -> ArrowFunction:
    """A function from packed values to the rows in them. Made anew, so that it travels to tasks by value."""

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare()
        for batch in batches:
            for path, value in zip(*batch.columns[1:], strict=True):
                yield from _unpacked(path.as_py(), value.as_buffer() if value.is_valid else None)

    return unpack


def unpacked(packed: DataFrame, *, keep: bool) -> list[pa.RecordBatch]:
    """All rows of packed values, here. Those in files stay in them. Where nobody else will read them (``keep`` is
    false) files lose their names at once, and their space when nobody has rows of them any more."""
    batches: list[pa.RecordBatch] = []
    for path, value in packed.select(*PACKED.names[1:]).collect():
        batches += _unpacked(path, value)
        if path is not None and not keep:
            Path(path).unlink(missing_ok=True)
    return batches


def _unpacked(path: str | None, value: Any) -> Iterator[pa.RecordBatch]:
    with pa.BufferReader(value) if path is None else _file(path) as source:
        yield from pa.ipc.open_stream(source)


def _file(path: str) -> pa.MemoryMappedFile:
    try:
        return pa.memory_map(path)
    except FileNotFoundError:
        raise FlowFailed("the result", f"its rows in {path} were removed; run the flow again") from None


def _packed(batches: list[pa.RecordBatch], schema: pa.Schema, host: int) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    value = sink.getvalue()
    offsets = pa.array([0, value.size], pa.int32()).buffers()[1]
    rows = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, value])
    return pa.record_batch([pa.array([host], pa.int32()), pa.nulls(1, pa.string()), rows], schema=PACKED)
