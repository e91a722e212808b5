"""What the steps of a scan make of stored rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from reshape.expressions.evaluate import evaluate, filter_batch
from reshape.expressions.tree import Expression
from reshape.operators.hash_join import BUILD, PROBE, HashJoin
from reshape.scan.scan import Compute, Expand, Keep, LookUp, Scan, Step

Batches = Iterator[pa.RecordBatch]


class Steps:
    """The steps of a scan, for one reader. ``read`` gives all rows of a scan that is looked up; it is called when the
    first rows come."""

    def __init__(self, scan: Scan, read: Callable[[Scan], Iterable[pa.RecordBatch]]) -> None:
        self._schema = scan.schema
        self._functions = [_function(step, read) for step in scan.steps]

    def of(self, stored: pa.RecordBatch) -> Batches:
        """The scan's rows, batches without any row left out."""
        batches: Batches = iter((stored,))
        for function in self._functions:
            batches = function(batches)
        for batch in batches:
            if batch.num_rows:
                yield made_batch(self._schema, batch.columns, batch.num_rows)


def made_batch(schema: pa.Schema, arrays: Sequence[pa.Array], rows: int) -> pa.RecordBatch:
    if not arrays:
        # The one way to a batch that has rows and no columns.
        empty = pa.Array.from_buffers(pa.struct([]), rows, [None])
        return pa.RecordBatch.from_struct_array(empty)
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)


def _function(step: Step, read: Callable[[Scan], Iterable[pa.RecordBatch]]) -> Callable[[Batches], Batches]:
    match step:
        case Keep():
            return partial(map, partial(filter_batch, step.predicate))
        case Compute():
            return partial(_expanded, (step.expressions,))
        case Expand():
            return partial(_expanded, step.lists)
        case LookUp():
            return _LookingUp(step, read)


def _expanded(lists: Sequence[Sequence[Expression]], batches: Batches) -> Batches:
    for batch in batches:
        for expressions in lists:
            arrays = [evaluate(expression, batch) for expression in expressions]
            types = [(str(number), array.type) for number, array in enumerate(arrays)]
            yield made_batch(pa.schema(types), arrays, batch.num_rows)


class _LookingUp:
    """A join whose kept side is read whole when the first rows come."""

    def __init__(self, step: LookUp, read: Callable[[Scan], Iterable[pa.RecordBatch]]) -> None:
        self._step = step
        self._read = read
        self._join: HashJoin | None = None

    def __call__(self, batches: Batches) -> Batches:
        join = self._join = self._join or self._built()
        for batch in batches:
            yield from join.add(PROBE, batch)

    def _built(self) -> HashJoin:
        join = self._step.join.build()
        for batch in self._read(self._step.scan):
            join.add(BUILD, batch)
        join.end_port(BUILD)
        return join
