"""The body of threads: fails with the cause, leaves nothing behind, cuts what it is given without losing a row."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlparse

import numpy as np
import pyarrow as pa
import pytest

from reshape.driver.execution import Execution
from reshape.errors import FlowFailed
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.relay import RelaySpec
from reshape.operators.sort import SortSpec
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.testing import Cut, ThreadCluster, ThreadedFlow, cut_up, run_flow

TABLE = pa.table({"k": pa.array(np.arange(5_000) % 13), "v": pa.array(np.arange(5_000))})
SOURCE = SourceNode(0, TABLE.schema)
BY_KEY = OperatorNode((SOURCE,), RelaySpec(TABLE.schema, (0,)))


PLAN = Planner().plan(BY_KEY, "threads", 2, 5)
CUT = Cut(3, 6, 400)


def run(node: Node, **options: object) -> pa.Table:
    return run_flow(Planner().plan(node, "threads", 2, 5), [TABLE], CUT, **options)  # type: ignore[arg-type]


def left_over() -> list[str]:
    """Threads of flows; the clock that gathers samples of a sort may run on for a moment."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        left = [thread.name for thread in threading.enumerate() if thread.name.startswith("reshape")]
        if not left:
            return []
        time.sleep(0.01)
    return left


def listens(location: str) -> bool:
    address = urlparse(location)
    with socket.socket() as connection:
        return connection.connect_ex((str(address.hostname), int(address.port or 0))) == 0


class Watched(ThreadCluster):
    """Notes where hosts listen while its source runs, and how many rows the source has sent."""

    locations: tuple[str, ...] = ()
    were_listening = False
    rows = 0

    def run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        self.locations = locations
        self.were_listening = all(listens(location) for location in locations)
        self.rows = super().run_source(source, attempt, locations)
        return self.rows


def test_all_rows_come_and_nothing_stays() -> None:
    sources = [cut_up(TABLE, np.random.default_rng(3), CUT)]
    flow = ThreadedFlow(PLAN, sources, cluster=Watched)
    got = flow.run()
    assert sorted(got["v"].to_pylist()) == list(range(5_000))
    watched = flow.cluster
    assert isinstance(watched, Watched)
    assert watched.were_listening
    assert len(watched.locations) == 2
    assert watched.rows == 5_000
    assert left_over() == []
    assert not any(listens(location) for location in watched.locations)


def test_a_sort_is_in_the_order_of_hosts() -> None:
    got = run(OperatorNode((SOURCE,), SortSpec(TABLE.schema, Ordering((SortKey.descending(0), SortKey(1))))))
    want = TABLE.sort_by([("k", "descending"), ("v", "ascending")])
    assert got.equals(want)


def test_a_failure_raises_with_its_cause() -> None:
    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 4_000 in batch["v"].to_pylist():
                raise ValueError("no such luck")
            yield batch

    with pytest.raises(FlowFailed, match=r"repartition \(operator 0\), worker \d: ValueError: no such luck"):
        run(MapNode(BY_KEY, broken, TABLE.schema))
    assert left_over() == []


def test_a_failure_of_a_source_raises_with_its_cause() -> None:
    wrong = TABLE.set_column(0, "k", pa.array(["x"] * 5_000))
    with pytest.raises(FlowFailed, match=r"source-0-\d: ArrowInvalid: Failed to parse string: 'x'"):
        run_flow(Planner().plan(BY_KEY, "threads", 3, 3), [wrong], Cut(3, 6, 400))
    assert left_over() == []


def test_a_flow_that_hangs_says_where() -> None:
    is_stuck, go_on = threading.Event(), threading.Event()

    class GivenUp(ThreadedFlow):
        """Has no more time from the moment on that it hangs."""

        def _await(self, hosts: Sequence[threading.Thread], limit_s: float) -> None:
            assert is_stuck.wait(limit_s)
            super()._await(hosts, 0.0)

    def stuck(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            is_stuck.set()
            assert go_on.wait(60)
            yield batch

    def release(execution: Execution) -> None:
        # The hosts are told to stop when the time is over; only then may the function return.
        def wait() -> None:
            while execution.failure is None:
                execution.board.read("host-none", 0, 0.05)
            go_on.set()

        threading.Thread(target=wait, name="reshape-release", daemon=True).start()

    plan = Planner().plan(MapNode(BY_KEY, stuck, TABLE.schema), "threads", 2, 5)
    flow = GivenUp(plan, [cut_up(TABLE, np.random.default_rng(0), Cut(3, 6, 400))], release)
    with pytest.raises(TimeoutError, match=r"did not end within 0.0 s(.|\n)*reshape-host-\d(.|\n)*in stuck"):
        flow.run()
    assert left_over() == []


def test_rows_are_cut_into_partitions_and_batches_of_all_sizes() -> None:
    rng = np.random.default_rng(1)
    cuts = [cut_up(TABLE.slice(0, rows), rng, Cut(0, 7, 90)) for rows in (0, 1, 3, 900)]
    for rows, partitions in zip((0, 1, 3, 900), cuts, strict=True):
        assert len(partitions) == 7
        batches = [batch for partition in partitions for batch in partition]
        assert pa.Table.from_batches(batches, TABLE.schema).equals(TABLE.slice(0, rows))
        assert all(batch.num_rows <= 90 for batch in batches)
    assert any(not partition for partitions in cuts for partition in partitions), "a partition without a batch"
    assert any(not batch.num_rows for partitions in cuts for partition in partitions for batch in partition)
