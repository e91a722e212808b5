"""The simulated body merges scattered parts at their owners by itself, whatever the brain says or forgets."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from reshape.control.commands import Command, HandOverState, MoveBacklog, SetRouting
from reshape.control.events import Event, InputEnded, MetricsCollected
from reshape.control.profile import OperatorProfile, Split, StateKind
from reshape.control.routing import RoutingTable, Shares
from reshape.sim.recorder import Merges
from reshape.sim.scenario import Failures, Network, Scenario
from reshape.sim.simulation import simulate

Make = Callable[..., Scenario]

COUNT = OperatorProfile("count", 3, state=StateKind.MUTABLE)
HALF = RoutingTable(1, owners={0: Shares.of(0, {1: Fraction(1, 2)})})


def test_merging_kept_rows_takes_their_time(scenario: Make, brain: Any) -> None:
    network = Network(0.0, 0.0, link_bytes_per_s=100.0, row_bytes=10)
    for combinable, seconds in ((False, 5.0), (True, 0.1)):
        profile = OperatorProfile("sort", 2, state=StateKind.MUTABLE, combinable=combinable)
        (run,) = simulate(scenario({0: 100}, profile=profile, network=network), brain(table=HALF))
        assert run.received == (50, 50)
        assert run.merges.final_s == pytest.approx(seconds)
        assert (run.merges.count, run.merges.rows) == (1, {(0, 1): 50})
        assert run.total_s > 5.0 + seconds


def test_parts_are_merged_at_watermarks_and_at_the_end(scenario: Make, brain: Any) -> None:
    """50 rows at the helper take 5 s: two watermarks, and what is left at the end; no row is merged twice."""
    (run,) = simulate(scenario({0: 100}, profile=COUNT, watermark_s=2.0), brain(table=HALF))
    assert run.merges.count == 3
    assert run.merges.rows == {(0, 1): 50}
    network = Network(0.0, 0.0, link_bytes_per_s=100.0, row_bytes=10)
    kept = OperatorProfile("median", 3, state=StateKind.MUTABLE, combinable=False)
    (late,) = simulate(scenario({0: 100}, profile=kept, network=network, watermark_s=2.0), brain(table=HALF))
    assert 0 < late.merges.final_s < 5.0, "only what came after the last watermark travels at the end"


def test_watermarks_end_with_the_run(scenario: Make, brain: Any) -> None:
    (run,) = simulate(scenario({0: 100}, watermark_s=3.0), brain())
    assert 9 < run.total_s < 12
    assert run.merges.count == 0


def test_a_helper_of_the_past_is_merged_too(scenario: Make, brain: Any) -> None:
    """The rule is taken back after the first report; the rows that the helper got before are a part all the same."""
    reports = 0

    def react(event: Event) -> list[Command]:
        nonlocal reports
        reports += isinstance(event, MetricsCollected)
        return [SetRouting(1, event.id, RoutingTable(2))] if reports == 1 else []

    (run,) = simulate(scenario({0: 100}, profile=COUNT), brain(react, HALF))
    assert 0 < run.received[1] < 50
    assert run.merges.rows == {(0, 1): run.received[1]}


def test_queued_rows_that_moved_after_the_input_are_merged_even_if_nobody_said_so(scenario: Make, brain: Any) -> None:
    def react(event: Event) -> list[Command]:
        return [MoveBacklog(1, event.id, 5, 0, 2, 0, 30)] if isinstance(event, InputEnded) else []

    (run,) = simulate(scenario({0: 100}, profile=COUNT, failures=Failures(acks=1.0)), brain(react))
    assert run.received == (70, 0, 30)
    assert run.merges.rows == {(0, 2): 30}


def test_rows_that_move_on_from_a_helper_are_merged_from_where_they_ended(scenario: Make, brain: Any) -> None:
    def react(event: Event) -> list[Command]:
        return [MoveBacklog(1, event.id, 5, 1, 2, 0, 20)] if isinstance(event, InputEnded) else []

    (run,) = simulate(scenario({0: 100}, profile=COUNT), brain(react, HALF))
    assert run.merges.rows == {(0, 1): 30, (0, 2): 20}


def test_two_choices_are_merged_at_every_owner(scenario: Make, brain: Any) -> None:
    (run,) = simulate(
        scenario(dict.fromkeys(range(6), 50), profile=COUNT), brain(table=RoutingTable(1, two_choices=True))
    )
    foreign = {(key % 3, worker) for worker, keys in run.scattered.items() for key in keys if key % 3 != worker}
    assert foreign
    assert set(run.merges.rows) == foreign


def test_nothing_is_merged_where_nothing_was_shared(scenario: Make, brain: Any) -> None:
    (alone,) = simulate(scenario({0: 100}, profile=COUNT, watermark_s=2.0), brain())
    (immutable,) = simulate(scenario({0: 100}, watermark_s=2.0), brain(table=HALF))
    assert immutable.received[1] == 50
    for run in (alone, immutable):
        assert run.merges == Merges(0, {}, 0.0)


@pytest.mark.parametrize("split", [Split.BY_KEYS, Split.BY_RECORDS])
def test_state_that_was_handed_over_is_whole_where_it_is(scenario: Make, brain: Any, split: Split) -> None:
    """Keys under split by keys, mini-partitions under split by records (Flux): both move behind markers."""
    reports = 0

    def react(event: Event) -> list[Command]:
        nonlocal reports
        reports += isinstance(event, MetricsCollected)
        if reports != 1 or not isinstance(event, MetricsCollected):
            return []
        hand_over = HandOverState(1, event.id, transfer=5, source=0, target=1, keys=frozenset({2}), version=1)
        return [hand_over, SetRouting(2, event.id, RoutingTable(1, keys={2: Shares.whole(1)}))]

    profile = OperatorProfile("count", 2, split=split, state=StateKind.MUTABLE)
    (run,) = simulate(scenario({0: 50, 2: 50}, profile=profile), brain(react))
    assert run.scattered[1][2] > 0
    assert run.merges.rows == {}
