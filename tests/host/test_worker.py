"""Counts of a worker."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa

from reshape.host.pace import FIRST_ROWS, GROWTH, MOST_ROWS, STEP_S
from reshape.host.worker import Worker
from reshape.operators.relay import RelaySpec
from reshape.plan.physical import PhysicalOperator, Port

SCHEMA = pa.schema([("k", pa.int64())])
OPERATOR = PhysicalOperator(0, "repartition", RelaySpec(SCHEMA, (0,)), (Port(SCHEMA, (0,)),), SCHEMA)


def step(worker: Worker, owner: int, rows: int, seconds: float) -> None:
    """A step, as the loop takes it."""
    worker.begin_step(0, owner, rows, 0.0)
    worker.steps.spend(seconds)
    worker.steps.end()


def test_rows_count_as_processed_when_their_emulated_cost_is_over() -> None:
    worker = Worker(replace(OPERATOR, cost_s_per_row=0.01), number=2, index=0)
    step(worker, 2, 30, 0.0)
    step(worker, 5, 10, 0.0)
    worker.cost.free_at = 100.0  # the end of the newest step, which has the ten rows of worker 5
    for now, pending in ((99.9, 10), (99.95, 5), (99.999, 1), (100.0, 0), (101.0, 0), (90.0, 10)):
        counts = worker.counts([7], now)
        assert counts.processed == (40 - pending,)
        assert counts.of_owner == ({2: 30, 5: 10 - pending},)
        assert counts.waiting == (7 + pending,)
    assert worker.processed == [40], "only what is told differs"


def test_without_an_emulated_cost_all_rows_count_at_once() -> None:
    worker = Worker(OPERATOR, number=0, index=0)
    step(worker, 0, 30, 0.1)
    assert worker.counts([0], 0.0).processed == (30,)


def steps(worker: Worker, rows: int, s_per_row: float, fixed_s: float = 0.0) -> list[int]:
    """The sizes of a worker's steps through so many rows, when each row and each step costs so much."""
    sizes = []
    while rows > 0:
        sizes.append(min(rows, worker.rows_per_step()))
        step(worker, 0, sizes[-1], fixed_s + s_per_row * sizes[-1])
        rows -= sizes[-1]
    return sizes


def test_the_first_step_is_small_and_the_next_ones_grow_where_rows_are_cheap() -> None:
    sizes = steps(Worker(OPERATOR, number=0, index=0), 3_000_000, 10e-9, fixed_s=200e-6)
    assert sizes[0] == FIRST_ROWS
    assert all(after <= GROWTH * before for before, after in pairwise(sizes))
    assert max(sizes) == MOST_ROWS
    assert len(sizes) <= 18, "183 steps of 16,384 rows"


def test_a_step_of_expensive_rows_takes_its_time() -> None:
    sizes = steps(Worker(OPERATOR, number=0, index=0), 100_000, 10e-6)
    assert sizes[:3] == [FIRST_ROWS, GROWTH * FIRST_ROWS, GROWTH**2 * FIRST_ROWS]
    assert set(sizes[3:-1]) <= {1_999, 2_000}
    sizes = steps(Worker(OPERATOR, number=0, index=0), 1_000, 0.002)
    assert (sizes[0], max(sizes[1:])) == (FIRST_ROWS, STEP_S / 0.002), "rows of 2 ms"
    assert steps(Worker(OPERATOR, number=0, index=0), 20, 1.0)[1] == 1


def test_rows_that_become_expensive_are_taken_in_smaller_steps_at_once() -> None:
    worker = Worker(OPERATOR, number=0, index=0)
    steps(worker, 1_000, 1e-6)
    large = worker.rows_per_step()
    step(worker, 0, large, 0.002 * large)
    assert worker.rows_per_step() <= 0.1 * large


def test_small_steps_do_not_make_later_ones_small() -> None:
    worker = Worker(OPERATOR, number=0, index=0)
    for _ in range(20):
        step(worker, 0, 10, 200e-6)
    assert worker.rows_per_step() < 2_000, "by what is known so far, a row costs 20 microseconds"
    sizes = steps(worker, 1_000_000, 20e-9, fixed_s=200e-6)
    assert max(sizes) == MOST_ROWS
    assert len(sizes) <= 30


def test_an_emulated_cost_bounds_a_step() -> None:
    worker = Worker(replace(OPERATOR, cost_s_per_row=0.01), number=2, index=0)
    step(worker, 2, 10, 1e-9)
    assert worker.rows_per_step() == 10
    worker = Worker(replace(OPERATOR, cost_s_per_row=1e-4), number=2, index=0)
    step(worker, 2, 5_000, 1e-9)
    assert worker.rows_per_step() == 1_000
