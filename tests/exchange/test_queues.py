import os
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reshape.exchange.errors import BackPressureTimeout, ExchangeError, SpillError
from reshape.exchange.queues import HostQueues
from reshape.exchange.spill import SpillSpace
from reshape.exchange.worker_queue import COLUMN_BYTES, ITEM_BYTES, Item

# Far beyond what a loaded machine needs; a test that fails by it hangs in truth.
SOON_S = 60.0


def numbers(start: int, rows: int = 100) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, start + rows), pa.int64())})


def size(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes) + ITEM_BYTES + COLUMN_BYTES * int(batch.num_columns)


def taken(queues: HostQueues, worker: int = 0, port: int = 0) -> pa.RecordBatch:
    item = queues.take(worker, port)
    assert item is not None
    assert item.batch is not None
    assert item.batch.num_rows == item.rows
    return item.batch


def rows_of(item: Item) -> pa.RecordBatch:
    assert item.batch is not None
    return item.batch


def drained(queues: HostQueues, worker: int = 0, port: int = 0) -> Iterator[Item]:
    while (item := queues.take(worker, port)) is not None:
        yield item


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def open_files_below(directory: Path) -> int:
    links = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    return sum(link.startswith(str(directory)) for link in links)


@contextmanager
def in_background(action: Callable[[], None]) -> Iterator[threading.Thread]:
    """A thread that must have ended when the block does; what it raises is raised here."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield thread
    thread.join(SOON_S)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def until_waiting(queues: HostQueues, senders: int = 1) -> None:
    """Return when so many threads wait within the queues."""
    condition = queues._changed
    limit = threading.Event()
    timer = threading.Timer(SOON_S, limit.set)
    timer.start()
    try:
        while True:
            with condition:
                if len(condition._waiters) >= senders:  # type: ignore[attr-defined]
                    return
            assert not limit.wait(0.001), "nobody waits"
    finally:
        timer.cancel()


def test_first_in_first_out_per_port_and_worker() -> None:
    queues = HostQueues([2, 1], 10**9, None)
    for start in range(0, 30, 3):
        queues.put(0, 0, 0, numbers(start))
        queues.put(0, 1, 5, numbers(start + 1), combined=True)
        queues.put(1, 0, 1, numbers(start + 2))
    assert queues.waiting(0) == [1_000, 1_000]
    assert queues.waiting(1) == [1_000]
    for start in range(0, 30, 3):
        assert taken(queues, 1, 0).equals(numbers(start + 2))
        item = queues.take(0, 1)
        assert item is not None
        assert (item.owner, item.combined, item.port) == (5, True, 1)
        assert rows_of(item).equals(numbers(start + 1))
    for start in range(0, 30, 3):
        item = queues.take(0, 0)
        assert item is not None
        assert (item.owner, item.combined, item.port) == (0, False, 0)
        assert rows_of(item).equals(numbers(start))
    assert queues.take(0, 0) is None
    assert queues.waiting(0) == [0, 0]
    assert queues.memory == 0
    assert queues.most_memory == 30 * size(numbers(0))


@pytest.mark.parametrize("spill", [True, False])
def test_counts_are_exact_under_many_threads(tmp_path: Path, spill: bool) -> None:
    senders, batches = 6, 60
    budget = 20 * size(numbers(0, 50))
    space = SpillSpace([str(tmp_path)]) if spill else None
    queues = HostQueues([1, 2], budget, space, wait_limit_s=SOON_S)
    cells = [(0, 0), (1, 0), (1, 1)]

    def send(sender: int) -> None:
        for number in range(batches):
            worker, port = cells[(sender + number) % 3]
            queues.put(worker, port, sender, numbers(number, 1 + (sender + number) % 50))

    seen: dict[tuple[int, int, int], list[int]] = {}
    rows = dict.fromkeys(cells, 0)
    threads = [threading.Thread(target=send, args=(sender,), daemon=True) for sender in range(senders)]
    for thread in threads:
        thread.start()
    left = senders * batches
    while left:
        before = left
        for worker, port in cells:
            for item in drained(queues, worker, port):
                left -= 1
                rows[worker, port] += item.rows
                assert rows_of(item).num_rows == item.rows
                seen.setdefault((worker, port, item.owner), []).append(rows_of(item).column(0)[0].as_py())
        if left == before:
            queues.wait_for_rows(SOON_S)
    for thread in threads:
        thread.join(SOON_S)
    wanted: dict[tuple[int, int, int], list[int]] = {}
    wanted_rows = dict.fromkeys(cells, 0)
    for sender in range(senders):
        for number in range(batches):
            cell = cells[(sender + number) % 3]
            wanted.setdefault((*cell, sender), []).append(number)
            wanted_rows[cell] += 1 + (sender + number) % 50
    assert seen == wanted
    assert rows == wanted_rows
    assert queues.memory == 0
    assert [queues.waiting(0), queues.waiting(1)] == [[0], [0, 0]]
    most = budget if spill else budget + len(cells) * size(numbers(0, 50))
    assert queues.most_memory <= most
    assert files(tmp_path) == []


@pytest.mark.parametrize("drained_workers", [(), (0, 1, 2)], ids=["never drained", "one worker not drained"])
def test_ten_times_the_budget_stays_within_it(tmp_path: Path, drained_workers: tuple[int, ...]) -> None:
    rows, batches = 200, 400
    budget = batches * size(numbers(0, rows)) // 10
    space = SpillSpace([str(tmp_path)])
    queues = HostQueues([1, 1, 1, 1], budget, space)
    got: dict[int, list[int]] = {worker: [] for worker in range(4)}
    for number in range(batches):
        queues.put(number % 4, 0, number % 4, numbers(number, rows), may_wait=False)
        assert queues.memory <= budget
        for worker in drained_workers:
            got[worker] += [rows_of(item).column(0)[0].as_py() for item in drained(queues, worker)]
    assert queues.most_memory <= budget
    assert space.written_bytes > 0
    for worker in range(4):
        for item in drained(queues, worker):
            assert rows_of(item).equals(numbers(rows_of(item).column(0)[0].as_py(), rows))
            got[worker].append(rows_of(item).column(0)[0].as_py())
        assert got[worker] == list(range(worker, batches, 4))
    assert queues.memory == 0
    assert space.held_bytes == 0
    assert files(tmp_path) == []


def test_rows_of_a_slow_worker_make_way_for_the_others(tmp_path: Path) -> None:
    """The head of a long queue must not hold all the memory, or every other row takes the way over the disk."""
    batch = numbers(0)
    space = SpillSpace([str(tmp_path)])
    queues = HostQueues([1, 1], 20 * size(batch), space)
    for _ in range(60):
        queues.put(0, 0, 0, batch)
    written = space.written_bytes
    for _ in range(10):  # more than the room that a single file of spilled rows makes
        queues.put(1, 0, 1, batch)
    fast = [space.written_bytes]
    for _ in drained(queues, 1):
        pass
    for _ in range(200):
        for _ in range(5):
            queues.put(1, 0, 1, batch)
        assert sum(1 for _ in drained(queues, 1)) == 5
    fast.append(space.written_bytes)
    assert fast[0] > written
    assert fast[1] == fast[0]
    assert queues.most_memory <= 20 * size(batch)
    assert len(files(tmp_path)) < 10


def test_a_slice_does_not_keep_its_message(tmp_path: Path) -> None:
    """The budget is real memory: of each message one slice waits, and the rest of it must be free."""
    rows, messages, slices = 4_096, 100, 64
    part = rows // slices
    budget = messages * size(numbers(0, part))
    queues = HostQueues([1], budget, SpillSpace([str(tmp_path)]))
    before = pa.total_allocated_bytes()
    for number in range(messages):
        message = pa.concat_batches([numbers(number, rows)])
        queues.put(0, 0, 0, message.slice(part, part))
        del message
    assert pa.total_allocated_bytes() - before <= 2 * budget
    for number in range(messages):
        assert taken(queues).equals(numbers(number + part, part))


def test_most_memory_counts_many_tiny_items(tmp_path: Path) -> None:
    queues = HostQueues([1], 10_000, SpillSpace([str(tmp_path)]))
    for number in range(100):
        queues.put(0, 0, 0, numbers(number, 1))
    assert queues.memory <= 10_000 < 100 * size(numbers(0, 1))
    assert [taken(queues).column(0)[0].as_py() for _ in range(100)] == list(range(100))


def test_one_batch_larger_than_the_budget_is_taken(tmp_path: Path) -> None:
    for space in (None, SpillSpace([str(tmp_path)])):
        queues = HostQueues([1], 1_000, space, wait_limit_s=0.01)
        queues.put(0, 0, 0, numbers(0, 10_000))
        assert taken(queues).equals(numbers(0, 10_000))
        queues.put(0, 0, 0, numbers(1, 10_000))
        assert taken(queues).equals(numbers(1, 10_000))


def test_schema_changes_start_a_new_file(tmp_path: Path) -> None:
    texts = pa.record_batch({"t": pa.array(["a", None, "b"] * 50)})
    queues = HostQueues([1], size(texts), SpillSpace([str(tmp_path)]))
    batches = [texts, texts, numbers(1), numbers(2), texts, numbers(3), numbers(4)]
    for batch in batches:
        queues.put(0, 0, 0, batch)
    assert len(files(tmp_path)) == 4
    for batch in batches:
        assert taken(queues).equals(batch)
    assert files(tmp_path) == []


def test_full_spill_space_says_so_and_loses_nothing(tmp_path: Path) -> None:
    batch = pa.record_batch({"n": pa.array(np.random.default_rng(0).integers(0, 2**62, 1_000))})
    space = SpillSpace([str(tmp_path)], limit_bytes=3 * batch.nbytes)
    queues = HostQueues([1], 2 * size(batch), space)
    stored = 0

    def fill() -> None:
        nonlocal stored
        while stored < 20:
            queues.put(0, 0, 0, batch)
            stored += 1

    with pytest.raises(SpillError, match=r"spark\.reshape\.spillLimit"):
        fill()
    assert queues.waiting(0) == [stored * 1_000]
    assert [rows_of(item).equals(batch) for item in drained(queues)] == [True] * stored
    assert queues.memory == 0


def test_senders_wait_and_takes_release_them() -> None:
    batch = numbers(0)
    queues = HostQueues([1], 3 * size(batch), None, wait_limit_s=SOON_S)
    done = [0]

    def send() -> None:
        for number in range(10):
            queues.put(0, 0, 0, numbers(number))
            done[0] += 1

    with in_background(send) as thread:
        for number in range(7):
            until_waiting(queues)
            assert done[0] == number + 3
            assert thread.is_alive()
            assert taken(queues).equals(numbers(number))
    assert [taken(queues).equals(numbers(number)) for number in range(7, 10)] == [True] * 3
    assert queues.most_memory == 3 * size(batch)


def test_many_senders_wait_and_all_get_through() -> None:
    queues = HostQueues([1], 2 * size(numbers(0)), None, wait_limit_s=SOON_S)
    queues.put(0, 0, 9, numbers(0))
    queues.put(0, 0, 9, numbers(0))
    threads = [
        threading.Thread(target=queues.put, args=(0, 0, sender, numbers(sender)), daemon=True) for sender in range(5)
    ]
    for thread in threads:
        thread.start()
    until_waiting(queues, 5)
    owners: list[int] = []
    while len(owners) < 7:
        item = queues.take(0, 0)
        if item is None:
            queues.wait_for_rows(SOON_S)
        else:
            owners.append(item.owner)
            assert queues.memory <= 2 * size(numbers(0))
    assert owners[:2] == [9, 9]
    assert sorted(owners[2:]) == list(range(5))
    for thread in threads:
        thread.join(SOON_S)
        assert not thread.is_alive()


def test_a_port_without_rows_never_waits() -> None:
    """A join's probe rows may fill the memory before its build rows are there: these must get through."""
    queues = HostQueues([2, 1], size(numbers(0)), None, wait_limit_s=0.01)
    queues.put(0, 1, 0, numbers(0))
    with pytest.raises(BackPressureTimeout):
        queues.put(0, 1, 0, numbers(1))
    for number in range(5):
        queues.put(0, 0, 0, numbers(number))
        queues.put(1, 0, 0, numbers(number))
        assert taken(queues, 0, 0).equals(numbers(number))
        assert taken(queues, 1, 0).equals(numbers(number))


def test_time_limit_says_what_to_change() -> None:
    queues = HostQueues([1], size(numbers(0)), None, wait_limit_s=0.05)
    queues.put(0, 0, 0, numbers(0))
    with pytest.raises(BackPressureTimeout, match=r"0\.05 s; raise spark\.reshape\.queueMemory, allow spilling"):
        queues.put(0, 0, 0, numbers(1))
    assert queues.waiting(0) == [100]
    assert taken(queues).equals(numbers(0))
    queues.put(0, 0, 0, numbers(2))
    assert taken(queues).equals(numbers(2))


def test_time_limit_starts_again_when_something_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow worker that advances is no reason to fail: whoever waits has the whole time again."""
    small = numbers(0, 1)
    queues = HostQueues([1, 1], 100 * size(small), None, wait_limit_s=0.5)
    for _ in range(100):
        queues.put(0, 0, 0, small)
    limits: list[float | None] = []

    def take_meanwhile(is_over: Callable[[], bool], limit_s: float | None = None) -> bool:
        limits.append(limit_s)
        taken(queues)
        return is_over()

    monkeypatch.setattr(queues._changed, "wait_for", take_meanwhile)
    large = numbers(0, 90 * size(small) // 8)
    queues.put(0, 0, 0, large)
    assert len(limits) > 1
    assert set(limits) == {0.5}
    assert sum(item.rows for item in drained(queues)) == 100 - len(limits) + large.num_rows


@pytest.mark.parametrize("spill", [True, False])
def test_fail_releases_waiting_senders_and_refuses_later_ones(tmp_path: Path, spill: bool) -> None:
    queues = HostQueues([1], size(numbers(0)), SpillSpace([str(tmp_path)]) if spill else None, wait_limit_s=SOON_S)
    queues.put(0, 0, 0, numbers(0))

    def fail_while_one_waits() -> None:
        with in_background(lambda: queues.put(0, 0, 0, numbers(1))):
            until_waiting(queues)
            queues.fail(RuntimeError("no more"))

    if not spill:
        with pytest.raises(ExchangeError, match="this host has failed: no more"):
            fail_while_one_waits()
    queues.fail(RuntimeError("no more"))
    queues.fail(RuntimeError("a later cause"))
    for may_wait in (True, False):
        with pytest.raises(ExchangeError, match="this host has failed: no more"):
            queues.put(0, 0, 0, numbers(2), may_wait=may_wait)
    assert queues.waiting(0) == [100]


def test_own_rows_never_wait() -> None:
    queues = HostQueues([1], size(numbers(0)), None, wait_limit_s=0.0)
    for number in range(20):
        queues.put(0, 0, 0, numbers(number), may_wait=False)
    assert queues.memory == 20 * size(numbers(0))
    for number in range(20):
        assert taken(queues).equals(numbers(number))


def test_wait_for_rows_misses_nothing() -> None:
    """Rows that came between a look at the queues and the wait end the wait at once."""
    queues = HostQueues([1], 10**6, None)
    ended = threading.Event()

    def wait() -> None:
        queues.wait_for_rows(SOON_S * 2)
        ended.set()

    events: list[Callable[[], None]] = [
        lambda: queues.put(0, 0, 0, numbers(0)),
        queues.wake,
        lambda: queues.fail(RuntimeError("over")),
    ]
    for news in events:
        ended.clear()
        news()
        with in_background(wait):
            assert ended.wait(SOON_S)
        ended.clear()
        with in_background(wait):  # the news is known now
            until_waiting(queues)
            assert not ended.is_set()
            queues.wake()


def test_wait_for_rows_ends_by_time() -> None:
    HostQueues([1], 10**6, None).wait_for_rows(0.01)


def test_put_back_keeps_order_in_memory_and_from_disk(tmp_path: Path) -> None:
    queues = HostQueues([1], 2 * size(numbers(0)), SpillSpace([str(tmp_path)]))
    for number in range(6):
        queues.put(0, 0, number, numbers(100 * number))
    assert files(tmp_path)
    values: list[int] = []
    while (item := queues.take(0, 0)) is not None:
        if item.rows:
            assert item.owner == rows_of(item).column(0)[0].as_py() // 100
        values += rows_of(item).slice(0, 30).column(0).to_pylist()
        if item.rows > 30:
            queues.put_back(0, item, rows_of(item).slice(30))
            assert queues.waiting(0) == [600 - len(values)]
            # The head, back from the disk, may have to go there again.
            queues.put(0, 0, 9, numbers(0, 0))
    assert values == list(range(600))
    assert queues.memory == 0
    assert files(tmp_path) == []


actions = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 1), st.integers(0, 1), st.integers(0, 40)),
    st.tuples(st.just("take"), st.integers(0, 1), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("back"), st.integers(0, 1), st.integers(0, 1), st.integers(1, 30)),
)


@settings(max_examples=150)
@given(st.lists(actions, max_size=60), st.integers(0, 6))
def test_any_sequence_comes_back_equal_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int, int]], budget_items: int
) -> None:
    directory = tmp_path_factory.mktemp("spill")
    space = SpillSpace([str(directory)])
    budget = budget_items * size(numbers(0, 20))
    queues = HostQueues([2, 2], budget, space)
    model: dict[tuple[int, int], deque[tuple[int, pa.RecordBatch]]] = {
        (worker, port): deque() for worker in range(2) for port in range(2)
    }
    largest = 0
    for number, (what, worker, port, rows) in enumerate(steps):
        expected = model[worker, port]
        if what == "put":
            batch = numbers(1_000 * number, rows)
            largest = max(largest, size(batch))
            queues.put(worker, port, number, batch)
            expected.append((number, batch))
        else:
            item = queues.take(worker, port)
            if item is None:
                assert not expected
                continue
            owner, batch = expected.popleft()
            assert item.owner == owner
            assert rows_of(item).equals(batch)
            if what == "back" and rows < item.rows:
                queues.put_back(worker, item, rows_of(item).slice(rows))
                expected.appendleft((owner, batch.slice(rows)))
        assert queues.waiting(worker)[port] == sum(batch.num_rows for _, batch in expected)
        # A batch beyond the budget is taken when nothing else is there, and the rest of another may come back then.
        assert queues.most_memory <= max(budget, largest) + largest
    for (worker, port), expected in model.items():
        for owner, batch in expected:
            item = queues.take(worker, port)
            assert item is not None
            assert (item.owner, item.port) == (owner, port)
            assert rows_of(item).equals(batch)
        assert queues.take(worker, port) is None
    assert queues.memory == 0
    assert space.held_bytes == 0
    assert files(directory) == []


def test_spilled_rows_take_few_files(tmp_path: Path) -> None:
    """A long run of puts and takes must neither make a file per item nor collect open ones."""
    generator = random.Random(5)
    queues = HostQueues([1, 1, 1], 30 * size(numbers(0)), SpillSpace([str(tmp_path)]))
    put, got, most = [0, 0, 0], [0, 0, 0], 0
    for _ in range(1_500):
        worker = generator.choices(range(3), (6, 2, 1))[0]
        queues.put(worker, 0, worker, numbers(put[worker]))
        put[worker] += 1
        if generator.random() < 0.7:
            worker = generator.randrange(3)
            item = queues.take(worker, 0)
            if item is not None:
                assert rows_of(item).equals(numbers(got[worker]))
                got[worker] += 1
        most = max(most, open_files_below(tmp_path))
    waiting = sum(sum(queues.waiting(worker)) for worker in range(3)) // 100
    assert waiting > 300
    assert len(files(tmp_path)) < waiting / 8
    assert (
        most <= 3 * 3
    )  # per queue one that is written, and two that are read: newer rows and, between them, older ones
    for worker in range(3):
        for item in drained(queues, worker):
            assert rows_of(item).equals(numbers(got[worker]))
            got[worker] += 1
    assert got == put


# Rows set aside for state, and rows taken from the tail


def among(*wanted: int) -> Callable[[pa.RecordBatch, bool], np.ndarray]:
    """Rows whose number has one of these last digits."""
    return lambda batch, _: np.isin(np.array(batch.column(0)) % 10, wanted)


def all_numbers(queues: HostQueues, worker: int = 0, port: int = 0) -> list[int]:
    return [number for item in drained(queues, worker, port) for number in rows_of(item).column(0).to_pylist()]


def test_rows_of_held_keys_wait_and_the_others_do_not() -> None:
    queues = HostQueues([2, 1], 10**9, None)
    queues.hold(0, 0, 7, 3, among(4, 5))
    queues.put(0, 0, 0, numbers(0, 10), version=3)
    queues.put(0, 0, 0, numbers(10, 10), version=2)  # sent before the keys moved
    queues.put(0, 1, 0, numbers(20, 10), version=3)  # another port
    queues.put(1, 0, 0, numbers(30, 10), version=3)  # another worker
    assert queues.waiting(0) == [20, 10]
    assert all_numbers(queues) == [0, 1, 2, 3, 6, 7, 8, 9, *range(10, 20)]
    assert all_numbers(queues, 0, 1) == list(range(20, 30))
    assert all_numbers(queues, 1) == list(range(30, 40))
    assert queues.waiting(0) == [2, 0], "rows held back wait too"
    queues.release(0, 0, 7)
    queues.put(0, 0, 0, numbers(40, 10), version=4)
    assert all_numbers(queues) == [4, 5, *range(40, 50)]
    assert queues.memory == 0


def test_rows_wait_in_the_newest_hold_that_they_are_not_too_old_for() -> None:
    """Keys that left a worker and came back: rows of the first stay must not wait for the second one's state."""
    queues = HostQueues([1], 10**9, None)
    queues.hold(0, 0, 1, 10, among(5))
    queues.hold(0, 0, 3, 30, among(5))
    queues.put(0, 0, 0, numbers(100, 10), version=30)
    queues.put(0, 0, 0, numbers(0, 10), version=10)
    queues.put(0, 0, 0, numbers(10, 10), version=20)
    queues.put(0, 0, 0, numbers(110, 10), version=40)
    all_numbers(queues)
    queues.release(0, 0, 1)
    assert all_numbers(queues) == [5, 15]
    queues.release(0, 0, 3)
    assert all_numbers(queues) == [105, 115]


def test_rows_that_are_released_wait_behind_those_of_an_older_hold() -> None:
    queues = HostQueues([1], 10**9, None)
    queues.hold(0, 0, 1, 10, among(5))
    queues.put(0, 0, 0, numbers(0, 10), version=10)
    queues.hold(0, 0, 3, 30, among(4, 5))
    queues.put(0, 0, 0, numbers(100, 10), version=30)
    all_numbers(queues)
    queues.release(0, 0, 3)
    queues.put(0, 0, 0, numbers(200, 10), version=30)
    assert [number for number in all_numbers(queues) if number % 10 == 5] == []
    queues.release(0, 0, 1)
    assert all_numbers(queues) == [5, 105, 205]
    assert queues.memory == 0


def test_what_a_cancelled_hold_has_is_handed_out_in_order(tmp_path: Path) -> None:
    with closing(SpillSpace([str(tmp_path)])) as space:
        queues = HostQueues([1, 1], 20_000, space)
        queues.hold(1, 0, 5, 2, among(*range(10)))
        for start in range(0, 5_000, 50):
            queues.put(1, 0, start % 3, numbers(start, 50), version=2, combined=start % 200 == 0)
        assert files(tmp_path), "rows that wait for state go to disk like all others"
        version, items = queues.take_held(1, 0, 5)
        assert version == 2
        assert [number for item in items for number in rows_of(item).column(0).to_pylist()] == list(range(5_000))
        assert [item.owner for item in items] == [start % 3 for start in range(0, 5_000, 50)]
        assert [item.combined for item in items] == [start % 200 == 0 for start in range(0, 5_000, 50)]
        assert (queues.memory, queues.waiting(1)) == (0, [0])
        assert queues.take_held(1, 0, 5) == (0, [])
        queues.release(1, 0, 5)  # nothing to release is no error


def test_rows_that_were_on_disk_are_released_in_order(tmp_path: Path) -> None:
    with closing(SpillSpace([str(tmp_path)])) as space:
        queues = HostQueues([1], 20_000, space)
        queues.hold(0, 0, 1, 1, among(3))
        queues.hold(0, 0, 2, 2, among(3, 4))
        for start in range(0, 4_000, 100):
            queues.put(0, 0, 0, numbers(start), version=2)
        before = all_numbers(queues)
        queues.release(0, 0, 2)
        assert all_numbers(queues) == [number for number in range(4_000) if number % 10 == 4]
        queues.release(0, 0, 1)
        assert all_numbers(queues) == [number for number in range(4_000) if number % 10 == 3]
        assert before == [number for number in range(4_000) if number % 10 not in (3, 4)]
        assert queues.memory == 0
    assert not files(tmp_path)


def test_a_mark_is_passed_when_all_before_it_is_taken() -> None:
    queues = HostQueues([2], 10**9, None)
    queues.put(0, 0, 0, numbers(0))
    queues.put(0, 0, 0, numbers(100))
    mark = queues.last_serial(0)
    queues.put(0, 0, 0, numbers(200))
    queues.put(0, 1, 0, numbers(300))
    assert not queues.passed(0, 0, mark)
    assert queues.passed(0, 1, mark), "of this port nothing was there before the mark"
    taken(queues)
    item = queues.take(0, 0)
    assert item is not None
    queues.put_back(0, item, rows_of(item).slice(50))
    assert not queues.passed(0, 0, mark), "half of the last item is still there"
    taken(queues)
    assert queues.passed(0, 0, mark)


@pytest.mark.parametrize("spill", [False, True])
def test_the_tail_gives_the_newest_rows_of_an_owner(tmp_path: Path, spill: bool) -> None:
    with closing(SpillSpace([str(tmp_path)])) as space:
        queues = HostQueues([1], 8_000 if spill else 10**9, space if spill else None)
        for start in range(0, 2_000, 100):
            queues.put(0, 0, start // 100 % 2, numbers(start))
        assert bool(files(tmp_path)) is spill
        of_one = [number for number in range(2_000) if number // 100 % 2 == 1]
        moved = queues.take_tail(0, 0, 1, 330)
        assert {item.owner for item in moved} == {1}
        assert [n for item in moved for n in queues.load(item).column(0).to_pylist()] == of_one[-330:]
        assert queues.waiting(0) == [2_000 - 330]
        rest = [number for number in range(2_000) if number not in set(of_one[-330:])]
        assert all_numbers(queues) == rest
        assert (queues.memory, queues.waiting(0)) == (0, [0])


def test_the_tail_gives_what_there_is_and_no_more() -> None:
    queues = HostQueues([2], 10**9, None)
    queues.put(0, 0, 3, numbers(0, 10))
    queues.put(0, 1, 3, numbers(10, 10))
    assert queues.take_tail(0, 0, 2, 100) == []
    assert sum(item.rows for item in queues.take_tail(0, 0, 3, 100)) == 10
    assert queues.take_tail(0, 0, 3, 100) == []
    assert queues.waiting(0) == [0, 10]
    assert all_numbers(queues, 0, 1) == list(range(10, 20))


def test_a_taken_tail_makes_room_for_senders() -> None:
    queues = HostQueues([1], 3 * size(numbers(0)), None)
    for start in range(3):
        queues.put(0, 0, 0, numbers(start))
    with in_background(lambda: queues.put(0, 0, 0, numbers(9))):
        until_waiting(queues)
        assert len(queues.take_tail(0, 0, 0, 100)) == 1
    assert queues.waiting(0) == [300]


def test_rows_are_loaded_while_others_go_into_the_same_file(tmp_path: Path) -> None:
    """A tail on disk is read by the host's thread while a sender's rows are being spilled."""
    with closing(SpillSpace([str(tmp_path)])) as space:
        queues = HostQueues([1], 4_000, space)
        seen: list[int] = []

        def send() -> None:
            for start in range(0, 20_000, 20):
                queues.put(0, 0, 0, numbers(start, 20))

        with in_background(send) as sender:
            while sender.is_alive():
                for item in queues.take_tail(0, 0, 0, 500):
                    seen += queues.load(item).column(0).to_pylist()
        seen += all_numbers(queues)
        assert sorted(seen) == list(range(20_000))
