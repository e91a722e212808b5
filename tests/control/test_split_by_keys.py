"""Split by keys: which keys move, behind what, and where they are when something fails."""

from __future__ import annotations

from reshape.control.commands import CancelTransfer, Command, HandOverState, MoveBacklog, SetRouting
from reshape.control.events import InputEnded
from reshape.control.routing import Shares
from reshape.control.story import DecisionKind

from .desk import MUTABLE, SBK, Desk, none_of, only

LOADED = [800, 100, 100]
KEYS = {0: {"a": 350, "b": 250, "c": 200}, 1: {"x": 100}, 2: {"y": 100}}
MORE = {0: {"a": 50, "b": 500, "c": 250, "d": 100}}  # b grows, and d is small enough to follow a


def detect(desk: Desk) -> list[Command]:
    """1,600 rows of worker 0 and 200 of worker 1: the set closest to half of 1,400 is {a}."""
    desk.report([0, 0, 0], LOADED, keys=KEYS)
    return desk.report([500, 20, 80], LOADED, keys=KEYS)


def moved(desk: Desk) -> Desk:
    """Key a is with worker 1."""
    sent = only(detect(desk), HandOverState)
    desk.apply()
    desk.state_arrives(sent.transfer, 1)
    assert desk.brain.table.keys == {"a": Shares.whole(1)}
    return desk


def test_immutable_state_goes_behind_markers_too_for_the_helper_must_not_overtake() -> None:
    commands = detect(Desk(split=SBK))
    assert [type(command) for command in commands] == [HandOverState, SetRouting]


def test_mutable_state_moves_behind_the_markers_of_the_table_in_the_same_list() -> None:
    commands = detect(Desk(split=SBK, state=MUTABLE))
    assert [type(command) for command in commands] == [HandOverState, SetRouting]
    sent, table = only(commands, HandOverState), only(commands, SetRouting).table
    assert (sent.source, sent.target, sent.keys, sent.version) == (0, 1, frozenset("a"), table.version)
    assert table.keys == {"a": Shares.whole(1)}


def test_nothing_new_until_the_hand_over_is_done_and_routers_know() -> None:
    desk = Desk(split=SBK, state=MUTABLE)
    sent = only(detect(desk), HandOverState)
    assert desk.report([900, 20, 80], LOADED, keys=KEYS) == []
    desk.state_arrives(sent.transfer, 1)
    assert desk.report([900, 20, 80], LOADED, keys=KEYS) == []
    desk.apply()
    assert only(desk.report([900, 20, 80], [900, 50, 50], keys=MORE), HandOverState).keys == {"d"}


def test_a_failed_hand_over_puts_the_keys_back_under_a_new_version() -> None:
    desk = Desk(split=SBK, state=MUTABLE)
    sent = only(detect(desk), HandOverState)
    desk.apply()
    commands = desk.state_fails(sent.transfer, 1)
    assert [type(command) for command in commands] == [CancelTransfer, SetRouting]
    assert only(commands, CancelTransfer).transfer == sent.transfer
    table = only(commands, SetRouting).table
    assert table.keys == {}
    assert table.version == sent.version + 1
    assert desk.brain.pairs == {}
    assert DecisionKind.FAILED in desk.kinds()
    assert desk.state_arrives(sent.transfer, 1) == [], "a late answer changes nothing"
    desk.apply()
    later = [c for _ in range(10) for c in desk.report([900, 20, 80], LOADED, keys=KEYS)]
    assert only(later, HandOverState).transfer != sent.transfer, "it is tried again"


def test_a_late_hand_over_is_a_failed_one() -> None:
    desk = Desk(split=SBK, state=MUTABLE)
    sent = only(detect(desk), HandOverState)
    desk.apply()
    assert desk.report([500, 20, 80], LOADED, keys=KEYS, after=29.0) == []
    commands = desk.report([500, 20, 80], LOADED, keys=KEYS, after=10.0)
    assert only(commands, CancelTransfer).transfer == sent.transfer
    assert only(commands, SetRouting).table.keys == {}


def test_a_hand_over_has_the_time_that_the_queue_before_it_takes() -> None:
    """100 s of rows wait at the source ahead of the markers: the state cannot leave before."""
    desk = Desk(split=SBK, state=MUTABLE)
    desk.report([0, 0, 0], LOADED, keys=KEYS)
    only(desk.report([10_000, 0, 0], LOADED, keys=KEYS), HandOverState)
    desk.apply()
    for _ in range(12):
        assert desk.report([10_000, 0, 0], LOADED, keys=KEYS, after=10.0) == []
    assert not none_of(desk.report([10_000, 0, 0], LOADED, keys=KEYS, after=20.0), CancelTransfer)


def test_when_no_set_of_keys_helps_nothing_moves_and_it_says_so() -> None:
    desk = Desk(split=SBK, state=MUTABLE)
    hot = {0: {"december": 800}}
    desk.report([0, 0, 0], LOADED, keys=hot)
    for _ in range(5):
        assert desk.report([900, 0, 0], LOADED, keys=hot) == []
    assert desk.brain.pairs == {}
    assert desk.kinds() == [DecisionKind.REFUSED]
    assert "no set of worker 0's keys helps" in desk.brain.story(0)[0]
    assert "1,600.0" in desk.brain.story(0)[0]
    desk.report([900, 0, 0], LOADED, keys=KEYS, after=60.0)
    for _ in range(30):
        desk.report([900, 0, 0], LOADED, keys=KEYS)
    assert desk.brain.pairs == {0: (1,)}, "when the keys change, it looks again"


def test_keys_return_one_by_one_when_the_helper_has_more() -> None:
    desk = moved(Desk(split=SBK, state=MUTABLE))
    now = {0: {"a": 300, "b": 100, "c": 100}, 1: {"x": 400}}
    for _ in range(2):
        desk.report([200, 290, 80], [500, 400, 100], keys=now)
    commands = desk.report([100, 600, 80], [500, 400, 100], keys=now)
    back = only(commands, HandOverState)
    assert (back.source, back.target, back.keys) == (1, 0, frozenset("a"))
    assert only(commands, SetRouting).table.keys == {}
    assert only(commands, SetRouting).table.version == back.version


def test_a_failed_return_leaves_the_keys_with_the_helper() -> None:
    desk = moved(Desk(split=SBK, state=MUTABLE))
    back = None
    for _ in range(60):
        commands = desk.report([0, 0, 0], [3, 3, 3])
        desk.apply()
        if not none_of(commands, HandOverState):
            back = only(commands, HandOverState)
            break
    assert back is not None, "calm: the keys go home"
    assert (back.source, back.target) == (1, 0)
    table = only(desk.state_fails(back.transfer, 0), SetRouting).table
    assert table.keys == {"a": Shares.whole(1)}
    assert desk.brain.pairs == {0: (1,)}
    desk.apply()
    again = [c for _ in range(15) for c in desk.report([0, 0, 0], [3, 3, 3])]
    desk.state_arrives(only(again, HandOverState).transfer, 0)
    assert desk.brain.pairs == {}
    assert desk.brain.table.keys == {}


def test_workers_stay_paired_until_mutable_state_is_back() -> None:
    desk = moved(Desk(split=SBK, state=MUTABLE))
    while none_of(desk.report([0, 0, 0], [3, 3, 3]), HandOverState):
        assert desk.time < 100
    desk.apply()
    assert desk.brain.pairs == {0: (1,)}
    desk.report([0, 900, 0], [3, 300, 3], keys={1: {"x": 200, "z": 100}})
    assert desk.brain.pairs == {0: (1,)}, "worker 1 cannot be mitigated while it hands keys back"


def test_a_failed_hand_over_keeps_earlier_keys_with_the_helper() -> None:
    desk = moved(Desk(split=SBK))
    sent = only(desk.report([900, 20, 80], [900, 50, 50], keys=MORE), HandOverState)
    assert only(desk.state_fails(sent.transfer, 1), SetRouting).table.keys == {"a": Shares.whole(1)}
    assert desk.brain.pairs == {0: (1,)}


def test_the_end_of_the_input_gives_up_what_is_under_way_and_moves_nothing() -> None:
    desk = Desk(split=SBK, state=MUTABLE, backlog=True)
    sent = only(detect(desk), HandOverState)
    commands = desk.event(InputEnded)
    assert only(commands, CancelTransfer).transfer == sent.transfer
    assert none_of(commands, SetRouting)
    assert desk.brain.pairs == {}
    for _ in range(3):
        assert desk.report([900, 0, 0]) == []
    assert none_of(desk.sent, MoveBacklog)
