"""Split by records: the phases, their iterations, and where the state goes first."""

from __future__ import annotations

from fractions import Fraction

import pytest

from reshape.control.commands import Command, ReplicateState, SetRouting
from reshape.control.events import Drained, InputEnded
from reshape.control.routing import Shares
from reshape.control.settings import AdaptiveTau, FirstPhase
from reshape.control.story import DecisionKind

from .desk import MUTABLE, Desk, none_of, only

LOADED = [800, 100, 100]


def detect(desk: Desk, keys: dict[str, int] | None = None) -> list[Command]:
    """Worker 0 becomes skewed, worker 1 its helper."""
    by_owner = {0: keys} if keys else {}
    desk.report([0, 0, 0], LOADED, keys=by_owner)
    return desk.report([500, 20, 80], LOADED, keys=by_owner)


def in_phase_two(desk: Desk) -> Desk:
    commands = detect(desk)
    if desk.brain.table.version == 0:
        desk.state_arrives(only(commands, ReplicateState).transfer, 1)
    desk.apply()
    desk.report([450, 460, 80], LOADED)
    desk.apply()
    return desk


def rule(desk: Desk) -> Shares | None:
    return desk.brain.table.owners.get(0)


def test_immutable_state_is_acknowledged_before_routing_changes() -> None:
    desk = Desk()
    commands = detect(desk)
    sent = only(commands, ReplicateState)
    assert (sent.skewed, sent.helpers, sent.keys) == (0, (1,), None)
    assert none_of(commands, SetRouting)
    for _ in range(3):
        assert desk.report([600, 20, 80], LOADED) == [], "nothing happens before the state is there"
    assert desk.state_arrives(sent.transfer, 2) == [], "nor when somebody else has it"
    assert desk.state_arrives(sent.transfer + 7, 1) == []
    assert only(desk.state_arrives(sent.transfer, 1), SetRouting).table.owners == {0: Shares.whole(1)}


def test_phase_one_lasts_until_workloads_are_similar_then_shares_are_equal() -> None:
    desk = Desk()
    desk.state_arrives(only(detect(desk), ReplicateState).transfer, 1)
    desk.apply()
    assert desk.report([480, 100, 80], LOADED) == []
    assert desk.report([470, 150, 80], LOADED) == []
    table = only(desk.report([460, 470, 80], LOADED), SetRouting).table
    assert table.owners == {0: Shares.of(0, {1: Fraction(7, 16)})}, "1,600 and 200 of 2,000 become 900 each"


def test_phase_two_waits_until_routers_use_phase_one() -> None:
    desk = Desk()
    desk.state_arrives(only(detect(desk), ReplicateState).transfer, 1)
    assert desk.report([460, 470, 80], LOADED) == []
    desk.apply()
    assert not none_of(desk.report([460, 470, 80], LOADED), SetRouting)


def test_without_the_first_phase_future_load_is_shared_at_once() -> None:
    desk = Desk(first_phase=FirstPhase.OFF)
    table = only(desk.state_arrives(only(detect(desk), ReplicateState).transfer, 1), SetRouting).table
    assert table.owners == {0: Shares.of(0, {1: Fraction(7, 16)})}
    desk.apply()
    assert desk.report([500, 20, 80], LOADED) == [], (
        "the gap that was there at the start is no reason for another round"
    )
    assert DecisionKind.ITERATED not in desk.kinds()
    desk.report([700, 20, 80], LOADED)
    assert DecisionKind.ITERATED in desk.kinds(), "what comes on top of it is"


def test_phase_one_with_a_part_moves_heavy_keys_only() -> None:
    desk = Desk(first_phase=FirstPhase.PART)
    sent = only(detect(desk, {"a": 500, "b": 200, "c": 100}), ReplicateState)
    assert sent.keys == frozenset("a"), "a alone has more than half of the load"
    table = only(desk.state_arrives(sent.transfer, 1), SetRouting).table
    assert table.keys == {"a": Shares.whole(1)}
    assert table.owners == {}
    desk.apply()
    table = only(desk.report([460, 470, 80], LOADED), SetRouting).table
    assert table.keys == {"a": Shares.of(0, {1: Fraction(7, 10)})}, "700 of the 1,000 rows of a"


def test_a_part_without_known_keys_is_everything() -> None:
    assert only(detect(Desk(first_phase=FirstPhase.PART)), ReplicateState).keys is None


def test_another_iteration_when_the_skewed_worker_gets_ahead() -> None:
    desk = in_phase_two(Desk())
    assert desk.report([540, 450, 80], [900, 50, 50]) == []
    commands = desk.report([560, 450, 80], [900, 50, 50])
    assert only(commands, SetRouting).table.owners == {0: Shares.whole(1)}, "phase one again"
    assert none_of(commands, ReplicateState), "one state transfer serves all iterations"
    assert DecisionKind.ITERATED in desk.kinds()
    desk.apply()
    table = only(desk.report([500, 510, 80], [900, 50, 50]), SetRouting).table
    assert table.owners[0].share_of(1) == Fraction(17, 36), "1,800 and 100, from the windows since the last balance"


def test_the_reverse_iteration_when_the_helper_gets_ahead() -> None:
    desk = in_phase_two(Desk())
    commands = desk.report([450, 560, 80], [600, 300, 100])
    assert only(commands, SetRouting).table.owners == {}, "phase one, reversed: S keeps all of its rows"
    desk.apply()
    assert desk.report([480, 560, 80], [600, 300, 100]) == []
    table = only(desk.report([565, 560, 80], [600, 300, 100]), SetRouting).table
    assert table.owners[0].share_of(1) == Fraction(1, 4), "1,200 and 600 become 900 each"


def test_the_reverse_iteration_without_a_first_phase_only_changes_the_shares() -> None:
    desk = Desk(first_phase=FirstPhase.OFF)
    desk.state_arrives(only(detect(desk), ReplicateState).transfer, 1)
    desk.apply()
    table = only(desk.report([450, 900, 80], [600, 300, 100]), SetRouting).table
    assert table.owners[0].share_of(1) == Fraction(1, 4)


def test_mutable_state_scatters_and_needs_no_transfer() -> None:
    desk = Desk(state=MUTABLE)
    commands = detect(desk)
    assert none_of(commands, ReplicateState)
    assert only(commands, SetRouting).table.owners == {0: Shares.whole(1)}


def test_the_end_of_the_input_ends_all_mitigations_and_changes_no_routing() -> None:
    desk = in_phase_two(Desk())
    assert none_of(desk.event(InputEnded), SetRouting)
    assert desk.brain.pairs == {}
    for _ in range(5):
        assert desk.report([900, 0, 0]) == []
    desk.event(Drained)
    assert desk.report([900, 0, 0]) == []


def test_several_helpers_catch_up_in_proportion_and_share_towards_the_average() -> None:
    desk = Desk(4, helpers=2)
    desk.report([0] * 4, [700, 100, 100, 100])
    sent = only(desk.report([1000, 400, 100, 950], [700, 100, 100, 100]), ReplicateState)
    assert sent.helpers == (2, 1)
    assert desk.state_arrives(sent.transfer, 1) == []
    table = only(desk.state_arrives(sent.transfer, 2), SetRouting).table
    assert table.owners == {0: Shares.of(2, {1: Fraction(1, 5)})}, "level 500: worker 1 lacks 100, worker 2 lacks 400"
    desk.apply()
    table = only(desk.report([900, 900, 910, 950], [700, 100, 100, 100]), SetRouting).table
    shares = table.owners[0]
    assert float(shares.share_of(1)) == pytest.approx(2 / 7, abs=1e-3), "600 each, of 1,400 and twice 200"
    assert shares.share_of(1) == shares.share_of(2)


def test_chi_chooses_the_number_of_helpers() -> None:
    def helpers(remaining: int | None, state_bytes: int) -> int:
        desk = Desk(8, helpers=None, state_bytes=state_bytes)
        desk.report([0] * 8, [930, *[10] * 7], remaining=remaining)
        commands = desk.report([2000, *[0] * 7], [930, *[10] * 7], remaining=remaining)
        return len(only(commands, ReplicateState).helpers)

    assert helpers(None, 0) == 7
    assert helpers(10**6, 10**6) == 7
    assert helpers(2000, 10**8) == 1, "one helper takes 1 s, each further one costs rows that are left to redirect"


def test_tau_grows_while_predictions_are_poor() -> None:
    desk = Desk(adaptive=AdaptiveTau(low=98, high=110, increase_by=50))
    desk.report([0, 0, 0], [800, 100, 100])
    desk.report([500, 20, 80], [300, 400, 300])
    assert desk.brain.pairs == {0: (1,)}, "the test was passed: mitigation starts whatever the error is"
    assert desk.brain.tau(0) == 150
    assert desk.brain.tau(1) == 100


def test_tau_falls_when_predictions_are_good_and_mitigation_starts_at_once() -> None:
    desk = Desk(tau=1000.0, adaptive=AdaptiveTau(low=98, high=110, increase_by=50))
    for _ in range(6):
        desk.report([80, 20, 20], LOADED)
    assert desk.brain.pairs == {}
    desk.report([300, 20, 20], LOADED)
    assert desk.brain.pairs == {0: (1,)}
    assert desk.brain.tau(0) == 280


def test_a_fixed_tau_waits() -> None:
    desk = Desk(tau=1000.0)
    for _ in range(12):
        desk.report([900, 20, 20], LOADED)
    assert desk.brain.pairs == {}


def test_detection_is_earlier_where_migration_takes_time() -> None:
    """M = 0.5 s, (0.8 - 0.1) of 1,000 rows/s: 350 rows come meanwhile, so tau' = 650."""
    for gap, starts in ((640, False), (660, True)):
        desk = Desk(tau=1000.0, state_bytes=50_000_000)
        desk.report([0, 0, 0], LOADED)
        desk.report([gap, 0, 0], LOADED)
        assert bool(desk.brain.pairs) is starts


def test_a_migration_that_would_end_after_the_input_is_refused_once() -> None:
    desk = Desk(state_bytes=10**9)
    desk.report([0, 0, 0], LOADED, remaining=9000)
    for _ in range(30):
        assert desk.report([900, 0, 0], LOADED, remaining=8000) == []
    assert desk.kinds() == [DecisionKind.REFUSED]
    assert "10.0 s to migrate" in desk.brain.story(0)[0]
    assert "8.0 s" in desk.brain.story(0)[0]
    desk.report([900, 0, 0], LOADED, remaining=10**6, after=60.0)
    assert desk.brain.pairs == {0: (1,)}, "with more input it is worth it"


@pytest.mark.parametrize("helpers", [1, 2])
def test_a_helper_that_gets_its_own_load_while_load_returns_is_released(helpers: int) -> None:
    """It would never be caught up with, and nobody would help it."""
    desk = Desk(4, helpers=helpers, state=MUTABLE)
    desk.report([0] * 4, [700, 100, 100, 100])
    desk.report([500, 20, 30, 480], [700, 100, 100, 100])
    desk.apply()
    desk.report([450, 460, 460, 480], [700, 100, 100, 100])
    desk.apply()
    desk.report([400, 560, 460, 480], [550, 250, 100, 100])
    assert 0 in desk.brain.pairs
    assert 0 not in desk.brain.table.owners, "phase one, reversed"
    desk.apply()
    for rows in range(600, 1400, 100):
        desk.report([100, rows, 50, 50], [100, 700, 100, 100])
        desk.apply()
    assert 1 in desk.brain.pairs, "worker 1 is a skewed worker by now"
