"""How many hosts leave room for what else must run; whose turn it is; who waits for whom for ever. No JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from reshape.driver.slot_use import Holder, SlotUse, starved
from reshape.driver.slots import FlowSlots, can_end, hosts_beside_sources, most_hosts
from reshape.driver.turns import Turn, Turns

WAIT_S = 60.0


def flow(name: str, hosts: int, *reads: FlowSlots, sources: bool = True) -> FlowSlots:
    return FlowSlots(name, hosts, sources, reads)


def test_two_results_of_default_flows_can_meet_in_one_job() -> None:
    for slots in range(3, 40):
        hosts, spare = hosts_beside_sources(slots)
        first, second = (FlowSlots(name, hosts, True, spare=spare) for name in ("first", "second"))
        assert can_end([first, second], slots), slots
        assert can_end([first, second, flow("third", slots // 2 + 1)], slots) or slots <= 3
        assert hosts >= slots // 2, "fewer than half would waste what the session has"
        assert slots - hosts >= min(2, slots // 2), "a single slot for sources is too little"


def test_a_default_flow_leaves_room_for_one_that_reads_its_result() -> None:
    for slots in range(3, 40):
        hosts, spare = hosts_beside_sources(slots)
        inner = FlowSlots("inner", hosts, True, spare=spare)
        outer = flow("outer", hosts_beside_sources(slots, [inner])[0], inner)
        assert can_end([inner], slots - outer.hosts), slots
        assert outer.least <= slots


@pytest.mark.parametrize(
    ("hosts", "slots", "ends"),
    [
        ((2, 2), 4, False),
        ((2, 1), 4, True),
        ((3, 2), 4, True),
        ((3, 1), 4, False),
        ((2, 3), 5, False),
        ((1,), 1, False),
    ],
)
def test_flows_end_if_there_is_room_for_all_or_for_one(hosts: tuple[int, ...], slots: int, ends: bool) -> None:
    assert can_end([flow(f"f{number}", each) for number, each in enumerate(hosts)], slots) is ends


def test_tasks_to_spare_keep_a_second_flow_from_starting() -> None:
    """They are gone when it would start: two hosts hold half of four slots, and three are wanted."""
    first, second = (FlowSlots(name, 2, True, spare=1) for name in ("first", "second"))
    assert (first.to_start, first.least) == (3, 3)
    assert can_end([first, second], 4)
    assert can_end([first], 3)
    assert not can_end([first], 2)
    assert not can_end([first, flow("its own", 2)], 4), "it would find two free"


def test_flows_that_read_by_themselves_wait_for_nobody() -> None:
    assert can_end([flow("scan", 4, sources=False), flow("other", 4, sources=False), flow("third", 3)], 4)


def test_results_that_take_turns_may_be_read_together() -> None:
    read = [flow("a", 5), flow("b", 5)]
    assert most_hosts(8, read) == 2
    assert most_hosts(4, [flow("a", 3)]) == 0
    assert flow("outer", 2, *read).least == 8


# Turns


class Line:
    """A session of four slots in which other flows may run."""

    def __init__(self) -> None:
        self.others: list[FlowSlots] = []
        self.turns = Turns(lambda: 4, lambda: self.others)
        self.stopped: list[str] = []

    def enter(self, name: str, hosts: int) -> Turn:
        return self.turns.enter(flow(name, hosts), self.stopped.append)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_flows_that_do_not_fit_run_in_their_order(pool: ThreadPoolExecutor) -> None:
    line = Line()
    order: list[str] = []
    began = {name: threading.Event() for name in "abc"}
    goes_on = {name: threading.Event() for name in "abc"}

    def run(turn: Turn) -> None:
        assert line.turns.wait(turn)
        order.append(turn.flow.name)
        began[turn.flow.name].set()
        assert goes_on[turn.flow.name].wait(WAIT_S)
        line.turns.end(turn)

    turns = [line.enter(name, hosts) for name, hosts in (("a", 2), ("b", 3), ("c", 1))]
    done = [pool.submit(run, turn) for turn in reversed(turns)]
    for name in "abc":
        assert began[name].wait(WAIT_S)
        # The small one would fit beside the first, but it is not its turn.
        assert order == list("abc")[: "abc".index(name) + 1]
        waiting = line.turns.queued(turns[-1])
        assert (waiting is None) is (name == "c")
        assert waiting is None or f"it needs 2 of 4 task slots, and before it come {name} (" in waiting
        goes_on[name].set()
    for each in done:
        each.result(WAIT_S)


def test_flows_that_fit_run_at_once() -> None:
    line = Line()
    assert all(line.turns.wait(line.enter(name, 1)) for name in "ab")


def test_flows_of_other_actions_count(pool: ThreadPoolExecutor) -> None:
    line = Line()
    line.others = [flow("by an action", 2)]
    turn = line.enter("started", 2)
    waits = pool.submit(line.turns.wait, turn)
    assert "by an action (3)" in (line.turns.queued(turn) or "")
    assert not waits.done()
    line.others = []
    assert waits.result(WAIT_S)


def test_a_flow_that_is_withdrawn_waits_no_longer(pool: ThreadPoolExecutor) -> None:
    line = Line()
    assert line.turns.wait(line.enter("first", 3))
    second, third = line.enter("second", 3), line.enter("third", 3)
    waits = pool.submit(line.turns.wait, second)
    for _ in range(2):
        line.turns.withdraw(second)
    assert not waits.result(WAIT_S)
    line.turns.end(second)
    assert "second" not in (line.turns.queued(third) or "")
    line.turns.stop_all("Ctrl-C")
    assert line.stopped == ["Ctrl-C"] * 2


# Who waits for whom


def use(tasks: dict[int, int], **sources: set[int]) -> SlotUse:
    return SlotUse(4, tasks, {group: frozenset(stages) for group, stages in sources.items()})


A, B = Holder(1, "a"), Holder(2, "b")


def test_hosts_that_hold_all_slots_wait_for_ever() -> None:
    assert starved([A, B], use({1: 2, 2: 2, 3: 0, 4: 0}, a={3}, b={4})) == [A, B]


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (use({1: 2, 2: 2, 3: 0}, a={3}, b=set()), "b has no source to wait for: it works on what it has"),
        (use({1: 2, 2: 1, 3: 0, 4: 1}, a={3}, b={4}), "a source of b runs"),
        (use({1: 2, 3: 0, 9: 2}, a={3}), "tasks of somebody else will end"),
    ],
)
def test_a_wait_that_something_will_end_is_let_be(seen: SlotUse, why: str) -> None:
    assert starved([A, B], seen) == [], why


def test_a_flow_that_waits_for_one_that_waits() -> None:
    """The hosts of b are the source job of a, and b finds no slot for its own source."""
    assert starved([A, B], use({1: 2, 2: 2, 3: 0}, a={2}, b={3})) == [A, B]
    assert starved([A, B], use({1: 2, 2: 1, 3: 1}, a={2}, b={3})) == []
