"""What does not arrive, comes late or twice: routing stays as it was, the story says so, and the brain goes on."""

from __future__ import annotations

import pytest

from reshape.control.commands import CancelTransfer, Command, ReplicateState, SetRouting
from reshape.control.events import BacklogMoved, RoutingApplied, StateTransferred, TransferFailed
from reshape.control.routing import RoutingTable
from reshape.control.story import DecisionKind

from .desk import MUTABLE, Desk, none_of, only

LOADED = [800, 100, 100]


def detect(desk: Desk) -> ReplicateState:
    desk.report([0] * desk.workers, [800, *[100] * (desk.workers - 1)])
    return only(desk.report([500, 20, *[80] * (desk.workers - 2)], LOADED), ReplicateState)


def until(desk: Desk, kind: type[Command], most: int = 30) -> list[Command]:
    for _ in range(most):
        commands = desk.report([900, 20, *[80] * (desk.workers - 2)], LOADED)
        if not none_of(commands, kind):
            return commands
    raise AssertionError(f"no {kind.__name__} within {most} reports")


def test_a_failed_migration_leaves_routing_as_it_was_and_is_tried_again() -> None:
    desk = Desk()
    sent = detect(desk)
    assert desk.state_fails(sent.transfer, 1) == []
    assert desk.brain.table == RoutingTable()
    assert desk.brain.pairs == {}
    assert desk.kinds() == [DecisionKind.STARTED, DecisionKind.FAILED, DecisionKind.ENDED]
    assert "connection lost" in desk.brain.story(0)[1]
    assert "routing stays as it was" in desk.brain.story(0)[1]
    assert desk.report([900, 20, 80], LOADED) == [], "not at once"
    again = only(until(desk, ReplicateState), ReplicateState)
    assert not none_of(desk.state_arrives(again.transfer, again.helpers[0]), SetRouting)


def test_each_failure_makes_the_pause_longer_but_never_endless() -> None:
    desk = Desk()
    sent = detect(desk)
    pauses = []
    for _ in range(8):
        desk.state_fails(sent.transfer, 1)
        before = desk.time
        sent = only(until(desk, ReplicateState, most=100), ReplicateState)
        pauses.append(desk.time - before)
    assert pauses[:3] == [4, 8, 16]
    assert max(pauses) <= 31
    desk.state_arrives(sent.transfer, 1)
    assert not none_of(desk.sent[-1:], SetRouting)


def test_a_long_gap_between_reports_makes_no_long_pause() -> None:
    desk = Desk()
    sent = detect(desk)
    desk.report([900, 20, 80], LOADED, after=10_000.0)
    assert not none_of(desk.sent[-1:], CancelTransfer), f"transfer {sent.transfer} is late"
    until(desk, ReplicateState, most=40)


def test_a_late_migration_is_given_up_and_its_answer_ignored() -> None:
    desk = Desk()
    sent = detect(desk)
    assert desk.report([600, 20, 80], LOADED, after=29.0) == []
    cancel = only(desk.report([600, 20, 80], LOADED, after=2.0), CancelTransfer)
    assert cancel.transfer == sent.transfer
    assert "31.0 s" in cancel.reason
    assert desk.brain.pairs == {}
    assert desk.brain.table == RoutingTable()
    assert any("no answer after 31.0 s" in line for line in desk.brain.story(0))
    assert desk.state_arrives(sent.transfer, 1) == []
    assert desk.brain.table == RoutingTable()
    again = only(until(desk, ReplicateState), ReplicateState)
    assert again.transfer != sent.transfer


def test_a_large_state_may_take_its_time() -> None:
    """20 s expected at the guessed speed: late is four times that, not the 30 s of small transfers."""
    desk = Desk(state_bytes=2 * 10**9)
    detect(desk)
    assert desk.report([600, 20, 80], LOADED, after=70.0) == []
    assert not none_of(desk.report([600, 20, 80], LOADED, after=11.0), CancelTransfer)


def test_helpers_that_got_the_state_go_on_without_the_others() -> None:
    desk = Desk(4, helpers=2)
    sent = detect(desk)
    assert sent.helpers == (1, 2)
    assert desk.state_fails(sent.transfer, 2) == []
    assert desk.brain.pairs == {0: (1,)}
    table = only(desk.state_arrives(sent.transfer, 1), SetRouting).table
    assert table.owners[0].workers == (1,)


def test_a_helper_that_answered_in_time_goes_on_when_another_is_late() -> None:
    desk = Desk(4, helpers=2)
    sent = detect(desk)
    assert desk.state_arrives(sent.transfer, 1) == []
    commands = desk.report([600, 20, 80, 80], LOADED, after=40.0)
    assert only(commands, SetRouting).table.owners[0].workers == (1,)
    assert desk.brain.pairs == {0: (1,)}
    assert none_of(desk.state_arrives(sent.transfer, 2), SetRouting)


def test_a_lost_acknowledgement_makes_the_table_go_out_again() -> None:
    desk = Desk(state=MUTABLE)
    desk.report([0, 0, 0], LOADED)
    first = only(desk.report([500, 20, 80], LOADED), SetRouting)
    for _ in range(29):
        assert desk.report([500, 600, 80], LOADED) == [], "nothing new before all routers use it"
    again = only(desk.report([500, 600, 80], LOADED), SetRouting)
    assert again.table is first.table
    assert again.id != first.id
    assert desk.report([500, 600, 80], LOADED) == [], "once per time limit"
    desk.apply()
    assert only(desk.report([500, 600, 80], LOADED), SetRouting).table.version == 2, "and then it goes on"


@pytest.mark.parametrize("version", [-1, 0, 2, 10**9])
def test_acknowledgements_of_other_versions_mean_nothing(version: int) -> None:
    desk = Desk(state=MUTABLE)
    desk.report([0, 0, 0], LOADED)
    desk.report([500, 20, 80], LOADED)
    assert desk.event(RoutingApplied, version) == []
    assert desk.report([500, 600, 80], LOADED) == []


def test_acknowledgements_may_come_twice_and_out_of_order() -> None:
    desk = Desk(state=MUTABLE)
    desk.report([0, 0, 0], LOADED)
    desk.report([500, 20, 80], LOADED)
    desk.apply()
    desk.report([500, 600, 80], LOADED)
    assert desk.brain.table.version == 2
    desk.apply()
    for version in (1, 2, 1):
        assert desk.event(RoutingApplied, version) == []
    assert not none_of(desk.report([900, 600, 80], LOADED), SetRouting)


def test_answers_to_nothing_are_ignored() -> None:
    desk = Desk()
    sent = detect(desk)
    before = len(desk.brain.decisions)
    for event in (
        (StateTransferred, 99, 1, 10, 0.1),
        (StateTransferred, sent.transfer, 2, 10, 0.1),
        (TransferFailed, 99, 1, "?"),
        (TransferFailed, sent.transfer, 2, "?"),
        (BacklogMoved, 99, 5),
        (BacklogMoved, sent.transfer, 5),
    ):
        assert desk.event(*event) == []
    assert len(desk.brain.decisions) == before
    assert not none_of(desk.state_arrives(sent.transfer, 1), SetRouting)
    assert desk.state_arrives(sent.transfer, 1) == [], "twice"
    assert desk.state_fails(sent.transfer, 1) == [], "success, then failure"
