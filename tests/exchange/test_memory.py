"""Ten times the queues' memory goes through a host with a slow worker, and the host stays small."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from reshape.exchange.errors import ExchangeError, NotAdmitted
from reshape.exchange.transport.access import Access
from reshape.exchange.transport.client import call, connect
from reshape.exchange.transport.streams import Outlet
from reshape.exchange.wire import StreamName

from .host_process import LIMIT_S, SCHEMA, FedFlow, Partition, relay

BUDGET = 16 * 1024 * 1024
ROW_BYTES = 1_024
BATCH_ROWS = 512
BATCHES = 528  # in each of two partitions: 33 times the budget, and more than twice what is allowed beside it
PARTITIONS = 2
ROWS = PARTITIONS * BATCHES * BATCH_ROWS
# Beside the queues: messages on their way in, a batch in work, results that Spark has not taken yet, and what the
# allocator keeps of them. Measured with spilling: 136 to 192 MiB in all, be the input 176 or 1,408 MiB.
BESIDE = 256 * 1024 * 1024
IN_FLIGHT = 96 * 1024 * 1024  # includes what was processed since the last report


class Input:
    """Batches for a hot worker, made when they are asked for, and counted."""

    def __init__(self) -> None:
        self.rows = 0
        self._lock = threading.Lock()

    def partitions(self, batches: int = BATCHES) -> list[Partition]:
        return [lambda seed=seed: self._read(seed, batches) for seed in range(PARTITIONS)]  # type: ignore[misc]

    def _read(self, seed: int, batches: int) -> Iterator[pa.RecordBatch]:
        generator = np.random.default_rng(seed)
        offsets = pa.array(range(0, (BATCH_ROWS + 1) * ROW_BYTES, ROW_BYTES), pa.int32()).buffers()[1]
        noise = pa.py_buffer(generator.bytes(BATCH_ROWS * ROW_BYTES))  # cannot be compressed
        for _ in range(batches):
            keys = np.where(generator.random(BATCH_ROWS) < 0.9, 7, generator.integers(0, 1_000, BATCH_ROWS))
            filling = pa.Array.from_buffers(pa.binary(), BATCH_ROWS, [None, offsets, noise])
            with self._lock:
                self.rows += BATCH_ROWS
            yield pa.RecordBatch.from_arrays([pa.array(keys, pa.int64()), filling], schema=SCHEMA)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Workers take the first rows and then none until it is there."""
    return tmp_path / "open"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "local").mkdir()
    return tmp_path / "local"


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited {LIMIT_S:.0f} s for {what}"
        time.sleep(0.02)


def test_ten_times_the_budget_with_spilling(directory: Path, gate: Path) -> None:
    flow = FedFlow(relay(), Input().partitions())

    def watch() -> None:
        wait_until("rows on disk", lambda: _bytes_on_disk(directory) > BUDGET)

    said = flow.run(gate, directory, watch, queue_bytes=BUDGET)
    assert (said["rows"], said["error"]) == (ROWS, "")
    assert max(10 * BUDGET, 2 * BESIDE) < ROWS * ROW_BYTES
    assert said["grown"] < BUDGET + BESIDE
    assert list(directory.iterdir()) == []


def test_ten_times_the_budget_with_back_pressure(directory: Path, gate: Path) -> None:
    source, batches = Input(), BATCHES // 3
    rows = PARTITIONS * batches * BATCH_ROWS
    flow = FedFlow(relay(), source.partitions(batches))
    read: list[int] = []

    def at_a_halt() -> bool:
        read.append(source.rows)
        return len(read) > 25 and read[-25] == read[-1]

    def watch() -> None:
        """Nobody takes rows, so sources come to a halt; a look too early sees fewer rows than they have read."""
        wait_until("rows that wait", lambda: source.rows * ROW_BYTES > BUDGET // 2)
        wait_until("sources that wait", at_a_halt)

    said = flow.run(gate, directory, watch, queue_bytes=BUDGET, spill=False)
    assert (said["rows"], said["error"]) == (rows, "")
    assert rows * ROW_BYTES > 10 * BUDGET
    assert said["grown"] < BUDGET + BESIDE
    assert read[-1] * ROW_BYTES < BUDGET + IN_FLIGHT, "senders had to wait"
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"spill_limit_bytes": BUDGET}, r"the limit is 16,777,216; raise spark\.reshape\.spillLimit"),
        ({"file_limit": BUDGET // 2}, r"File too large.*set spark\.local\.dir to a larger disk"),
    ],
    ids=["limit", "disk"],
)
def test_no_room_on_disk_ends_the_flow_and_says_what_to_change(
    directory: Path, gate: Path, settings: dict[str, int], cause: str
) -> None:
    flow = FedFlow(relay(), Input().partitions())

    def watch() -> None:
        wait_until("a flow that fails", lambda: flow.failure is not None)

    said = flow.run(gate, directory, watch, queue_bytes=BUDGET // 4, **settings)
    assert flow.failure is not None
    assert flow.execution is not None
    assert not flow.execution.may_retry
    message = str(flow.failure).replace("\n", " ")
    assert str(directory) in message
    assert re.search(cause, message), message
    assert said["error"]
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("secret", ["", "wrong"])
def test_a_running_flow_refuses_strangers(directory: Path, gate: Path, secret: str) -> None:
    flow = FedFlow(relay(), Input().partitions(8))

    def intrude() -> None:
        name = StreamName(flow.name, 1, "source-0-9", 0, 0)
        for location in (flow.location, *flow.locations):
            with connect(location, Access(secret)) as client:
                for action in ("report", "orders"):
                    with pytest.raises(NotAdmitted, match="secret is missing or wrong"):
                        call(client, action, b"{}", LIMIT_S)
                with pytest.raises(ExchangeError, match="secret is missing or wrong"):
                    Outlet(client, name, SCHEMA)

    said = flow.run(gate, directory, intrude)
    assert (said["rows"], said["error"]) == (PARTITIONS * 8 * BATCH_ROWS, "")


def _bytes_on_disk(directory: Path) -> int:
    total = 0
    for file in directory.rglob("*.arrows"):
        with contextlib.suppress(FileNotFoundError):  # read to its end in the meantime
            total += file.stat().st_size
    return total
