"""Functions of users behind an operator: they get its output in pieces that do not hold the host up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from reshape.host.pace import Pace
from reshape.plan.physical import ArrowFunction

_END = object()


def through_functions(
    functions: Sequence[ArrowFunction], batches: Iterator[pa.RecordBatch], schema: pa.Schema, pace: Pace
) -> Iterator[pa.RecordBatch | None]:
    """What functions make of batches, as this schema. Each piece is a step of its own; None where one gave nothing."""
    for batch in batches:
        at = 0
        while True:
            piece = batch.slice(at, pace.rows())
            at += piece.num_rows
            gave = False
            for made in _timed(functions, piece, pace):
                gave = True
                yield _as_promised(made, schema)
            if not gave:
                yield None
            if at >= batch.num_rows:
                break


def _timed(functions: Sequence[ArrowFunction], piece: pa.RecordBatch, pace: Pace) -> Iterator[pa.RecordBatch]:
    """What functions make of one piece; the time between two of their batches is not theirs."""
    started = time.monotonic()
    made: Iterator[pa.RecordBatch] = iter((piece,))
    for function in functions:
        made = iter(function(made))
    seconds = time.monotonic() - started
    while True:
        started = time.monotonic()
        batch = next(made, _END)
        seconds += time.monotonic() - started
        if batch is _END:
            pace.count(piece.num_rows, seconds)
            return
        yield batch


def _as_promised(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """What a user's function gave, as the schema that was promised for it; columns are found by name."""
    if batch.schema.equals(schema):
        return batch
    if set(batch.schema.names) != set(schema.names):
        raise ValueError(f"the function gave the columns {batch.schema.names}, but promised {schema.names}")
    return batch.select(schema.names).cast(schema)
