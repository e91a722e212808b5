"""Reports about what a flow has not got are refused, and harm nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reshape.driver.admission import check_report
from reshape.driver.attempts import Attempts
from reshape.driver.execution import Execution
from reshape.driver.service import DriverService
from reshape.exchange.errors import CallFailed
from reshape.exchange.tally import NO_COUNTS, RouterCounts
from reshape.exchange.transport.client import call, connect
from reshape.exchange.transport.streams import NoteLine
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.heavy_keys import most_heavy_keys
from reshape.operators.relay import RelaySpec
from reshape.operators.sort import SortSpec
from reshape.operators.window import WindowSpec
from reshape.operators.windows.ranks import RowNumber
from reshape.plan.nodes import OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.protocol.codec import Poll, Reports, decode_answer, encode_poll, encode_reports
from reshape.protocol.errors import MessageRefused
from reshape.protocol.reports import (
    AttemptReport,
    BacklogSent,
    BacklogStayed,
    Fenced,
    Holding,
    HostReady,
    OperatorDone,
    Preview,
    Progress,
    RangeComputed,
    RangeSorted,
    RouterCounted,
    RouterEnded,
    RouterStarted,
    Sampled,
    ScatteredSent,
    Sender,
    StateArrived,
    StateStayed,
    TableApplied,
    Withdrawn,
    WorkerCounts,
)
from reshape.testing import Cut, ThreadCluster, ThreadedFlow, cut_up

TABLE = pa.table({"k": pa.array(np.arange(2_000) % 13), "v": pa.array(np.arange(2_000))})
SOURCE = SourceNode(0, TABLE.schema)
HOSTS, WORKERS = 2, 5
# A sort behind a repartition: two operators, each with one input.
BY_KEY = OperatorNode((SOURCE,), RelaySpec(TABLE.schema, (0,)))
NODE = OperatorNode((BY_KEY,), SortSpec(TABLE.schema, Ordering((SortKey(1),))))
PLAN = Planner().plan(NODE, "admission", HOSTS, WORKERS)

ROWS = pa.record_batch({"v": pa.array([1])})
COUNTS = RouterCounts((0,) * WORKERS, (0,) * WORKERS)
WORKER = WorkerCounts(0, 0, (0,), (0,), ({},), 0, 0, 0.0, False)
HOST = Sender("run", 1, "host-0")


def progress(**changes: Any) -> Progress:
    return Progress(0, (replace(WORKER, **changes),), None, {})


IMPOSSIBLE: list[tuple[AttemptReport, str]] = [
    (RouterStarted(2, 0, "r"), "RouterStarted.operator"),
    *((kind(0, 1, "r", 0), f"{kind.__name__}.port") for kind in (TableApplied, Fenced)),
    *((kind(0, 1, 1), f"{kind.__name__}.port") for kind in (Holding, Withdrawn)),
    (RouterCounted(9, 0, "r", COUNTS), "RouterCounted.operator"),
    (RouterCounted(0, 0, "r", RouterCounts((1, 2), (1, 2))), "RouterCounted.counts.routed"),
    (RouterCounted(0, 0, "r", replace(COUNTS, sent=())), "RouterCounted.counts.sent"),
    (RouterEnded(0, 0, "r", replace(COUNTS, keys={WORKERS: {1: 1}})), "RouterEnded.counts.keys"),
    (RouterEnded(0, 0, "r", replace(COUNTS, buckets={WORKERS * 16: 1})), "RouterEnded.counts.buckets"),
    (StateArrived(2, 0, 1, 0, 0, 0.0), "StateArrived.operator"),
    (StateArrived(0, 0, 1, WORKERS, 0, 0.0), "StateArrived.helper"),
    (StateStayed(0, 0, 1, WORKERS, ""), "StateStayed.helper"),
    (BacklogSent(0, 3, 1, 5), "BacklogSent.port"),
    (BacklogStayed(0, 0, 1, WORKERS, ""), "BacklogStayed.target"),
    (ScatteredSent(0, 0, HOSTS), "ScatteredSent.host"),
    (OperatorDone(2, 0, None), "OperatorDone.operator"),
    (OperatorDone(0, HOSTS, None), "OperatorDone.host"),
    (OperatorDone(0, 0, RouterCounts((1,), (1,))), "OperatorDone.counts.routed"),
    (Sampled(2, 0, ROWS), "Sampled.operator"),
    (Sampled(0, 0, ROWS), "Sampled.port"),  # no sort
    (Progress(HOSTS, (), None, {}), "Progress.host"),
    (Progress(0, (), None, {2: NO_COUNTS}), "Progress.routers"),
    (Progress(0, (), None, {0: RouterCounts((1,), (1,))}), "Progress.counts.routed"),
    (Progress(0, (), (Preview(2, 0, ROWS),), {}), "Progress.operator"),
    (Progress(0, (), (Preview(1, WORKERS, ROWS),), {}), "Progress.worker"),
    (progress(operator=2), "Progress.operator"),
    (progress(worker=WORKERS), "Progress.worker"),
    (progress(worker=WORKERS - 1), "Progress.worker"),  # the other host's
    (progress(processed=()), "Progress.workers.processed"),
    (progress(waiting=(0, 0)), "Progress.workers.waiting"),
    (progress(of_owner=({WORKERS: 1},)), "Progress.workers.of_owner"),
]


def test_a_flow_that_hears_of_what_it_has_not_got_refuses_it_and_is_unharmed() -> None:
    refused: list[str] = []

    def meddle(execution: Execution) -> None:
        for report, _ in IMPOSSIBLE:
            with pytest.raises(MessageRefused) as error:
                execution.reported(HOST, report)
            refused.append(error.value.where)

    sources = [cut_up(TABLE, np.random.default_rng(1), Cut(1, 4, 200))]
    flow = ThreadedFlow(PLAN, sources, on_execution=meddle)
    assert flow.run()["v"].to_pylist() == list(range(2_000))
    assert refused == [where for _, where in IMPOSSIBLE]


def test_ranges_of_partitions_that_nobody_shares() -> None:
    order = Ordering((SortKey(1),))
    for keys, partitions in (((), 1), ((0,), most_heavy_keys(WORKERS))):
        spec = WindowSpec(TABLE.schema, keys, order, (RowNumber("n"),))
        plan = Planner().plan(OperatorNode((SOURCE,), spec), "admission", HOSTS, WORKERS)
        check_report(plan, RangeComputed(0, 0, partitions - 1, ROWS))
        for report in (RangeSorted(0, 0, partitions, 1, ROWS, ROWS), RangeComputed(0, 0, partitions, ROWS)):
            with pytest.raises(MessageRefused, match="partition"):
                check_report(plan, report)
    with pytest.raises(MessageRefused, match="operator"):
        check_report(PLAN, RangeComputed(1, 0, 0, ROWS))


# Over the wire


class Registered:
    """A flow at a listener of its own, with calls as a task makes them."""

    def __init__(self) -> None:
        self._service = DriverService("127.0.0.1")
        cluster = ThreadedFlow(PLAN, [[]]).cluster
        assert isinstance(cluster, ThreadCluster)
        self.attempts = Attempts("run", PLAN, cluster)
        location = self._service.register("run", self.attempts)
        self.client = connect(location, self.attempts.access)

    def report(self, body: bytes) -> bytes:
        return call(self.client, "report", body, 10.0)

    def close(self) -> None:
        self.client.close()
        self._service.close()


@pytest.fixture
def registered() -> Iterator[Registered]:
    made = Registered()
    yield made
    made.close()


# Of an attempt that is over.
HARMLESS = encode_reports(Reports(Sender("run", 7, "host-0"), "", 0, (ScatteredSent(0, 0, 0),)))


def test_a_listener_answers_what_is_no_message_with_an_error_and_serves_on(registered: Registered) -> None:
    for body, what in (
        (b"", "must be JSON"),
        (b"\xff" * 100, "must be JSON"),
        (b"[" * 100_000, "must be JSON"),
        (b"[]", r"Reports must be a list of 5 fields \(sender, line, number, reports, oldest\)"),
        (HARMLESS.replace(b"ScatteredSent", b"Scattered"), r"Reports\.reports must be one of HostReady"),
        (HARMLESS.replace(b"[0,0,0]", b"[0,0,-1]"), r"ScatteredSent\.host must be a number from 0 to 65535, got -1"),
        (HARMLESS.replace(b'"run"', b'"walk"'), "no flow 'walk' here"),
    ):
        with pytest.raises(CallFailed, match=what):
            registered.report(body)
        assert decode_answer(registered.report(HARMLESS)) is None
    with pytest.raises(CallFailed, match="Poll must be a list of 3 fields"):
        call(registered.client, "orders", b"{}", 10.0)
    assert b"is over" in call(registered.client, "orders", encode_poll(Poll(Sender("run", 7, "host-0"), 0)), 10.0)


def test_a_line_of_notes_that_brings_no_message_ends_alone(registered: Registered) -> None:
    line = NoteLine(registered.client)
    line.send(b"none")
    with pytest.raises(CallFailed, match="must be JSON"):
        line.close()
    again = NoteLine(registered.client)
    again.send(HARMLESS)
    again.close()


def test_a_host_that_the_flow_has_not_got_does_not_meet_the_others(registered: Registered) -> None:
    stranger = Reports(Sender("run", 0, "host-2"), "", 0, (HostReady(HOSTS, 0, 0, "tcp://nowhere:1"),))
    with pytest.raises(CallFailed, match=r"HostReady\.host must be below 2, got 2"):
        registered.report(encode_reports(stranger))
    assert registered.attempts.newest is None
