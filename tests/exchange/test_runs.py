"""Small items that wait one behind the other are taken together; nothing else about a queue changes by that."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reshape.exchange import worker_queue
from reshape.exchange.queues import HostQueues
from reshape.exchange.spill import SpillSpace
from reshape.exchange.worker_queue import SMALL_ROWS, size_in_memory


def numbers(start: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, start + rows), pa.int64())})


def takes(queues: HostQueues, rows: int, port: int = 0) -> list[pa.RecordBatch]:
    batches = []
    while (item := queues.take(0, port, rows)) is not None:
        assert item.batch is not None
        assert item.rows == item.batch.num_rows
        batches.append(item.batch)
    return batches


def test_small_items_are_taken_together_up_to_a_step() -> None:
    queues = HostQueues([2], 10**9, None)
    for number in range(64):
        queues.put(0, 0, 3, numbers(1_000 * number, 1_000))
        queues.put(0, 1, 3, numbers(0, 7))
    sizes = [batch.num_rows for batch in takes(queues, 16_384)]
    assert sizes == [16_000] * 4
    assert queues.waiting(0) == [0, 7 * 64], "the other port is not touched"
    assert [batch.num_rows for batch in takes(queues, 0, port=1)] == [7] * 64, "one by one unless asked for more"
    assert queues.memory == 0


def test_rows_stay_in_order_and_memory_counts() -> None:
    queues = HostQueues([1], 10**9, None)
    batches = [numbers(100 * number, 100) for number in range(10)]
    for batch in batches:
        queues.put(0, 0, 3, batch)
    item = queues.take(0, 0, 450)
    assert item is not None
    assert item.batch is not None
    assert item.batch.column(0).to_pylist() == list(range(400))
    assert queues.memory == sum(map(size_in_memory, batches[4:]))
    assert queues.waiting(0) == [600]
    queues.put_back(0, item, item.batch.slice(150))
    assert queues.waiting(0) == [850]
    assert [n for batch in takes(queues, 450) for n in batch.column(0).to_pylist()] == list(range(150, 1_000))
    assert queues.memory == 0


def test_owners_and_combined_rows_are_not_mixed() -> None:
    queues = HostQueues([1], 10**9, None)
    kinds = [(1, False), (1, False), (2, False), (1, False), (1, True), (1, True)]
    for number, (owner, combined) in enumerate(kinds):
        queues.put(0, 0, owner, numbers(number, 1), combined=combined)
    taken = []
    while (item := queues.take(0, 0, 1_000)) is not None:
        taken.append((item.owner, item.combined, item.rows))
    assert taken == [(1, False, 2), (2, False, 1), (1, False, 1), (1, True, 2)]


def test_large_items_and_wide_ones_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = HostQueues([1], 10**9, None)
    for rows in (10, SMALL_ROWS, 10, 10):
        queues.put(0, 0, 0, numbers(0, rows))
    assert [batch.num_rows for batch in takes(queues, 10**6)] == [10, SMALL_ROWS, 20]
    monkeypatch.setattr(worker_queue, "RUN_BYTES", 2 * size_in_memory(numbers(0, 10)))
    for _ in range(5):
        queues.put(0, 0, 0, numbers(0, 10))
    assert [batch.num_rows for batch in takes(queues, 10**6)] == [20, 20, 10]


def test_a_mark_is_passed_when_all_before_it_are_taken() -> None:
    queues = HostQueues([1], 10**9, None)
    for number in range(4):
        queues.put(0, 0, 0, numbers(number, 1))
    mark = queues.last_serial(0)
    queues.put(0, 0, 0, numbers(4, 1))
    queues.take(0, 0, 3)
    assert not queues.passed(0, 0, mark)
    queues.take(0, 0, 1)
    assert queues.passed(0, 0, mark)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 120)), max_size=60),
    st.integers(0, 6),
)
def test_what_is_taken_is_what_was_put(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]], budget_items: int
) -> None:
    """With some of it on disk, whatever is taken between: each row once, those of an owner in their order."""
    directory = tmp_path_factory.mktemp("spill")
    queues = HostQueues([1], budget_items * size_in_memory(numbers(0, 20)), SpillSpace([str(directory)]))
    put: dict[int, list[int]] = {0: [], 1: []}
    got: dict[int, list[int]] = {0: [], 1: []}

    def take(rows: int) -> bool:
        item = queues.take(0, 0, rows)
        if item is not None:
            assert item.batch is not None
            got[item.owner] += item.batch.column(0).to_pylist()
        return item is not None

    for number, (owner, rows, take_rows) in enumerate(steps):
        batch = numbers(1_000 * number, rows)
        queues.put(0, 0, owner, batch)
        put[owner] += batch.column(0).to_pylist()
        if take_rows % 3 == 0:
            take(take_rows)
        assert queues.waiting(0) == [sum(map(len, put.values())) - sum(map(len, got.values()))]
    while take(50):
        pass
    assert got == put
    assert queues.memory == 0
    assert not [path for path in Path(directory).rglob("*") if path.is_file()]
