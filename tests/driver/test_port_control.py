"""The body of one brain: what commands become, in which order, and when an input is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reshape.control.commands import (
    CancelTransfer,
    Command,
    HandOverState,
    MoveBacklog,
    ReplicateState,
    SetRouting,
)
from reshape.control.events import (
    BacklogMoved,
    Drained,
    Event,
    InputEnded,
    MetricsCollected,
    RoutingApplied,
    StateTransferred,
    TransferFailed,
)
from reshape.control.routing import RoutingTable, Shares
from reshape.control.story import Decision
from reshape.driver.board import Recipient
from reshape.driver.port_control import PortControl
from reshape.exchange.tally import RouterCounts
from reshape.protocol.orders import (
    Forget,
    GatherScattered,
    Give,
    Hold,
    InputEnding,
    Order,
    SendBacklog,
    UseTable,
    Withdraw,
)
from reshape.protocol.reports import (
    BacklogSent,
    Fenced,
    Holding,
    NewestTable,
    RouterCounted,
    RouterStarted,
    ScatteredSent,
    StateArrived,
    StateStayed,
    TableApplied,
    Withdrawn,
    WorkerCounts,
)

KEY = 77
Posted = list[tuple[Recipient, Any]]  # to whom, and one of the orders


class Script:
    """A brain that says what it was told to say, at the next event; without anything to say it may raise."""

    def __init__(self) -> None:
        self.table = RoutingTable()
        self.decisions: list[Decision] = []
        self.heard: list[Event] = []
        self.next: list[list[Command]] = []
        self.raises = False

    def handle(self, event: Event) -> list[Command]:
        self.heard.append(event)
        if self.raises:
            raise ZeroDivisionError("a test")
        return self.next.pop(0) if self.next else []

    def story(self, worker: int) -> list[str]:
        return []


class Desk:
    """A port with four workers on two hosts and two routers, and everything that it orders."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.brain = Script()
        self.orders: Posted = []
        self.drained = 0
        self.control = PortControl(0, 0, self.brain, (0, 0, 1, 1), self._post, self._on_drained, delay_s=delay_s)
        self.control.line.opened_at = 0.0
        self.now = 0.0
        for router in ("a", "b"):
            self.started(router)
        # A brain's time begins with the first row.
        self.control.counts.router_report("a", RouterCounts((1, 0, 0, 0), (1, 0, 0, 0)))
        self.control.counts.processed[0] = 1

    def _post(self, to: Recipient, order: Order) -> None:
        if not isinstance(order, InputEnding):  # asks hosts for reports
            self.orders.append((to, order))

    def _on_drained(self) -> None:
        self.drained += 1

    def say(self, *commands: Command) -> Posted:
        """Let the brain say this; the orders that come of it."""
        self.brain.next.append(list(commands))
        return self.after(self.tick)

    def tick(self) -> None:
        self.now += 1.0
        self.control.tick(self.now)

    def after(self, action: Callable[[], Any]) -> Posted:
        before = len(self.orders)
        action()
        return self.orders[before:]

    def fence(self, version: int) -> Posted:
        """All routers use a version, and all that they sent before is with the workers."""

        def both() -> None:
            for router in ("a", "b"):
                self.applied(router, version)
                self.fenced(router, version)

        return self.after(both)

    def end(self) -> None:
        for router in ("a", "b"):
            self.ended(router)
        self.control.end_input()

    def heard(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.brain.heard if isinstance(event, kind)]

    def waits_for_drain(self) -> bool:
        return not any(isinstance(order, GatherScattered) for _, order in self.orders)

    # What tasks report

    def started(self, router: str) -> NewestTable:
        answer = self.control.reported(RouterStarted(0, 0, router))
        assert isinstance(answer, NewestTable)
        return answer

    def applied(self, router: str, version: int) -> None:
        self.control.reported(TableApplied(0, 0, router, version))

    def fenced(self, router: str, version: int) -> None:
        self.control.reported(Fenced(0, 0, router, version))

    def ended(self, router: str) -> None:
        """It has sent no more than it had when it reported last."""
        self.control.router_ended(router)

    def holding(self, transfer: int) -> None:
        self.control.reported(Holding(0, 0, transfer))

    def arrived(self, transfer: int, helper: int, size: int = 0, seconds: float = 0.0) -> None:
        self.control.reported(StateArrived(0, 0, transfer, helper, size, seconds))

    def stayed(self, transfer: int, helper: int, reason: str) -> None:
        self.control.reported(StateStayed(0, 0, transfer, helper, reason))

    def withdrawn(self, transfer: int) -> None:
        self.control.reported(Withdrawn(0, 0, transfer))

    def backlog_sent(self, transfer: int, rows: int) -> None:
        self.control.reported(BacklogSent(0, 0, transfer, rows))

    def scattered_sent(self, host: int) -> None:
        self.control.reported(ScatteredSent(0, 0, host))


def table(version: int, worker: int | None) -> SetRouting:
    return SetRouting(0, 0, RoutingTable(version, keys={} if worker is None else {KEY: Shares.whole(worker)}))


def move(transfer: int, source: int, target: int, version: int) -> HandOverState:
    return HandOverState(0, 0, transfer, source, target, frozenset({KEY}), version)


def cancel(transfer: int) -> CancelTransfer:
    return CancelTransfer(0, 0, transfer, "a test")


def kinds(orders: Posted) -> list[tuple[Recipient, type[Order]]]:
    return [(to, type(order)) for to, order in orders]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def started(desk: Desk) -> Desk:
    """Key 77 is on its way from worker 0 to worker 2 under version 1."""
    desk.say(move(1, 0, 2, 1), table(1, 2))
    desk.holding(1)
    return desk


def test_a_hand_over_goes_step_by_step(desk: Desk) -> None:
    orders = desk.say(move(1, 0, 2, 1), table(1, 2))
    assert kinds(orders) == [(1, Hold)], "no router may send before the target holds"
    assert (orders[0][1].keys, orders[0][1].version, orders[0][1].worker) == ((KEY,), 1, 2)
    orders = desk.after(lambda: desk.holding(1))
    assert kinds(orders) == [("all", UseTable)]
    assert orders[0][1].fence is True
    desk.applied("a", 1)
    assert desk.heard(RoutingApplied) == []
    desk.applied("b", 1)
    assert [event.version for event in desk.heard(RoutingApplied)] == [1]
    assert desk.after(lambda: desk.fenced("a", 1)) == []
    orders = desk.after(lambda: desk.fenced("b", 1))
    assert kinds(orders) == [(0, Give)]
    assert (orders[0][1].target, orders[0][1].keys, orders[0][1].returns) == (2, (KEY,), ())
    desk.end()
    assert desk.waits_for_drain(), "state is on its way"
    desk.arrived(1, 2, 100, 0.5)
    assert [(e.transfer, e.helper, e.bytes) for e in desk.heard(StateTransferred)] == [(1, 2, 100)]
    assert not desk.waits_for_drain()


def test_tables_keep_their_order_behind_a_hold(desk: Desk) -> None:
    desk.say(move(1, 0, 2, 1), table(1, 2))
    assert desk.say(table(2, None)) == [], "an older table waits for a hold"
    orders = desk.after(lambda: desk.holding(1))
    assert [(type(order), order.table.version, order.fence) for _, order in orders] == [
        (UseTable, 1, True),
        (UseTable, 2, False),
    ]
    assert desk.say(table(2, None)) == [], "a table that is sent again is known"


def test_a_router_begins_with_the_newest_table_and_is_no_obstacle_when_it_is_gone(desk: Desk) -> None:
    started(desk)
    assert desk.started("late").table.version == 1
    desk.ended("a")
    desk.applied("b", 1)
    orders = desk.after(lambda: desk.fenced("b", 1))
    assert kinds(orders) == [(0, Give)]


def test_keys_move_on_only_after_they_have_come(desk: Desk) -> None:
    started(desk)
    desk.say(move(2, 2, 3, 2), table(2, 3))
    desk.holding(2)
    assert kinds(desk.fence(2)) == [(0, Give)], "worker 2 has nothing to give yet"
    orders = desk.after(lambda: desk.arrived(1, 2))
    assert [(to, type(order), order.transfer) for to, order in orders] == [(1, Give, 2)]


def test_unrelated_keys_do_not_wait_for_each_other(desk: Desk) -> None:
    started(desk)
    other = HandOverState(0, 0, 2, 2, 3, frozenset({KEY + 1}), 2)
    desk.say(other, table(2, 2))
    desk.holding(2)
    assert sorted(order.transfer for _, order in desk.fence(2) if isinstance(order, Give)) == [1, 2]


def test_a_hand_over_that_is_cancelled_early_returns_what_was_held_back(desk: Desk) -> None:
    started(desk)
    orders = desk.say(cancel(1), table(2, None))
    assert kinds(orders) == [(0, Hold)], "rows sent from now on wait for those that come back"
    back = orders[0][1].transfer
    assert (back < 0, orders[0][1].worker, orders[0][1].version) == (True, 0, 2)
    assert kinds(desk.after(lambda: desk.holding(back))) == [("all", UseTable)]
    orders = desk.fence(2)
    assert kinds(orders) == [(1, Give)]
    assert (orders[0][1].source, orders[0][1].target, orders[0][1].returns) == (2, 0, (1,))
    desk.end()
    assert desk.waits_for_drain()
    desk.arrived(back, 0)
    assert not desk.waits_for_drain()
    assert desk.heard(StateTransferred) == [], "the brain knows nothing of it"


def test_a_source_that_was_asked_is_told_to_keep_the_state(desk: Desk) -> None:
    started(desk)
    desk.fence(1)
    orders = desk.say(cancel(1), table(2, None))
    assert kinds(orders) == [(0, Hold), (0, Withdraw)]
    back = orders[0][1].transfer
    desk.holding(back)
    assert desk.fence(2) == [], "nobody knows where the state is"
    assert kinds(desk.after(lambda: desk.withdrawn(1))) == [(1, Give)]


def test_state_that_had_arrived_returns(desk: Desk) -> None:
    started(desk)
    desk.fence(1)
    desk.arrived(1, 2)  # and the answer is late
    orders = desk.say(cancel(1), table(2, None))
    assert kinds(orders) == [(0, Hold)]
    desk.holding(orders[0][1].transfer)
    assert kinds(desk.fence(2)) == [(1, Give)]


def test_a_chain_returns_link_by_link(desk: Desk) -> None:
    """Rows held at worker 3 go to worker 2, and from there, behind those that were held before them, to worker 0."""
    started(desk)
    desk.say(move(2, 2, 3, 2), table(2, 3))
    desk.holding(2)
    orders = desk.say(cancel(2), cancel(1), table(3, None))
    assert [(type(order), order.worker) for _, order in orders] == [(Hold, 2), (Hold, 0)]
    first, second = (order.transfer for _, order in orders)
    desk.holding(first)
    desk.holding(second)
    orders = desk.fence(3)
    assert [(order.transfer, order.source, order.target, order.returns) for _, order in orders] == [(first, 3, 2, (2,))]
    orders = desk.after(lambda: desk.arrived(first, 2))
    assert [(order.transfer, order.source, order.target, order.returns) for _, order in orders] == [
        (second, 2, 0, (1,))
    ]


def test_a_reverse_under_way_brings_back_what_a_cancelled_one_held(desk: Desk) -> None:
    started(desk)
    desk.say(move(2, 2, 0, 2), table(2, None))
    desk.holding(2)
    assert desk.say(cancel(1)) == [], "the keys are on their way back already"
    orders = desk.fence(2)
    assert [(order.transfer, order.returns) for _, order in orders if isinstance(order, Give)] == [(2, (1,))]


def test_rows_for_a_reverse_that_is_cancelled_too_are_adopted(desk: Desk) -> None:
    """Keys that end at worker 2 after all: the rows that were held there first go on when the keys come."""
    started(desk)
    desk.say(move(2, 2, 0, 2), table(2, None))
    desk.holding(2)
    desk.say(cancel(1))
    orders = desk.say(cancel(2), table(3, 2))
    [back] = [order.transfer for _, order in orders if isinstance(order, Hold)]
    desk.holding(back)
    orders = desk.fence(3)
    assert [(order.source, order.target, order.returns, order.adopts) for _, order in orders] == [(0, 2, (2,), (1,))]


def test_one_that_failed_and_was_not_cancelled_ends_with_the_input(desk: Desk) -> None:
    started(desk)
    desk.fence(1)
    desk.stayed(1, 2, "no memory")
    assert [(e.transfer, e.helper, e.reason) for e in desk.heard(TransferFailed)] == [(1, 2, "no memory")]
    orders = desk.after(desk.end)
    assert kinds(orders) == [(0, Hold)]
    back = orders[0][1].transfer
    assert kinds(desk.after(lambda: desk.holding(back))) == [(1, Give)]
    assert desk.waits_for_drain()
    desk.arrived(back, 0)
    assert not desk.waits_for_drain()


def test_without_a_brain_what_failed_is_routed_back_at_once(desk: Desk) -> None:
    started(desk)
    desk.fence(1)
    desk.brain.raises = True
    orders = desk.after(lambda: desk.stayed(1, 2, "no memory"))
    assert kinds(orders) == [(0, Hold)]
    back = orders[0][1].transfer
    [(_, order)] = desk.after(lambda: desk.holding(back))
    assert (order.table.version, order.table.keys, order.fence) == (2, {KEY: Shares.whole(0)}, True)
    assert [(give.source, give.target, give.returns) for _, give in desk.fence(2)] == [(2, 0, (1,))]
    heard = len(desk.brain.heard)
    desk.tick()
    assert len(desk.brain.heard) == heard, "it is not asked again"
    desk.end()
    assert desk.waits_for_drain()
    desk.arrived(back, 0)
    assert not desk.waits_for_drain()


@pytest.mark.parametrize("ended", [False, True])
def test_without_a_brain_keys_that_never_came_are_not_given_on(desk: Desk, ended: bool) -> None:
    started(desk)
    desk.fence(1)
    desk.say(move(2, 2, 3, 2), table(2, 3))
    desk.holding(2)
    desk.brain.raises = True
    if ended:
        desk.end()
    orders = desk.after(lambda: desk.stayed(1, 2, "no memory"))
    assert [(type(order), order.worker) for _, order in orders] == [(Hold, 2), (Hold, 0)]
    first, second = (order.transfer for _, order in orders)
    desk.holding(first)
    orders = desk.after(lambda: desk.holding(second))
    if not ended:
        assert [(order.table.version, order.table.keys) for _, order in orders] == [(3, {KEY: Shares.whole(0)})]
        orders = desk.fence(3)
    assert desk.orders[-1][1].transfer == first, orders
    orders = desk.after(lambda: desk.arrived(first, 2))
    assert [(order.transfer, order.source, order.target, order.returns) for _, order in orders] == [
        (second, 2, 0, (1,))
    ]


def test_hand_overs_that_failed_and_wait_for_each_other_return_at_the_end(desk: Desk) -> None:
    """Keys and buckets may be the same rows, so what returns from worker 3 waits for both, and neither comes."""
    started(desk)
    desk.say(HandOverState(0, 0, 2, 1, 3, frozenset(), 2, frozenset({5})), table(2, 2))
    desk.holding(2)
    desk.say(move(3, 2, 3, 3), table(3, 3))
    desk.holding(3)
    desk.fence(3)
    desk.stayed(1, 2, "no memory")
    desk.stayed(2, 3, "no memory")
    orders = desk.after(desk.end)
    back = {order.transfer: (order.worker, order.keys, order.buckets) for _, order in orders}
    assert sorted(back.values()) == [(0, (KEY,), ()), (1, (), (5,)), (2, (KEY,), ())]
    for transfer in back:
        desk.holding(transfer)
    while given := [order for _, order in desk.orders if isinstance(order, Give) and order.transfer in back]:
        desk.orders.clear()
        for order in given:
            desk.arrived(order.transfer, back.pop(order.transfer)[0])
    assert not back
    assert not desk.waits_for_drain()


def test_copies_are_ordered_from_the_skewed_worker(desk: Desk) -> None:
    orders = desk.say(ReplicateState(0, 0, 5, 3, (0, 1), None), ReplicateState(0, 0, 6, 3, (2,), frozenset({9, 4})))
    assert [(to, order.skewed, order.helper, order.keys) for to, order in orders] == [
        (1, 3, 0, None),
        (1, 3, 1, None),
        (1, 3, 2, (4, 9)),
    ]
    desk.arrived(5, 1, 10, 0.1)
    desk.stayed(5, 0, "no memory")
    assert [event.helper for event in desk.heard(StateTransferred)] == [1]
    assert [event.helper for event in desk.heard(TransferFailed)] == [0]
    assert kinds(desk.say(cancel(6))) == [("hosts", Forget)]


def test_rows_that_move_are_counted_where_they_are_and_waited_for(desk: Desk) -> None:
    orders = desk.say(MoveBacklog(0, 0, 4, 1, 3, 1, 500))
    assert [(to, type(order), order.target, order.rows) for to, order in orders] == [(0, SendBacklog, 3, 500)]
    desk.end()
    assert desk.waits_for_drain()
    desk.backlog_sent(4, 120)
    assert [event.rows for event in desk.heard(BacklogMoved)] == [120]
    assert desk.control.counts.moved.tolist() == [0, -120, 0, 120]
    desk.tick()
    assert not desk.waits_for_drain()
    desk.backlog_sent(4, 120)
    assert desk.control.counts.moved.tolist() == [0, -120, 0, 120], "told twice, counted once"


def test_an_input_is_over_when_every_row_is_processed_and_all_parts_are_with_their_owners(desk: Desk) -> None:
    desk.control.reported(RouterCounted(0, 0, "a", RouterCounts((5, 5, 0, 0), (2, 5, 3, 0))))
    desk.end()
    assert len(desk.heard(InputEnded)) == 1
    assert desk.waits_for_drain()

    def report(processed: list[int]) -> None:
        workers = [WorkerCounts(0, w, (0,), (done,), ({},), 0, 0, 0.0, False) for w, done in enumerate(processed)]
        desk.control.counts.host_report(0, 0, workers)
        desk.control.host_reported()

    report([2, 4, 3, 0])
    assert desk.waits_for_drain()
    report([2, 5, 3, 0])
    assert kinds(desk.orders[-1:]) == [("hosts", GatherScattered)]
    assert len(desk.heard(Drained)) == 1
    assert desk.say(table(9, 1)) == [], "a brain has no say any more"
    desk.scattered_sent(0)
    desk.scattered_sent(0)
    assert desk.drained == 0
    desk.scattered_sent(1)
    desk.scattered_sent(1)
    assert desk.drained == 1


def test_slow_control_delays_events_and_orders() -> None:
    desk = Desk(delay_s=2.5)
    desk.brain.next.append([table(1, 2)])
    desk.tick()
    assert desk.brain.heard == []
    for _ in range(3):
        desk.tick()
    assert isinstance(desk.brain.heard[0], MetricsCollected)
    assert desk.orders == []
    for _ in range(3):
        desk.tick()
    assert kinds(desk.orders) == [("all", UseTable)]
