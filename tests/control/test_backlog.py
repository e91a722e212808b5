"""Backlog transfer: what is queued already becomes level at once, also after the input has ended."""

from __future__ import annotations

import pytest

from reshape.control.commands import Command, MoveBacklog, ReplicateState, SetRouting
from reshape.control.events import BacklogMoved, InputEnded, StateTransferred, TransferFailed
from reshape.control.reshaping.shares import surplus_rows
from reshape.control.settings import AdaptiveTau, FirstPhase

from .desk import IMMUTABLE, MUTABLE, SBK, Desk, none_of, only

LOADED = [800, 100, 100]


def moves(commands: list[Command]) -> dict[tuple[int, int], int]:
    found = [command for command in commands if isinstance(command, MoveBacklog)]
    assert all(command.owner in (command.source, command.target) for command in found)
    return {(command.source, command.target): command.rows for command in found}


def levelled(desk: Desk) -> list[Command]:
    """The commands with which worker 0 and its helper become level."""
    desk.report([0, 0, 0], LOADED)
    commands = desk.report([500, 21, 80], LOADED)
    if none_of(commands, SetRouting):
        commands = desk.state_arrives(only(commands, ReplicateState).transfer, 1)
    return commands


@pytest.mark.parametrize("first_phase", [FirstPhase.ALL, FirstPhase.OFF])
def test_queues_become_level_and_the_future_is_shared_in_one_step(first_phase: FirstPhase) -> None:
    desk = Desk(backlog=True, first_phase=first_phase)
    commands = levelled(desk)
    assert moves(commands) == {(0, 1): 239}
    assert 0 < only(commands, SetRouting).table.owners[0].share_of(1) < 1, "no first phase is needed"
    desk.apply()
    move = only(commands, MoveBacklog)
    assert desk.event(BacklogMoved, move.transfer, move.rows) == []
    for _ in range(3):
        assert desk.report([262, 260, 80], LOADED) == []


def test_nothing_new_is_decided_while_rows_are_on_their_way() -> None:
    desk = Desk(backlog=True)
    commands = levelled(desk)
    desk.apply()
    assert desk.report([900, 20, 80], LOADED) == []
    desk.event(BacklogMoved, only(commands, MoveBacklog).transfer, 239)
    assert not none_of(desk.report([900, 20, 80], LOADED), MoveBacklog)


def test_state_is_there_before_queued_rows_are() -> None:
    desk = Desk(backlog=True)
    desk.report([0, 0, 0], LOADED)
    assert none_of(desk.report([500, 20, 80], LOADED), MoveBacklog)


def test_helpers_that_have_part_of_the_state_get_no_queued_rows() -> None:
    """Queued rows are of all keys; only those of the part would find their state."""
    desk = Desk(backlog=True, first_phase=FirstPhase.PART)
    desk.report([0, 0, 0], LOADED, keys={0: {"a": 500, "b": 300}})
    sent = only(desk.report([500, 20, 80], LOADED, keys={0: {"a": 500, "b": 300}}), ReplicateState)
    assert sent.keys == frozenset("a")
    assert none_of(desk.state_arrives(sent.transfer, 1), MoveBacklog)
    desk.apply()
    desk.event(InputEnded)
    whole = only(desk.report([500, 20, 80], LOADED), ReplicateState)
    assert whole.keys is None
    assert moves(desk.state_arrives(whole.transfer, whole.helpers[0]))


def test_with_mutable_state_a_part_is_no_hindrance() -> None:
    desk = Desk(backlog=True, first_phase=FirstPhase.PART, state=MUTABLE)
    desk.report([0, 0, 0], LOADED, keys={0: {"a": 500, "b": 300}})
    assert moves(desk.report([500, 20, 80], LOADED, keys={0: {"a": 500, "b": 300}})) == {(0, 1): 240}


def test_several_helpers_become_level() -> None:
    desk = Desk(4, backlog=True, helpers=3, state=MUTABLE)
    desk.report([0] * 4, [700, 100, 100, 100])
    commands = desk.report([1000, 100, 200, 700], [700, 100, 100, 100])
    assert moves(commands) == {(0, 1): 333, (0, 2): 233}, "worker 3 is above the level of 433"


def test_the_way_back_is_level_too() -> None:
    desk = Desk(4, backlog=True, helpers=3, state=MUTABLE)
    desk.report([0] * 4, [700, 100, 100, 100])
    commands = desk.report([1000, 100, 100, 100], [700, 100, 100, 100])
    for command in commands:
        if isinstance(command, MoveBacklog):
            desk.event(BacklogMoved, command.transfer, command.rows)
    desk.apply()
    back = desk.report([100, 400, 400, 500], [500, 150, 150, 200])
    assert moves(back) == {(1, 0): 50, (2, 0): 50, (3, 0): 150}, "all end at 350"


def test_surplus_is_the_reverse_of_filling_up() -> None:
    assert surplus_rows(0, {1: 100, 2: 100, 3: 100}) == {1: 25, 2: 25, 3: 25}
    assert surplus_rows(0, {1: 100, 2: 10}) == {1: 50}
    assert surplus_rows(100, {1: 100, 2: 10}) == {}


def test_a_dry_queue_is_followed_by_the_first_phase() -> None:
    """Rows that still wait at the senders cannot be moved: redirect future ones instead of asking again."""
    desk = Desk(backlog=True, state=MUTABLE)
    commands = levelled(desk)
    desk.event(BacklogMoved, only(commands, MoveBacklog).transfer, 0)
    desk.apply()
    commands = desk.report([900, 20, 80], LOADED)
    assert none_of(commands, MoveBacklog)
    assert only(commands, SetRouting).table.owners[0].share_of(1) == 1


def test_a_failed_or_late_move_leaves_the_pair_alive() -> None:
    for late in (False, True):
        desk = Desk(backlog=True, state=MUTABLE)
        move = only(levelled(desk), MoveBacklog)
        desk.apply()
        if late:
            desk.report([500, 20, 80], LOADED, after=31.0)
        else:
            desk.event(TransferFailed, move.transfer, 1, "no route")
        assert desk.brain.pairs == {0: (1,)}
        assert any("backlog" in line and "failed" in line for line in desk.brain.story(0))
        desk.report([900, 20, 80], LOADED)
        assert isinstance(desk.sent[-1], MoveBacklog), "it is tried again"
        assert desk.sent[-1].transfer != move.transfer


def test_rows_that_come_before_the_table_is_in_use_are_counted_too() -> None:
    """800 rows a second go to a worker that does 100; what the report said is half a second old."""
    moved = []
    for after in (0.0, 0.5):
        desk = Desk(backlog=True)
        desk.report([0, 0, 0], LOADED)
        sent = only(desk.report([500, 20, 80], LOADED), ReplicateState)
        moved.append(moves(desk.event(StateTransferred, sent.transfer, 1, 0, 0.1, after=after))[0, 1])
    assert moved[0] == 240
    assert moved[1] == pytest.approx(240 + 0.5 * (800 - 100) / 2, rel=0.05)


def test_what_is_queued_is_evened_out_while_tau_is_high() -> None:
    """tau grows while predictions are poor; queued rows need none."""
    desk = Desk(backlog=True, state=MUTABLE, adaptive=AdaptiveTau(low=0.0, high=0.0, increase_by=5_000.0))
    desk.report([0, 0, 0], [400, 300, 300])
    moved = only(desk.report([500, 20, 80], LOADED), MoveBacklog)
    desk.event(BacklogMoved, moved.transfer, moved.rows)
    desk.apply()
    assert desk.brain.tau(0) > 5_000
    assert none_of(desk.report([300, 250, 80], LOADED), MoveBacklog)
    commands = desk.report([700, 300, 80], LOADED)
    assert moves(commands) == {(0, 1): 200}
    assert none_of(commands, SetRouting), "only the queue"


def test_after_the_input_tau_is_not_what_predictions_made_of_it() -> None:
    desk = Desk(backlog=True, state=MUTABLE, adaptive=AdaptiveTau(low=0.0, high=0.0, increase_by=5_000.0))
    desk.report([0, 0, 0], [400, 300, 300])
    moved = only(desk.report([500, 20, 80], LOADED), MoveBacklog)
    assert desk.brain.tau(0) > 5_000, "the error was above the preferred range"
    desk.event(BacklogMoved, moved.transfer, moved.rows)
    desk.apply()
    desk.event(InputEnded)
    assert moves(desk.report([900, 100, 100])), "700 rows more than the others, with a tau of 100"


def test_keys_that_need_order_keep_their_queue() -> None:
    desk = Desk(backlog=True, split=SBK)
    for _ in range(4):
        desk.report([900, 0, 0], LOADED, keys={0: {"a": 300, "b": 300, "c": 200}})
    desk.event(InputEnded)
    desk.report([900, 0, 0])
    assert none_of(desk.sent, MoveBacklog)


class Queues:
    """Executes moves of queued rows; nothing is processed, so that only levelling changes them."""

    def __init__(self, desk: Desk, queued: list[int], lent: dict[tuple[int, int], int] | None = None) -> None:
        """``lent``: rows at a worker that are another one's, by worker and owner."""
        self.desk = desk
        self.waiting = {(worker, worker): rows for worker, rows in enumerate(queued)} | (lent or {})
        self.copies = {(worker, owner) for worker, owner in self.waiting}

    def step(self) -> None:
        pending = list(self.desk.report(self.total))
        while pending:
            command = pending.pop(0)
            if isinstance(command, ReplicateState):
                for helper in command.helpers:
                    self.copies.add((helper, command.skewed))
                    pending += self.desk.state_arrives(command.transfer, helper)
            elif isinstance(command, MoveBacklog):
                here, there = (command.source, command.owner), (command.target, command.owner)
                assert self.desk.brain._profile.state is MUTABLE or there in self.copies, "rows without their state"
                rows = min(command.rows, self.waiting.get(here, 0))
                self.waiting[here] = self.waiting.get(here, 0) - rows
                self.waiting[there] = self.waiting.get(there, 0) + rows
                pending += self.desk.event(BacklogMoved, command.transfer, rows)

    @property
    def total(self) -> list[int]:
        return [
            sum(rows for (at, _), rows in self.waiting.items() if at == worker) for worker in range(self.desk.workers)
        ]


@pytest.mark.parametrize("state", [MUTABLE, IMMUTABLE])
@pytest.mark.parametrize(
    "queued",
    [
        [9000, 0, 0, 0, 0, 0],
        [9000, 5000, 300, 200, 100, 0],
        [5000, 5000, 5000, 0, 0, 0],
        [1000, 2000, 3000, 4000, 5000, 6000],
    ],
)
def test_after_the_input_pairs_regroup_until_all_queues_are_nearly_level(state: object, queued: list[int]) -> None:
    desk = Desk(6, backlog=True, helpers=None, state=state)  # type: ignore[arg-type]
    desk.report([0] * 6, [rows + 1 for rows in queued])
    desk.event(InputEnded)
    queues = Queues(desk, queued)
    for _ in range(60):
        queues.step()
    assert sum(queues.total) == sum(queued)
    mean = sum(queued) / 6
    assert max(queues.total) <= 1.15 * mean + 100, queues.total
    assert not desk.brain.pairs


@pytest.mark.parametrize("state", [MUTABLE, IMMUTABLE])
def test_rows_that_a_worker_got_as_a_helper_move_on_after_the_input(state: object) -> None:
    desk = Desk(6, backlog=True, state=state)  # type: ignore[arg-type]
    loaded = [800, 100, 100, 100, 100, 100]
    desk.report([0] * 6, loaded)
    commands = desk.report([500, 21, 80, 80, 80, 80], loaded)
    if none_of(commands, SetRouting):
        commands = desk.state_arrives(only(commands, ReplicateState).transfer, 1)
    desk.apply()
    move = only(commands, MoveBacklog)
    assert (move.source, move.target, move.owner) == (0, 1, 0)
    desk.event(BacklogMoved, move.transfer, move.rows)
    desk.event(InputEnded)
    queues = Queues(desk, [300, 100, 300, 300, 300, 300], {(1, 0): 4000})
    for _ in range(80):
        queues.step()
    assert sum(queues.total) == 5600
    assert max(queues.total) <= 1.15 * 5600 / 6 + 100, queues.total
    assert any("which are worker 0's" in line for line in desk.brain.story(1))
