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
from pyarrow import flight

from reshape.exchange.flight import Access, connect
from reshape.exchange.wire import StreamName

from .host_process import SCHEMA, FedFlow, relay

BUDGET = 16 * 1024 * 1024
ROW_BYTES = 1_024
BATCH_ROWS = 512
BATCHES = 704  # in each of two partitions: 44 times the budget
PARTITIONS = 2
ROWS = PARTITIONS * BATCHES * BATCH_ROWS
COST_S = 5e-6  # a row, of which the slow worker gets almost all: about three seconds
# Beside the queues: messages on their way in, a batch in work, results that Spark has not taken yet, and what the
# allocator keeps of them. Measured with spilling: 136 to 192 MiB in all, be the input 176 or 1,408 MiB.
BESIDE = 256 * 1024 * 1024
IN_FLIGHT = 96 * 1024 * 1024  # includes what was processed since the last report


class Input:
    """Batches for a hot worker, made when they are asked for, and counted."""

    def __init__(self) -> None:
        self.rows = 0
        self._lock = threading.Lock()

    def partitions(self, batches: int = BATCHES) -> list[Callable[[], Iterator[pa.RecordBatch]]]:
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


def test_ten_times_the_budget_with_spilling(tmp_path: Path) -> None:
    source = Input()
    flow = FedFlow(relay(COST_S), source.partitions())
    most = 0

    def watch() -> None:
        nonlocal most
        while flow.execution is not None and not flow.execution.over:
            most = max(most, _bytes_on_disk(tmp_path))
            time.sleep(0.02)

    said = flow.run(COST_S, tmp_path, watch, queue_bytes=BUDGET)
    print(f"\nspilling: {said}, most on disk {most:,}")
    assert (said["rows"], said["error"]) == (ROWS, "")
    assert max(10 * BUDGET, 2 * BESIDE) < ROWS * ROW_BYTES
    assert most > BUDGET, "rows had to wait on disk"
    assert said["grown"] < BUDGET + BESIDE
    assert list(tmp_path.iterdir()) == []


def test_ten_times_the_budget_with_back_pressure(tmp_path: Path) -> None:
    source, batches = Input(), BATCHES // 4
    rows = PARTITIONS * batches * BATCH_ROWS
    # Progress is a moment old; with a worker as slow as this, few rows are processed in a moment.
    cost = 4 * COST_S
    flow = FedFlow(relay(cost), source.partitions(batches))
    most = 0

    def watch() -> None:
        nonlocal most
        while flow.execution is not None and not flow.execution.over:
            read = source.rows  # before what was processed: the difference may only be too small
            processed = sum(sum(cell["processed"]) for cell in flow.execution.progress())
            if processed:
                most = max(most, (read - processed) * ROW_BYTES)
            time.sleep(0.02)

    said = flow.run(cost, tmp_path, watch, queue_bytes=BUDGET, spill=False)
    print(f"\nback-pressure: {said}, most between source and operator {most:,}")
    assert (said["rows"], said["error"]) == (rows, "")
    assert rows * ROW_BYTES > 10 * BUDGET
    assert said["grown"] < BUDGET + BESIDE
    assert BUDGET // 2 < most < BUDGET + IN_FLIGHT, "senders had to wait"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"spill_limit_bytes": BUDGET}, r"the limit is 16,777,216; raise spark\.reshape\.spill\.limit"),
        ({"file_limit": BUDGET // 2}, r"File too large.*set spark\.local\.dir to a larger disk"),
    ],
    ids=["limit", "disk"],
)
def test_no_room_on_disk_ends_the_flow_and_says_what_to_change(
    tmp_path: Path, settings: dict[str, int], cause: str
) -> None:
    flow = FedFlow(relay(COST_S), Input().partitions())
    said = flow.run(COST_S, tmp_path, queue_bytes=BUDGET // 4, **settings)
    assert flow.failure is not None
    assert flow.execution is not None
    assert not flow.execution.may_retry
    message = str(flow.failure).replace("\n", " ")
    assert str(tmp_path) in message
    assert re.search(cause, message), message
    assert said["error"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("secret", ["", "wrong"])
def test_a_running_flow_refuses_strangers(tmp_path: Path, secret: str) -> None:
    flow = FedFlow(relay(COST_S), Input().partitions(8))

    def intrude() -> None:
        name = StreamName(flow.name, 1, "source-0-9", 0, 0)
        for location in (flow.location, *flow.locations):
            with connect(location, Access(secret)) as client:
                for action in ("tell", "orders"):
                    with pytest.raises(flight.FlightUnauthenticatedError, match="secret is missing or wrong"):
                        list(client.do_action(flight.Action(action, b"{}")))
                with pytest.raises(flight.FlightUnauthenticatedError, match="secret is missing or wrong"):
                    writer, _ = client.do_put(flight.FlightDescriptor.for_command(name.pack()), SCHEMA)
                    writer.close()

    said = flow.run(COST_S, tmp_path, intrude)
    assert (said["rows"], said["error"]) == (PARTITIONS * 8 * BATCH_ROWS, "")


def _bytes_on_disk(directory: Path) -> int:
    total = 0
    for file in directory.rglob("*.arrows"):
        with contextlib.suppress(FileNotFoundError):  # read to its end in the meantime
            total += file.stat().st_size
    return total
