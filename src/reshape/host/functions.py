"""Functions of users behind an operator: they get its output in pieces that do not hold the host up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from reshape.host.one_call import OneCall
from reshape.host.pace import Pace
from reshape.plan.map_functions import UserMapFunction
from reshape.plan.physical import ArrowFunction

_END = object()


class WorkerFunctions:
    """The functions behind one worker; what they make is given as this schema."""

    def __init__(self, functions: Sequence[ArrowFunction], schema: pa.Schema, pace: Pace) -> None:
        self._functions = functions
        self._schema = schema
        self._pace = pace
        once = any(isinstance(function, UserMapFunction) and function.once for function in functions)
        self._call = OneCall(functions) if once else None

    def through(self, batches: Iterator[pa.RecordBatch], *, last: bool) -> Iterator[pa.RecordBatch | None]:
        """What functions make of batches, of which more come unless these are the ``last``. Each piece is a step of its
        own; None where one gave nothing."""
        for batch in batches:
            at = 0
            while True:
                piece = batch.slice(at, self._pace.rows())
                at += piece.num_rows
                yield from self._step(partial(self._made, piece), piece.num_rows)
                if at >= batch.num_rows:
                    break
        if last and self._call is not None:
            yield from self._step(self._call.end, 0)

    def close(self) -> None:
        if self._call is not None:
            self._call.close()

    def _made(self, piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self._call is not None:
            return self._call.give(piece)
        made: Iterator[pa.RecordBatch] = iter((piece,))
        for function in self._functions:
            made = iter(function(made))
        return made

    def _step(self, make: Callable[[], Iterator[pa.RecordBatch]], rows: int) -> Iterator[pa.RecordBatch | None]:
        """The time between two batches that functions give is not theirs."""
        started, gave = time.monotonic(), False
        made = make()
        seconds = time.monotonic() - started
        while True:
            started = time.monotonic()
            batch = next(made, _END)
            seconds += time.monotonic() - started
            if not isinstance(batch, pa.RecordBatch):
                break
            gave = True
            yield _as_promised(batch, self._schema)
        self._pace.count(rows, seconds)
        if not gave:
            yield None


def _as_promised(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """What a user's function gave, as the schema that was promised for it; columns are found by name."""
    if batch.schema.equals(schema):
        return batch
    if set(batch.schema.names) != set(schema.names):
        raise ValueError(f"the function gave the columns {batch.schema.names}, but promised {schema.names}")
    return batch.select(schema.names).cast(schema)
