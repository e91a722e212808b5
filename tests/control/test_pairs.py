"""Who helps whom, when a pair is made and when it is dissolved; reports that mean nothing."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reshape.control.commands import ReplicateState, SetRouting
from reshape.control.events import InputEnded, MetricsCollected
from reshape.control.routing import Key
from reshape.control.story import DecisionKind

from .desk import MUTABLE, Desk, none_of, only

LOADED, QUIET = [800, 100, 100], [30, 30, 30]


def shared(desk: Desk) -> Desk:
    """Worker 0 shares its load with worker 1, in phase two."""
    desk.report([0, 0, 0], LOADED)
    sent = only(desk.report([500, 20, 80], LOADED), ReplicateState)
    desk.state_arrives(sent.transfer, 1)
    desk.apply()
    desk.report([450, 460, 80], LOADED)
    desk.apply()
    assert desk.brain.table.owners[0].share_of(1) > 0
    return desk


def test_many_skewed_workers_get_different_helpers() -> None:
    desk = Desk(10)
    desk.report([0] * 10, [90, 80, 70, 60, 50, 1, 1, 1, 1, 1])
    desk.report([900, 800, 700, 600, 500, 0, 0, 0, 0, 0], [90, 80, 70, 60, 50, 1, 1, 1, 1, 1])
    assert desk.brain.pairs == {0: (5,), 1: (6,), 2: (7,), 3: (8,), 4: (9,)}


@example([1, 0, 100], None)
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=12), st.sampled_from([None, 1, 3]))
def test_any_workloads_give_disjoint_pairs_that_pass_the_test(workload: list[int], helpers: int | None) -> None:
    desk = Desk(len(workload), helpers=helpers)
    desk.report([0] * len(workload), [max(1, rows) for rows in workload])
    desk.report(workload, [max(1, rows) for rows in workload])
    for skewed, chosen in desk.brain.pairs.items():
        assert workload[skewed] >= 100
        assert all(workload[skewed] - workload[helper] >= 100 for helper in chosen)
    if max(workload) - min(workload) >= 100:
        assert desk.brain.pairs, "the most loaded worker and the least loaded one pass the test"


def test_without_free_helpers_the_others_wait() -> None:
    desk = Desk(3)
    desk.report([0, 0, 0], [90, 80, 1])
    desk.report([900, 800, 0], [90, 80, 1])
    assert desk.brain.pairs == {0: (2,)}


@pytest.mark.parametrize("workload", [[99, 0, 0], [250, 151, 151], [0, 0, 0]])
def test_the_skew_test_needs_eta_and_tau(workload: list[int]) -> None:
    desk = Desk()
    desk.report([0, 0, 0], LOADED)
    assert desk.report(workload, LOADED) == []
    assert desk.brain.pairs == {}


def test_nothing_moves_during_the_warm_up() -> None:
    desk = Desk(warmup_s=5.0)
    for _ in range(4):
        assert desk.report([900, 0, 0], LOADED) == []
    assert only(desk.report([900, 0, 0], LOADED), ReplicateState).skewed == 0


def test_only_fixed_helpers_help() -> None:
    desk = Desk(5, fixed_helpers={1: (4, 3)}, helpers=None)
    desk.report([0] * 5, [90, 80, 1, 1, 1])
    desk.report([900, 800, 0, 0, 0], [90, 80, 1, 1, 1])
    assert desk.brain.pairs == {1: (4, 3)}


def test_a_pair_is_dissolved_when_calm() -> None:
    desk = shared(Desk())
    for _ in range(9):
        desk.report([50, 50, 50], QUIET)
    assert desk.brain.pairs == {0: (1,)}
    for _ in range(30):
        desk.report([50, 50, 50], QUIET)
        desk.apply()
    assert desk.brain.pairs == {}
    assert desk.brain.table.owners == {}
    assert desk.kinds()[-1] is DecisionKind.ENDED


def test_a_pair_that_is_calm_only_because_it_shares_stays() -> None:
    """800 of 1,000 rows a second for a worker that does 100: alone it would drown again."""
    desk = shared(Desk())
    for _ in range(40):
        desk.report([50, 50, 50], LOADED)
        desk.apply()
    assert desk.brain.pairs == {0: (1,)}


def test_a_pair_outlives_a_pause_of_its_source() -> None:
    """Rows come in every third report only; without the pair, the first of these would drown its worker."""
    desk = shared(Desk())
    for number in range(40):
        desk.report([50, 50, 50], LOADED if number % 3 == 0 else [0, 0, 0])
        desk.apply()
        assert desk.brain.pairs == {0: (1,)}


def test_a_pair_is_dissolved_when_the_helpers_own_load_is_larger() -> None:
    desk = shared(Desk())
    for _ in range(3):
        desk.report([200, 250, 80], [100, 800, 100])
    assert desk.brain.pairs == {0: (1,)}
    desk.report([200, 500, 80], [100, 800, 100])
    assert 0 not in desk.brain.pairs
    assert "own load is larger" in desk.brain.story(0)[-1]
    desk.apply()
    desk.report([200, 900, 80], [100, 800, 100])
    assert desk.brain.pairs.keys() == {1}, "roles can change once the old pair is gone"


def test_the_busy_metric_pairs_by_busy_time() -> None:
    desk = Desk(metric="busy", eta=None, tau=None)
    desk.report([0, 0, 0], LOADED, busy=[1.0, 0.9, 0.9])
    assert desk.report([0, 0, 0], LOADED, busy=[1.0, 0.85, 0.9]) == []
    assert only(desk.report([0, 0, 0], LOADED, busy=[0.95, 0.3, 0.9]), ReplicateState).helpers == (1,)


def test_busy_time_is_not_compared_with_rows() -> None:
    """tau' (§6.1) is a number of rows: with milliseconds it would make a difference of nothing a skew."""
    desk = Desk(metric="busy", eta=None, tau=None, state_bytes=10**9)
    for _ in range(4):
        assert desk.report([0, 0, 0], LOADED, busy=[0.95, 0.9, 0.9]) == []


def test_busy_workers_without_rows_after_the_input_are_nothing_to_raise_about() -> None:
    desk = Desk(metric="busy", eta=None, tau=None, backlog=True, helpers=None, state=MUTABLE)
    desk.report([0, 0, 0], LOADED, busy=[0.5, 0.5, 0.5])
    desk.event(InputEnded)
    for _ in range(3):
        desk.report([0, 0, 0], busy=[1.0, 0.1, 0.1])


def test_derived_thresholds_wait_for_a_measured_speed_and_follow_it() -> None:
    desk = Desk(eta=None, tau=None)
    assert desk.brain.tau(0) == inf
    assert desk.report([10**6, 0, 0], LOADED) == [], "no speed is known yet"
    assert only(desk.report([10**6, 0, 0], LOADED), ReplicateState).skewed == 0
    assert desk.brain.tau(0) == pytest.approx(400)


def last_report(desk: Desk) -> MetricsCollected:
    return MetricsCollected(999, desk.time + 1, (900, 0, 0), (9, 9, 9), (99, 9, 9), (99, 9, 9), (0, 0, 0))


@pytest.mark.parametrize(
    "change",
    [
        {"workload": (900, 0)},
        {"processed": ()},
        {"routed": (1, 2, 3, 4)},
        {"received": (1,)},
        {"state_bytes": (1,)},
        {"time": 1.5},
        {"time": -1.0},
        {"time": nan},
        {"time": inf},
    ],
)
def test_a_report_that_is_malformed_or_old_is_ignored(change: dict[str, object]) -> None:
    desk = Desk()
    desk.report([0, 0, 0], LOADED)
    desk.report([0, 0, 0], LOADED)
    assert desk.tell(replace(last_report(desk), **change)) == []  # type: ignore[arg-type]
    assert desk.brain.pairs == {}
    assert desk.brain.decisions == []
    assert not none_of(desk.report([900, 0, 0], LOADED), ReplicateState), "the next good one is taken"


@pytest.mark.parametrize("share", [nan, inf])
def test_a_busy_time_that_is_no_number_is_ignored(share: float) -> None:
    desk = Desk(metric="busy", eta=None, tau=None)
    desk.report([0, 0, 0], LOADED, busy=[0.1, 0.1, 0.1])
    assert desk.report([0, 0, 0], LOADED, busy=[share, 0.1, 0.1]) == []
    assert desk.brain.pairs == {}


def test_the_same_report_twice_counts_once() -> None:
    once, twice = Desk(), Desk()
    for desk in (once, twice):
        for number in range(3):
            desk.report([50, 0, 0], [800, 100, 100 + 50 * number], keys={0: {"a": 8}})
    again = replace(last_report(twice), id=3, time=3.0, workload=(50, 0, 0))
    for _ in range(3):
        assert twice.tell(again) == []
    assert twice.brain.history() == once.brain.history()


@given(
    st.lists(st.integers(-5, 500), min_size=3, max_size=3),
    st.lists(st.integers(-5, 500), min_size=3, max_size=3),
    st.one_of(st.none(), st.integers(-10, 10**6)),
    st.dictionaries(
        st.integers(-1, 4), st.dictionaries(st.text(max_size=2), st.integers(-5, 100), max_size=3), max_size=3
    ),
    st.floats(0, 100),
)
def test_strange_numbers_never_raise(
    workload: list[int], routed: list[int], remaining: int | None, keys: dict[int, dict[Key, int]], after: float
) -> None:
    desk = shared(Desk())
    desk.tell(
        MetricsCollected(
            99, desk.time + after, workload, routed, routed, routed, (-1, 0, 5), remaining, keys, {7: -1, -3: 5}
        )
    )
    desk.report([500, 0, 0], LOADED)


def test_no_table_is_published_for_nothing() -> None:
    desk = shared(Desk())
    for _ in range(5):
        assert none_of(desk.report([450, 455, 80], LOADED), SetRouting)


def test_one_long_gap_between_reports_does_not_fix_a_derived_tau() -> None:
    """30,000 rows are little after 100 s of work at once, and 10,000 are much when reports come every second again."""
    desk = Desk(eta=None, tau=None)
    desk.report([10, 10, 10], LOADED)
    assert desk.report([30_000, 0, 0], LOADED, after=100.0, speed=10_000) == []
    assert desk.brain.tau(0) == pytest.approx(40_000)
    desk.report([10_000, 0, 0], LOADED)
    assert desk.brain.tau(0) == pytest.approx(400)
    assert desk.brain.pairs == {0: (1,)}
