"""A slow function of a user does not hold its host up: it gets few rows at a time, whatever its operator gives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reshape.host import functions
from reshape.host.functions import WorkerFunctions
from reshape.host.one_call import OneCall
from reshape.host.pace import FIRST_ROWS, STEP_S, Pace
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.group_by import GroupBySpec
from reshape.operators.relay import RelaySpec
from reshape.plan.nodes import MapNode, OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.testing import Cut, run_flow

ROWS = 4_000
TABLE = pa.table({"k": pa.array(np.arange(ROWS) % 1_000), "v": pa.array(np.arange(ROWS))})
SOURCE = SourceNode(0, TABLE.schema)
NODES = {
    "relay": OperatorNode((SOURCE,), RelaySpec(TABLE.schema, (0,))),
    "group": OperatorNode((SOURCE,), GroupBySpec(TABLE.schema, (0,), (CountAll("v"),))),
}


class Clock:
    """Time that passes in functions alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def slow(self, s_per_row: float, sizes: list[int]) -> Callable[[Any], Iterator[pa.RecordBatch]]:
        def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                sizes.append(batch.num_rows)
                self.now += s_per_row * batch.num_rows
                yield batch

        return function


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(functions, "time", clock)
    return clock


@pytest.mark.parametrize("s_per_row", [0.0, 1e-6, 0.002, 5.0])
def test_pieces_take_a_step_each_and_all_rows_come(clock: Clock, s_per_row: float) -> None:
    sizes: list[int] = []
    large = TABLE.combine_chunks().to_batches()
    function = clock.slow(s_per_row, sizes)
    made = list(WorkerFunctions([function, function], TABLE.schema, Pace()).through(iter(large), last=True))
    assert pa.Table.from_batches([batch for batch in made if batch is not None]).equals(TABLE)
    assert sizes[0] == FIRST_ROWS
    # Both functions get each piece; at five seconds a row, one row at a time.
    assert max(sizes[2:]) <= max(1, STEP_S / (2 * s_per_row) if s_per_row else ROWS)


def test_a_function_that_gives_nothing_still_ends_a_step_with_each_piece(clock: Clock) -> None:
    seen: list[int] = []

    def drops(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.append(batch.num_rows)
            clock.now += 0.002 * batch.num_rows
        return iter(())

    pieces = WorkerFunctions([drops], TABLE.schema, Pace()).through(
        iter(TABLE.combine_chunks().to_batches()), last=True
    )
    assert next(pieces) is None
    assert seen == [FIRST_ROWS]
    assert set(pieces) == {None}
    assert (sum(seen), max(seen)) == (ROWS, FIRST_ROWS)


def test_a_batch_without_rows_is_shown_to_functions(clock: Clock) -> None:
    sizes: list[int] = []
    empty = TABLE.schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], TABLE.schema)]
    shown = WorkerFunctions([clock.slow(1.0, sizes)], TABLE.schema, Pace())
    assert len(list(shown.through(iter(empty), last=True))) == 1
    assert sizes == [0]


@pytest.mark.parametrize("node", NODES)
def test_a_flow_with_a_slow_function_starts_with_few_rows(node: str) -> None:
    """Rows that a relay passes on wait in its queue; groups all come at the end."""
    sizes: list[int] = []

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sizes.append(batch.num_rows)
            until = time.monotonic() + 0.0005 * batch.num_rows
            while time.monotonic() < until:
                pass
            yield batch

    plan = Planner().plan(MapNode(NODES[node], slow, TABLE.schema), "slow", 1, 1)
    got = run_flow(plan, [TABLE], Cut(3, 2, ROWS))
    assert got.num_rows == (ROWS if node == "relay" else 1_000)
    assert sizes[0] == FIRST_ROWS
    assert max(sizes) <= STEP_S / 0.0005, "no call takes longer than a step, by what rows cost at the least"


BATCHES = TABLE.to_batches(max_chunksize=1_000)


def test_a_call_takes_rows_as_they_come_and_gives_the_rest_at_the_end() -> None:
    def behind(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Each batch twice, but the last batch only when all have come."""
        last = next(batches)
        for batch in batches:
            yield from (last, last)
            last = batch
        yield from (last, last)

    call = OneCall([behind])
    given = [len(list(call.give(batch))) for batch in BATCHES]
    assert given == [0, 2, 2, 2]
    assert [batch.num_rows for batch in call.end()] == [1_000, 1_000]
    assert call._thread is not None
    assert not call._thread.is_alive()


def test_a_call_that_has_enough_takes_no_more_rows() -> None:
    call = OneCall([lambda batches: iter([next(batches)])])
    assert [len(list(call.give(batch))) for batch in BATCHES] == [1, 0, 0, 0]
    assert list(call.end()) == []


def test_an_error_in_a_call_is_raised_where_rows_are_given() -> None:
    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield next(batches)
        raise ZeroDivisionError("one over nothing")

    call = OneCall([broken])
    with pytest.raises(ZeroDivisionError, match="one over nothing"):
        list(call.give(BATCHES[0]))


def test_a_call_that_nobody_waits_for_is_closed_where_it_waits() -> None:
    ended: list[str] = []

    def waits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        finally:
            ended.append("closed")

    call = OneCall([waits])
    assert len(list(call.give(BATCHES[0]))) == 1
    call.close()
    assert ended == ["closed"]
