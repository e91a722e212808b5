"""State and waiting rows of workers move as ordered: real operators and queues, one host, so nothing has to travel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

from reshape.errors import FlowFailed
from reshape.exchange.queues import HostQueues
from reshape.exchange.transport.access import Access
from reshape.exchange.wire import Purpose, StreamName
from reshape.host.inbox import Inbox
from reshape.host.moves.carrier import TRIES
from reshape.host.moves.intake import Arrival, Extent, Label, Torn
from reshape.host.moves.moves import HostMoves
from reshape.host.moves.peers import NOT_TAKEN, Peers
from reshape.host.worker import Copied, Worker, Workers
from reshape.kernels.hashing import hash_rows, mini_partitions, owners
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.group_by import GroupBy, GroupBySpec
from reshape.operators.hash_join import JoinSpec, OutputColumn
from reshape.plan.nodes import Node, OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.protocol.orders import Forget, GatherScattered, Give, Hold, Replicate, SendBacklog, Withdraw
from reshape.protocol.reports import (
    BacklogSent,
    BacklogStayed,
    Holding,
    Report,
    ScatteredSent,
    StateArrived,
    StateStayed,
    Withdrawn,
)
from reshape.sender.outlets import Outlets

WORKERS = 3
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
KEPT = pa.schema([("k", pa.int64()), ("w", pa.int64())])


def hash_of(key: int) -> int:
    return int(hash_rows([pa.array([key], pa.int64())])[0])


def hashes(keys: Iterable[int]) -> tuple[int, ...]:
    return tuple(hash_of(key) for key in keys)


def owner_of(key: int) -> int:
    return int(owners(np.array([hash_of(key)], dtype=np.uint64), WORKERS)[0])


def bucket_of(key: int) -> int:
    return int(mini_partitions(np.array([hash_of(key)], dtype=np.uint64), WORKERS, 16)[0])


MINE = [key for key in range(60) if owner_of(key) == 0]  # keys of worker 0
HOT, WARM = MINE[0], MINE[1]


def rows(keys: Iterable[int], first: int = 0) -> pa.RecordBatch:
    listed = list(keys)
    return pa.record_batch([listed, list(range(first, first + len(listed)))], schema=SCHEMA)


Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class GiveOptions:
    """What most orders to give do not say."""

    port: int = 0
    buckets: tuple[int, ...] = ()
    returns: tuple[int, ...] = ()
    adopts: tuple[int, ...] = ()


class Host:
    """One host that has all workers of one operator, without its loop."""

    def __init__(self, node: Node) -> None:
        self.plan = Planner().plan(node, "transfers", 1, WORKERS)
        [operator] = self.plan.operators
        self._workers = Workers(self.plan, 0)
        self.workers: list[Worker] = list(self._workers)
        self.queues = HostQueues([len(operator.ports)] * WORKERS, 10**9, None)
        self.reports: list[Report] = []
        self._inbox = Inbox(self.queues.wake)
        peers = Peers(Outlets([], Access("secret")))
        stream = StreamName("run", 1, "host0", 0, 0)
        self.moves = HostMoves(
            self.plan, 0, self._workers, self.queues, self._inbox, peers, stream, self.reports.append
        )

    def hold(
        self, transfer: int, worker: int, version: int, keys: Iterable[int] = (), buckets: tuple[int, ...] = ()
    ) -> None:
        self.moves.obey(Hold(0, 0, transfer, worker, hashes(keys), buckets, version))

    def give(self, transfer: int, source: int, target: int, keys: Iterable[int] = (), **others: Any) -> None:
        options = GiveOptions(**others)
        moved = (hashes(keys), options.buckets, options.returns, options.adopts)
        self.moves.obey(Give(0, options.port, transfer, source, target, *moved))

    def step(self, times: int = 20) -> None:
        for _ in range(times):
            self._inbox.run_calls()
            self.moves.step()

    def said(self, kind: type[Said]) -> list[Said]:
        return [report for report in self.reports if isinstance(report, kind)]

    def process(self, worker: int, port: int = 0, items: int = 10**6) -> list[int]:
        """Let a worker process what waits for it; the values in their order."""
        seen: list[int] = []
        while items and (item := self.queues.take(worker, port)) is not None:
            items -= 1
            assert item.batch is not None
            seen += item.batch.column(1).to_pylist()
            for _ in self.workers[worker].logic(item.owner).add(port, item.batch):
                pass
        return seen


@pytest.fixture
def grouping() -> Host:
    return Host(OperatorNode((SourceNode(0, SCHEMA),), GroupBySpec(SCHEMA, (0,), (CountAll("n"),))))


def counts(host: Host) -> list[dict[int, int]]:
    """Rows per key that each worker has counted, for whomever."""
    found = []
    for worker in host.workers:
        mine: Counter[int] = Counter()
        for logic in worker.logics.values():
            assert isinstance(logic, GroupBy)
            for batch in logic.export_state(None, remove=False):
                mine.update(dict(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)))
        found.append(dict(mine))
    return found


@pytest.fixture
def joining() -> Host:
    """A join whose kept side has come: worker 0 has one row for each of its keys."""
    columns = (OutputColumn("k", left=0), OutputColumn("v", left=1), OutputColumn("w", right=1))
    spec = JoinSpec(SCHEMA, KEPT, (0,), (0,), "inner", columns)
    host = Host(OperatorNode((SourceNode(0, SCHEMA), SourceNode(1, KEPT)), spec))
    kept = pa.record_batch([MINE, MINE], schema=KEPT)
    for _ in host.workers[0].own.add(0, kept):
        pass
    return host


def open_probe(host: Host) -> None:
    for worker in host.workers:
        own = worker.own  # made before it hears of the end
        worker.ended[0] = True
        for _ in own.end_port(0):
            pass


def matches(host: Host, worker: int, keys: Iterable[int]) -> list[int]:
    """How many kept rows each probe row finds at a worker that helps worker 0."""
    found: Counter[int] = Counter()
    listed = list(keys)
    for batch in host.workers[worker].logic(0).add(1, rows(listed)):
        found.update(batch.column("k").to_pylist())
    return [found[key] for key in listed]


# Keys with state that changes


def test_keys_move_with_their_state_and_rows_wait_for_it(grouping: Host) -> None:
    host = grouping
    host.queues.put(0, 0, 0, rows([HOT, HOT, WARM]))
    host.process(0)
    host.hold(1, 2, 5, [HOT])
    assert host.said(Holding) == [Holding(0, 0, 1)]
    host.queues.put(2, 0, 0, rows([HOT, HOT, HOT], 100), version=5)
    assert host.process(2) == []
    host.give(1, 0, 2, [HOT])
    host.step()
    assert counts(host) == [{WARM: 1}, {}, {HOT: 2}]
    assert [(said.transfer, said.helper) for said in host.said(StateArrived)] == [(1, 2)]
    assert host.process(2) == [100, 101, 102]
    assert counts(host) == [{WARM: 1}, {}, {HOT: 5}]


def test_state_leaves_when_the_rows_before_it_are_processed_and_what_they_gave_is_out(grouping: Host) -> None:
    host = grouping
    for first in (0, 10):
        host.queues.put(0, 0, 0, rows([HOT] * 5, first))
    host.hold(1, 1, 5, [HOT])
    host.give(1, 0, 1, [HOT])
    host.queues.put(0, 0, 0, rows([WARM], 20))  # behind the mark
    host.step()
    assert host.said(StateArrived) == []
    host.process(0, items=2)
    host.workers[0].output = iter(())
    host.step()
    assert host.said(StateArrived) == []
    host.workers[0].output = None
    host.step()
    assert len(host.said(StateArrived)) == 1
    assert counts(host)[1] == {HOT: 10}


def test_whole_mini_partitions_move(grouping: Host) -> None:
    host = grouping
    host.queues.put(0, 0, 0, rows(MINE))
    host.process(0)
    bucket = bucket_of(HOT)
    host.hold(1, 1, 1, buckets=(bucket,))
    host.give(1, 0, 1, buckets=(bucket,))
    host.step()
    assert counts(host)[1] == {key: 1 for key in MINE if bucket_of(key) == bucket}


def test_what_is_withdrawn_in_time_stays(grouping: Host) -> None:
    host = grouping
    host.queues.put(0, 0, 0, rows([HOT]))
    host.give(1, 0, 1, [HOT])
    host.moves.obey(Withdraw(0, 0, 1))
    assert [said.transfer for said in host.said(Withdrawn)] == [1]
    host.process(0)
    host.step()
    assert counts(host) == [{HOT: 1}, {}, {}]
    assert host.said(StateArrived) == []


def test_a_cancelled_hand_over_returns_rows_in_their_order(grouping: Host) -> None:
    host = grouping
    host.hold(1, 2, 5, [HOT])
    host.queues.put(2, 0, 0, rows([HOT] * 3), version=5)
    host.hold(-1, 0, 6, [HOT])
    host.queues.put(0, 0, 0, rows([HOT] * 3, 10), version=6)
    assert host.process(0) == []
    host.give(-1, 2, 0, [HOT], returns=(1,))
    host.step()
    assert host.process(0) == [0, 1, 2, 10, 11, 12]
    assert host.process(2) == []


def test_rows_that_return_to_a_worker_without_the_state_wait_behind_those_there(grouping: Host) -> None:
    """Keys were to go from worker 0 to 1 and on to 2; both were cancelled."""
    host = grouping
    host.hold(1, 1, 5, [HOT])
    host.queues.put(1, 0, 0, rows([HOT] * 2), version=5)
    host.hold(2, 2, 6, [HOT])
    host.queues.put(2, 0, 0, rows([HOT] * 2, 10), version=6)
    host.hold(-1, 1, 7, [HOT])
    host.hold(-2, 0, 7, [HOT])
    host.queues.put(0, 0, 0, rows([HOT] * 2, 20), version=7)
    host.give(-1, 2, 1, [HOT], returns=(2,))
    host.step()
    assert host.process(1) == [], "the state is with worker 0"
    host.give(-2, 1, 0, [HOT], returns=(1,))
    host.step()
    assert host.process(0) == [0, 1, 10, 11, 20, 21]


def test_adopted_rows_go_on_first(grouping: Host) -> None:
    host = grouping
    host.hold(1, 2, 5, [HOT])
    host.queues.put(2, 0, 0, rows([HOT] * 2), version=5)
    host.hold(2, 0, 6, [HOT])
    host.queues.put(0, 0, 0, rows([HOT] * 2, 10), version=6)
    host.hold(-1, 2, 7, [HOT])
    host.queues.put(2, 0, 0, rows([HOT] * 2, 20), version=7)
    host.give(-1, 0, 2, [HOT], returns=(2,), adopts=(1,))
    host.step()
    assert host.process(2) == [0, 1, 10, 11, 20, 21]


def fail_merging(host: Host, worker: int, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    logic, left = host.workers[worker].logic(0), [times]
    merge = logic.merge_state

    def failing(batches: Iterable[pa.RecordBatch]) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise MemoryError("no memory")
        merge(batches)

    monkeypatch.setattr(logic, "merge_state", failing)


def test_state_that_cannot_be_taken_in_stays_at_its_source(grouping: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host = grouping
    host.queues.put(0, 0, 0, rows([HOT, WARM]))
    host.process(0)
    fail_merging(host, 1, monkeypatch, 1)
    host.hold(1, 1, 5, [HOT])
    host.give(1, 0, 1, [HOT])
    host.step()
    assert [(said.transfer, said.helper, said.reason) for said in host.said(StateStayed)] == [
        (1, 1, "MemoryError: no memory")
    ]
    assert counts(host) == [{HOT: 1, WARM: 1}, {}, {}]


def test_keys_that_have_no_other_place_are_sent_again(grouping: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host = grouping
    host.queues.put(2, 0, 0, rows([HOT]))
    host.process(2)
    fail_merging(host, 0, monkeypatch, TRIES - 1)
    host.give(-1, 2, 0, [HOT], returns=(1,))
    host.step()
    assert host.said(StateStayed) == []
    assert len(host.said(StateArrived)) == 1
    assert counts(host) == [{HOT: 1}, {}, {}]


def test_keys_that_cannot_return_fail_the_flow(grouping: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host = grouping
    host.queues.put(2, 0, 0, rows([HOT]))
    host.process(2)
    fail_merging(host, 0, monkeypatch, 10**6)
    host.give(-1, 2, 0, [HOT], returns=(1,))
    with pytest.raises(FlowFailed, match="worker 2: could not return keys to worker 0: no memory"):
        host.step()


def test_an_export_that_breaks_off_fails_the_flow(grouping: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has removed by then is nowhere."""
    host = grouping
    host.queues.put(0, 0, 0, rows([HOT]))
    host.process(0)

    def breaking(keys: Any, remove: bool) -> Iterable[pa.RecordBatch]:
        yield rows([HOT])
        raise MemoryError("no memory")

    monkeypatch.setattr(host.workers[0].own, "export_state", breaking)
    with pytest.raises(Torn, match="worker 0: lost keys that it was to hand over: MemoryError: no memory"):
        host.give(1, 0, 1, [HOT])


def test_scattered_parts_go_to_their_owners(grouping: Host) -> None:
    host = grouping
    for worker in range(WORKERS):
        host.queues.put(worker, 0, 0, rows([HOT] * (worker + 1)))
        host.process(worker)
    host.moves.obey(GatherScattered(0, 0))
    host.step()
    assert [said.host for said in host.said(ScatteredSent)] == [0]
    assert counts(host) == [{HOT: 6}, {}, {}]
    assert [list(worker.logics) for worker in host.workers[1:]] == [[], []]


# Rows that wait


def test_waiting_rows_move_as_they_are(grouping: Host) -> None:
    host = grouping
    combined = pa.record_batch({"k": [HOT], "n": [7]})
    host.queues.put(0, 0, 0, rows([HOT] * 4))
    host.queues.put(0, 0, 0, combined, combined=True)
    host.queues.put(0, 0, 1, rows([1], 50))
    host.moves.obey(SendBacklog(0, 0, 3, 0, 2, 0, 3))
    host.step()
    assert [(said.transfer, said.rows) for said in host.said(BacklogSent)] == [(3, 3)]
    moved = [host.queues.take(2, 0) for _ in range(2)]
    assert [(item.owner, item.rows, item.combined) for item in moved if item] == [(0, 2, False), (0, 1, True)]
    assert host.process(0) == [0, 1, 50]


def test_waiting_rows_that_cannot_move_stay(grouping: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host = grouping
    host.queues.put(0, 0, 0, rows([HOT] * 4))
    put = host.queues.put

    def full(worker: int, *arguments: Any, **options: Any) -> None:
        if worker == 2:
            raise OSError("no space left")
        put(worker, *arguments, **options)

    monkeypatch.setattr(host.queues, "put", full)
    host.moves.obey(SendBacklog(0, 0, 3, 0, 2, 0, 3))
    host.step()
    assert [(said.target, said.reason) for said in host.said(BacklogStayed)] == [(2, "OSError: no space left")]
    assert sorted(host.process(0)) == [0, 1, 2, 3]


def test_rows_of_which_only_some_could_be_taken_fail_the_flow(grouping: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the disk gets full between two pieces: what is here and stays there would count twice."""
    host = grouping
    host.queues.put(0, 0, 0, rows([HOT] * 2))
    host.queues.put(0, 0, 0, rows([HOT] * 2, 2))
    put, taken = host.queues.put, 0

    def full(worker: int, *arguments: Any, **options: Any) -> None:
        nonlocal taken
        taken += worker == 2
        if taken == 2:
            raise OSError("no space left")
        put(worker, *arguments, **options)

    monkeypatch.setattr(host.queues, "put", full)
    host.moves.obey(SendBacklog(0, 0, 3, 0, 2, 0, 4))
    with pytest.raises(FlowFailed, match="worker 2: could not take all of its rows: no space left"):
        host.step()
    assert host.said(BacklogStayed) == []


# State that does not change


def replicate(host: Host, transfer: int, helper: int, keys: Iterable[int] | None = None) -> None:
    named = None if keys is None else hashes(keys)
    host.moves.obey(Replicate(0, 1, transfer, 0, helper, named))


def test_a_copy_waits_until_the_state_is_complete(joining: Host) -> None:
    host = joining
    replicate(host, 1, 2)
    host.step()
    assert host.said(StateArrived) == []
    open_probe(host)
    host.step()
    assert [said.transfer for said in host.said(StateArrived)] == [1]
    assert matches(host, 2, MINE) == [1] * len(MINE)
    assert host.workers[2].copies == {0: Copied(everything=True)}


def test_state_that_is_copied_again_is_there_once(joining: Host) -> None:
    host = joining
    open_probe(host)
    replicate(host, 1, 2, [HOT])
    replicate(host, 2, 2, [HOT, WARM])
    host.give(3, 0, 2, buckets=(bucket_of(MINE[3]),), port=1)
    replicate(host, 4, 2)
    replicate(host, 5, 2)
    host.step()
    assert sorted(said.transfer for said in host.said(StateArrived)) == [1, 2, 3, 4, 5]
    assert matches(host, 2, MINE) == [1] * len(MINE)


def test_keys_that_move_are_copied_by_their_owner_only(joining: Host) -> None:
    host = joining
    open_probe(host)
    host.give(1, 0, 2, [HOT, WARM], port=1)
    host.step()
    assert matches(host, 2, [HOT, WARM, MINE[2]]) == [1, 1, 0]
    host.give(2, 2, 0, [HOT], port=1)
    host.give(3, 0, 2, [HOT], port=1)
    host.step()
    assert len(host.said(StateArrived)) == 3
    assert matches(host, 2, [HOT, WARM]) == [1, 1]
    assert matches(host, 0, [HOT, WARM]) == [1, 1]


def test_whole_mini_partitions_are_copied(joining: Host) -> None:
    host = joining
    open_probe(host)
    host.give(1, 0, 1, buckets=(bucket_of(HOT),), port=1)
    host.step()
    assert not host.workers[1].lacks_state_of(0, 1)
    assert matches(host, 1, [HOT]) == [1]


def test_a_copy_that_comes_too_late_is_refused(joining: Host) -> None:
    host = joining
    open_probe(host)
    replicate(host, 1, 2)
    host.moves.obey(GatherScattered(0, 1))
    host.step()
    assert [said.reason for said in host.said(StateStayed)] == [
        "FlowFailed: the flow failed in worker 2: the transfer was given up"
    ]
    assert 0 not in host.workers[2].logics
    replicate(host, 2, 1)
    host.step()
    assert 0 not in host.workers[1].logics


def test_a_copy_that_was_given_up_is_not_made(joining: Host) -> None:
    host = joining
    host.moves.obey(Forget(0, 1, 1))
    open_probe(host)
    replicate(host, 1, 2)
    host.step()
    assert host.said(StateArrived) == []


# What arrives


def arrival(part: int, purpose: Purpose = Purpose.HAND_OVER) -> Arrival:
    name = StreamName("run", 1, "host7", 0, 0, purpose, 9, 1, part)
    state = GroupBySpec(SCHEMA, (0,), (CountAll("n"),)).build()
    for _ in state.add(0, rows([HOT] * 4)):
        pass
    parts = [] if purpose is Purpose.RECALL else [(0, batch) for batch in state.export_state(None, remove=True)]
    return Arrival(name, Label(), parts)


def test_a_sender_that_asks_learns_what_was_taken(grouping: Host) -> None:
    host, intake = grouping, grouping.moves.intake
    intake.arrive(arrival(1))
    question = arrival(1, Purpose.RECALL)
    intake.arrive(question)
    host.step()
    question.await_taken()
    assert counts(host)[1] == {HOT: 4}


def test_what_a_sender_was_told_is_not_here_is_not_taken_later(grouping: Host) -> None:
    host, intake = grouping, grouping.moves.intake
    question, late = arrival(1, Purpose.RECALL), arrival(1)
    intake.arrive(question)
    host.step()
    with pytest.raises(FlowFailed, match=NOT_TAKEN):
        question.await_taken()
    intake.arrive(late)
    intake.arrive(arrival(2))  # the next try is another part
    host.step()
    with pytest.raises(FlowFailed, match=NOT_TAKEN):
        late.await_taken()
    assert counts(host)[1] == {HOT: 4}


def test_nobody_waits_at_a_host_that_closes(grouping: Host) -> None:
    intake = grouping.moves.intake
    early, late = arrival(1), arrival(2)
    intake.arrive(early)
    intake.close(FlowFailed("host 0", "the host is closing"))
    intake.arrive(late)
    for one in (early, late):
        with pytest.raises(FlowFailed, match="the host is closing"):
            one.await_taken()


@pytest.mark.parametrize(
    "label",
    [
        Label(),
        Label(None, (3, 4)),
        Label(Extent(5, Copied(everything=True))),
        Label(Extent(0, Copied(frozenset({2**64 - 1, 7}), frozenset({3}))), (1,)),
    ],
)
def test_a_label_comes_back(label: Label) -> None:
    assert Label.unpack(pa.schema([], label.pack()).metadata) == label
