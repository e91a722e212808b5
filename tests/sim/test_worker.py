from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshape.sim.worker import Chunk, Worker, dealt

items = st.dictionaries(st.integers(0, 5), st.integers(1, 50), min_size=1).map(lambda rows: list(rows.items()))


@given(items, st.lists(st.integers(0, 300), max_size=6))
def test_each_row_of_a_mixture_has_one_key(mixture: list[tuple[int, int]], cuts: list[int]) -> None:
    rows = sum(size for _, size in mixture)
    points = sorted({0, rows, *(min(cut, rows) for cut in cuts)})
    counted: dict[int, int] = {}
    for start, end in pairwise(points):
        part = list(dealt(mixture, rows, start, end))
        assert sum(size for _, size in part) == end - start
        for key, size in part:
            counted[key] = counted.get(key, 0) + size
    assert counted == dict(mixture)


def test_a_mixture_is_even() -> None:
    mixture = [(0, 9), (1, 17)]
    for end in range(27):
        first = dict(dealt(mixture, 26, 0, end)).get(0, 0)
        assert abs(first - end * 9 / 26) < 1


def test_first_in_first_out_at_the_given_speed() -> None:
    worker = Worker(10.0)
    worker.arrive(1.0, Chunk([(0, 10)]))
    worker.arrive(1.5, Chunk([(1, 10)]))
    worker.advance(2.0)
    assert worker.counts == {0: 10}
    worker.advance(2.3)
    assert worker.counts == {0: 10, 1: 3}
    assert worker.queued == 7


def test_the_moment_of_the_last_row_is_exact_however_rarely_one_looks() -> None:
    worker = Worker(3.0)
    worker.arrive(0.25, Chunk([(0, 10)]))
    worker.advance(1000.0)
    assert worker.drained_at == pytest.approx(0.25 + 10 / 3, abs=1e-12)
    worker.arrive(2000.0, Chunk([(0, 1)]))
    worker.advance(3000.0)
    assert worker.drained_at == pytest.approx(2000 + 1 / 3, abs=1e-9)


def test_no_row_is_processed_before_its_time() -> None:
    worker = Worker(7.0)
    worker.arrive(0.0, Chunk([(0, 100)]))
    for step in range(1, 100):
        worker.advance(step / 13)
        assert worker.processed == int(step / 13 * 7 + 1e-6)


@given(st.lists(items, min_size=1, max_size=5), st.integers(0, 400), st.floats(0, 20))
def test_taking_from_the_tail_keeps_all_rows(queue: list[list[tuple[int, int]]], rows: int, now: float) -> None:
    worker = Worker(5.0)
    for chunk in queue:
        worker.arrive(0.0, Chunk(chunk))
    total = sum(size for chunk in queue for _, size in chunk)
    taken = worker.take_tail(now, rows, lambda key: key % 2 == 0)
    moved = sum(chunk.rows for chunk in taken)
    assert moved <= rows
    assert all(key % 2 == 0 for chunk in taken for key, _ in chunk.items)
    assert worker.processed + worker.queued + moved == total
    if moved < rows:
        assert not any(key % 2 == 0 for chunk in worker.queue for key, _ in chunk.rest())


def test_a_key_that_comes_twice_in_a_chunk_keeps_its_rows() -> None:
    taken, rest = Chunk([(0, 5), (1, 4), (0, 3)]).split(6, lambda key: key == 0)
    assert sorted(taken) == [(0, 6)]
    assert sorted(rest) == [(0, 2), (1, 4)]


def test_the_tail_is_what_came_last() -> None:
    worker = Worker(1.0)
    worker.arrive(0.0, Chunk([(0, 10)]))
    worker.arrive(0.0, Chunk([(2, 10)]))
    taken = worker.take_tail(0.0, 12, lambda key: True)
    assert [(chunk.items[0][0], chunk.rows) for chunk in taken] == [(0, 2), (2, 10)]


def test_what_stays_keeps_its_order() -> None:
    worker = Worker(1.0)
    for key in (1, 3, 5):
        worker.arrive(0.0, Chunk([(key, 10), (0, 1)]))
    worker.take_tail(0.0, 3, lambda key: key == 0)
    assert [chunk.items for chunk in worker.queue] == [[(1, 10)], [(3, 10)], [(5, 10)]]


def test_held_rows_wait_and_keep_their_order() -> None:
    worker = Worker(10.0)
    worker.hold(7, [1])
    worker.arrive(0.0, Chunk([(0, 5), (1, 5)]))
    worker.arrive(0.0, Chunk([(1, 3)]))
    worker.advance(100.0)
    assert worker.counts == {0: 5}
    assert [chunk.rows for chunk in worker.release(7)] == [5, 3]
    worker.arrive(100.0, Chunk([(1, 2)]))
    worker.advance(200.0)
    assert worker.counts == {0: 5, 1: 2}
