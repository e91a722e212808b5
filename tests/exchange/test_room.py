"""A sender that need not hurry waits for room, and is let go when the host fails."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from reshape.exchange.errors import HostClosed
from reshape.exchange.queues import HostQueues

# Far beyond what a loaded machine needs; a test that fails by it hangs in truth.
SOON_S = 20.0


def numbers(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(rows), pa.int64())})


class Waiting:
    """A thread that waits for room at the first port of two workers."""

    def __init__(self, queues: HostQueues) -> None:
        self._queues = queues
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        try:
            self._queues.wait_for_room([0, 1], 0, 100)
        except Exception as error:
            self.error = error

    def until_it_waits(self) -> None:
        condition = self._queues._changed
        while True:
            with condition:
                if condition._waiters:  # type: ignore[attr-defined]
                    return
                assert self._thread.is_alive()

    @property
    def has_ended(self) -> bool:
        self._thread.join(SOON_S)
        return not self._thread.is_alive()


@pytest.fixture
def queues() -> HostQueues:
    made = HostQueues([2, 1], 1 << 20, None, wait_limit_s=2 * SOON_S)
    made.put(0, 0, 0, numbers(60))
    made.put(1, 0, 1, numbers(60))
    made.put(0, 1, 0, numbers(500))
    return made


def test_rows_of_all_workers_count_and_those_of_other_ports_do_not(queues: HostQueues) -> None:
    queues.wait_for_room([0], 0, 100)
    waiting = Waiting(queues)
    waiting.until_it_waits()
    assert queues.take(0, 1) is not None
    waiting.until_it_waits()
    assert queues.take(1, 0) is not None
    assert waiting.has_ended
    assert waiting.error is None


def test_a_host_that_fails_lets_them_go(queues: HostQueues) -> None:
    waiting = Waiting(queues)
    waiting.until_it_waits()
    queues.fail(ValueError("no such luck"))
    assert waiting.has_ended
    assert isinstance(waiting.error, HostClosed)
    assert "no such luck" in str(waiting.error)
    with pytest.raises(HostClosed):
        queues.wait_for_room([0, 1], 0, 1_000)


def test_slow_workers_are_no_error() -> None:
    """A function of a user may take longer for a batch than any time limit; with disk there is room for more rows."""
    queues = HostQueues([1], 1 << 20, None, wait_limit_s=0.01)
    queues.put(0, 0, 0, numbers(60))
    queues.wait_for_room([0], 0, 10)
    assert queues.waiting(0) == [60]
