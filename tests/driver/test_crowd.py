"""Many tasks: a report costs the driver the same however many there are, and few of them hold threads of the driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reshape.control.balancing import REPORT_S
from reshape.control.brain import Brain
from reshape.control.commands import Command
from reshape.control.events import Event, MetricsCollected
from reshape.driver import board as board_module
from reshape.driver import counts as counts_module
from reshape.driver.attempts import Attempts
from reshape.driver.board import CALLS_PER_S, HURRY, MOST_WAITING, Board, host_task
from reshape.driver.control_plane import ControlPlane
from reshape.driver.counts import PortCounts
from reshape.driver.execution import Execution
from reshape.driver.host_meeting import HostMeeting
from reshape.driver.service import DriverService
from reshape.exchange.errors import CallFailed
from reshape.exchange.tally import MOST_KEYS, RouterCounts
from reshape.exchange.transport import crew
from reshape.exchange.transport.client import call, connect
from reshape.operators.relay import RelaySpec
from reshape.plan.balancing import brain_of
from reshape.plan.nodes import OperatorNode, SourceNode
from reshape.plan.physical import PhysicalOperator, PhysicalPlan
from reshape.plan.planner import Planner
from reshape.protocol.codec import Poll, encode_poll
from reshape.protocol.link import ControlLink, FlowAddress
from reshape.protocol.newest import newest
from reshape.protocol.orders import Abort, InputEnding, Order, Orders
from reshape.protocol.reports import (
    AskAgain,
    HostReady,
    Met,
    Preview,
    Progress,
    RouterCounted,
    Sender,
    TableApplied,
    WorkerCounts,
)
from reshape.testing import Cut, ThreadCluster, ThreadedFlow, cut_up

TABLE = pa.table({"k": pa.array(np.arange(3_000) % 31), "v": pa.array(np.arange(3_000))})
NODE = OperatorNode((SourceNode(0, TABLE.schema),), RelaySpec(TABLE.schema, (0,)))
LIMIT_S = 60.0


def plan_of(hosts: int) -> PhysicalPlan:
    return Planner().plan(NODE, "crowd", hosts, hosts)


def source_counts(source: int, rows: list[int], keys: dict[int, dict[int, int]] | None = None) -> RouterCounted:
    return RouterCounted(0, 0, f"source-0-{source}", RouterCounts(tuple(rows), tuple(rows), keys or {}))


def host_counts(worker: int, processed: int) -> WorkerCounts:
    return WorkerCounts(0, worker, (0,), (processed,), ({worker: processed},), 0, 0, 0.0, False)


# What a report costs


class Looked(np.ndarray[Any, Any]):
    """Counts per worker that count how often all of them are looked at."""

    times = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        Looked.times += 1
        plain = [part.view(np.ndarray) if isinstance(part, Looked) else part for part in inputs]
        if "out" in options:
            options["out"] = tuple(part.view(np.ndarray) for part in options["out"])
        made = getattr(ufunc, method)(*plain, **options)
        return made.view(Looked) if isinstance(made, np.ndarray) and made.ndim else made


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> type[Looked]:
    class Arrays:
        def __getattr__(self, name: str) -> Any:
            made = getattr(np, name)
            if name not in ("zeros", "asarray", "array", "sum"):
                return made

            def counting(*args: Any, **options: Any) -> Any:
                Looked.times += len(args[0]) if name == "sum" else 0  # so many arrays of counts
                return np.asarray(made(*args, **options)).view(Looked)

            return counting

    monkeypatch.setattr(counts_module, "np", Arrays())
    monkeypatch.setattr(Looked, "times", 0)
    return Looked


def looks_per_round(hosts: int, looked: type[Looked]) -> float:
    """How often a report looks at the counts of all workers, when each host and each source reports."""
    counts = PortCounts(hosts)
    for source in range(hosts):
        counts.router_started(f"source-0-{source}", 0)
    for number in (1, 2):
        looked.times = 0
        for task in range(hosts):
            counts.router_report(f"source-0-{task}", source_counts(task, [number] * hosts).counts)
            counts.host_report(task, 0, [host_counts(task, number)])
        counts.facts(float(number))
    assert counts.routed.tolist() == [2 * hosts] * hosts
    assert counts.of_owner.tolist() == [2] * hosts
    return looked.times / hosts


def test_a_report_costs_the_same_however_many_tasks_there_are(looked: type[Looked]) -> None:
    few, many = looks_per_round(20, looked), looks_per_round(200, looked)
    assert many <= few


def test_an_acknowledged_table_needs_no_look_at_every_router() -> None:
    class Routers(dict[str, Any]):
        looked = 0

        def values(self) -> Any:
            self.looked += 1
            return super().values()

    counts = PortCounts(2)
    routers = counts.routers = Routers()
    for number in range(300):
        counts.router_started(f"source-0-{number}", 0)
    for number in range(300):
        assert counts.applied_by_all() == counts.fenced_by_all() == 0
        counts.applied(f"source-0-{number}", 3)
        counts.fenced(f"source-0-{number}", 2)
    assert (counts.applied_by_all(), counts.fenced_by_all()) == (3, 2)
    counts.router_started("late", 1)
    assert (counts.applied_by_all(), counts.fenced_by_all()) == (1, 1)
    counts.router_ended("late")
    assert (counts.applied_by_all(), counts.fenced_by_all()) == (3, 2)
    for number in range(300):
        counts.router_ended(f"source-0-{number}")
    assert counts.applied_by_all() is counts.fenced_by_all() is None
    assert routers.looked == 0


def test_sums_are_those_of_the_newest_reports() -> None:
    """Reports come in any order, are repeated or lost, and routers begin anew and end; sums are never off."""
    random = np.random.default_rng(7)
    counts = PortCounts(4)
    at_work: dict[str, list[int]] = {}
    ended = np.zeros(4, dtype=np.int64)
    by_host: dict[int, dict[int, int]] = {}
    for _ in range(400):
        name, host = f"source-0-{random.integers(6)}", int(random.integers(3))
        match random.integers(4):
            case 0:
                counts.router_started(name, 0)
                at_work[name] = [0] * 4
            case 1:
                rows = random.integers(100, size=4).tolist()
                counts.router_report(name, RouterCounts(tuple(rows), tuple(rows)))
                if name in at_work:
                    at_work[name] = rows
            case 2:
                counts.router_ended(name)
                ended += at_work.pop(name, [0] * 4)
            case _:
                by_host[host] = {int(owner): int(random.integers(50)) for owner in random.integers(4, size=2)}
                worker = WorkerCounts(0, host, (0,), (0,), (by_host[host],), 0, 0, 0.0, False)
                counts.host_report(host, 0, [worker])
        wanted = ended + sum((np.array(rows) for rows in at_work.values()), np.zeros(4, dtype=np.int64))
        assert counts.routed.tolist() == counts.received.tolist() == wanted.tolist()
        owned = [sum(of.get(owner, 0) for of in by_host.values()) for owner in range(4)]
        assert counts.of_owner.tolist() == owned


class Watched:
    """A brain that says how often it has looked at all workers."""

    def __init__(self, brain: Brain) -> None:
        self._brain = brain
        self.looks = threading.Semaphore(0)
        self.times: list[float] = []

    @property
    def table(self) -> Any:
        return self._brain.table

    @property
    def decisions(self) -> Any:
        return self._brain.decisions

    def handle(self, event: Event) -> list[Command]:
        if isinstance(event, MetricsCollected):
            self.times.append(event.time)
            self.looks.release()
        return self._brain.handle(event)

    def story(self, worker: int) -> list[str]:
        return self._brain.story(worker)


def test_a_brain_looks_when_reports_are_there_and_not_in_between() -> None:
    """Reports and acks of tasks make it look at nothing; the clock does, at the pace of those that call."""
    brains: list[Watched] = []

    def build(plan: PhysicalPlan, operator: PhysicalOperator, port: int) -> Brain:
        brains.append(Watched(brain_of(plan, operator, port)))
        return brains[-1]

    pause_s = 3 * REPORT_S
    control = ControlPlane(plan_of(50), lambda _to, _order: None, lambda _: None, build, pause_s=lambda: pause_s)
    try:
        watched = brains[0]
        for source in range(50):
            control.ports[0, 0].counts.router_started(f"source-0-{source}", 0)
        for number in range(1, 6):
            for task in range(50):
                control.reported(source_counts(task, [number] * 50))
                control.host_report(Progress(task, (host_counts(task, number),), None, {}))
                control.reported(TableApplied(0, 0, f"source-0-{task}", number))
        assert all(watched.looks.acquire(timeout=LIMIT_S) for _ in range(4))
        apart = np.diff(watched.times[1:4])
        assert (apart >= pause_s - 0.001).all()
    finally:
        control.stop()


# Who holds threads


def test_the_first_tasks_may_wait_and_the_others_call() -> None:
    board = Board(REPORT_S, most_waiting=2)
    assert board.pause_s == 0
    first = [board.read(host_task(host), 0, 0.0) for host in range(2)]
    assert [(answer.may_wait, answer.pause_s) for answer in first] == [(True, 0.0)] * 2
    crowd = [host_task(host) for host in range(2, 1_002)]
    for task in crowd:
        board.read(task, 0, LIMIT_S)
    assert board.pause_s == 1_000 / CALLS_PER_S
    answer = board.read(crowd[0], 0, LIMIT_S)  # at once
    assert (answer.may_wait, answer.pause_s) == (False, board.pause_s)
    # Those who may wait need not send counts more often.
    assert board.read(host_task(0), 0, 0.0) == Orders((), 0, False, True, board.pause_s)
    # All hosts are told something, and the next order for them will follow soon.
    board.post("hosts", InputEnding(0, 0))
    answer = board.read(crowd[0], 0, LIMIT_S)
    assert answer.orders == (InputEnding(0, 0),)
    assert answer.pause_s == board.pause_s / HURRY
    # A place that is free goes to whoever calls next.
    board.leave(host_task(0))
    assert board.read(crowd[0], 1, LIMIT_S).may_wait
    assert not board.read(crowd[1], 1, LIMIT_S).may_wait


def test_one_that_may_wait_hears_so_before_it_waits() -> None:
    board = Board()
    assert board.read("host-0", 0, LIMIT_S).orders == ()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(board.read, "host-0", 0, LIMIT_S)
        board.post("all", Abort("here", "why"))
        assert waiting.result().orders == (Abort("here", "why"),)


def test_only_some_hosts_wait_for_the_others() -> None:
    met = Met(1, tuple(f"at-{host}" for host in range(5)))
    meeting = HostMeeting(5, lambda _: met, lambda: None, most_waiting=1)
    ready = [HostReady(host, 0, host, f"at-{host}") for host in range(5)]
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(meeting.arrive, ready[0], LIMIT_S)
        with meeting._news:
            assert meeting._news.wait_for(lambda: meeting._waiting == 1, LIMIT_S)
        for host in ready[1:4]:
            assert isinstance(meeting.arrive(host, LIMIT_S), AskAgain)
        assert meeting.arrive(ready[4], LIMIT_S) == met
        assert first.result() == met
    assert meeting.arrive(ready[1], LIMIT_S) == met


@contextmanager
def crowded_driver(hosts: int) -> Iterator[tuple[FlowAddress, Execution]]:
    plan = plan_of(hosts)
    cluster = ThreadCluster(plan, [[]], lambda: FlowAddress("", "", attempts.access))
    attempts = Attempts("run", plan, cluster)
    service = DriverService("127.0.0.1")
    execution = attempts._execution(1, 0, ())
    attempts._executions[1] = execution
    try:
        yield FlowAddress("run", service.register("run", attempts), attempts.access), execution
    finally:
        execution.fail("the test", "it is over")
        service.close()


def test_idle_hosts_hold_few_threads_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many hosts as may wait, each with counts to tell: what the listener has of threads does not grow."""
    hosts = 2 * MOST_WAITING
    # A call a second each: on a busy machine too it is answered long before the next.
    monkeypatch.setattr(board_module, "CALLS_PER_S", float(MOST_WAITING))
    monkeypatch.setattr(crew, "LINGER_S", 0.2)
    with crowded_driver(hosts) as (address, execution):
        booked = threading.Semaphore(0)
        book = execution.result.book

        def booking(report: Progress) -> None:
            book(report)
            booked.release()

        execution.result.book = booking  # type: ignore[method-assign]
        heard: list[Order] = []
        links = [ControlLink(address, 1, host_task(host), heard.append) for host in range(hosts)]
        for host, link in enumerate(links):
            link.start()
            link.note(Progress(host, (host_counts(host, 1),), None, {}))
        assert all(booked.acquire(timeout=LIMIT_S) for _ in range(hosts))
        assert len(execution.board._waiting) == MOST_WAITING
        assert len(execution.board._calling) == hosts - MOST_WAITING
        for host, link in enumerate(links):  # now those that may have a line open it
            link._note_at = 0.0
            link.note(Progress(host, (host_counts(host, 2),), None, {}))
        assert all(booked.acquire(timeout=LIMIT_S) for _ in range(hosts))
        assert sum(link._notes is not None for link in links) == MOST_WAITING
        # A poll each for those that may wait. The others call now and then, and a few threads linger for them: less
        # than one for each, or this will not be so before the time is over.
        assert eventually(lambda: serving_threads() <= MOST_WAITING + MOST_WAITING // 2)
        assert execution.control.ports[0, 0].counts.processed.sum() == 2 * hosts
        for link in links:
            link.close()


def serving_threads() -> int:
    """Threads that serve connections, here of the one listener in this process."""
    return sum(thread.name.endswith("-serve") for thread in threading.enumerate())


def eventually(true: Callable[[], bool]) -> bool:
    """Whether this becomes true; nobody tells when it does."""
    until = time.monotonic() + LIMIT_S
    while not true() and time.monotonic() < until:
        time.sleep(0.05)
    return true()


# What such tasks say and hear


def test_a_flow_whose_tasks_all_call_gives_every_row() -> None:
    boards: list[Board] = []

    def no_room(execution: Execution) -> None:
        execution.board._most_waiting = 0
        boards.append(execution.board)

    flow = ThreadedFlow(plan_of(3), [cut_up(TABLE, np.random.default_rng(1), Cut(1, 4, 200))], on_execution=no_room)
    result = flow.run()
    assert sorted(result.column("v").to_pylist()) == list(range(3_000))
    execution = flow.attempts.newest
    assert execution is not None
    assert not boards[0]._waiting
    # The last counts of every host have come, though nobody held a line open for them.
    assert execution.result.all_done
    assert sum(sum(worker.processed) for _, worker in execution.result.workers()) == 3_000


def test_newer_counts_replace_older_ones_but_for_what_is_told_once() -> None:
    rows = pa.record_batch({"v": pa.array([1])})
    before = Progress(0, (), (Preview(0, 0, rows),), {0: RouterCounts((1,), (1,), {0: {5: 1}}, {2: 1})})
    after = Progress(
        0, (), None, {0: RouterCounts((9,), (8,), {0: {5: 2, 6: 1}}, {2: 1, 3: 1}), 1: RouterCounts((), ())}
    )
    counts = RouterCounts((9,), (8,), {0: {5: 3, 6: 1}}, {2: 2, 3: 1})
    assert newest(before, after) == Progress(0, (), before.previews, {0: counts, 1: RouterCounts((), ())})
    assert newest(None, after) == after
    light = source_counts(0, [1], {0: dict.fromkeys(range(MOST_KEYS), 1)})
    heavy = source_counts(0, [2], {1: {10_000 + key: 2 for key in range(10)}})
    merged = newest(light, heavy)
    assert isinstance(merged, RouterCounted)
    assert merged.counts.keys[1] == heavy.counts.keys[1]
    assert sum(map(len, merged.counts.keys.values())) == MOST_KEYS


def test_a_poll_with_counts_about_what_the_flow_has_not_got_is_refused() -> None:
    with crowded_driver(2) as (address, execution):
        client = connect(address.location, address.access)
        poll = Poll(Sender("run", 1, "host-0"), 0, (Progress(7, (), None, {}),))
        with pytest.raises(CallFailed, match="must be below 2"):
            call(client, "orders", encode_poll(poll), LIMIT_S)
        assert not execution.over
        assert execution.result.workers() == []
