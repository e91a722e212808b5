"""The skew test, the ranking of candidates, and how many helpers are worth having."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshape.control.reshaping.helpers import Outlook, choose_helpers, rank_candidates, reachable_reduction, skew_test


def test_skew_test_has_both_conditions() -> None:
    assert skew_test(200, 100, 100, 100)
    assert not skew_test(99, -100, 100, 100)
    assert not skew_test(200, 101, 100, 100)


def test_least_workload_first_and_idle_workers_are_alike() -> None:
    workloads = [500, 90, 300, 0, 100]
    assert rank_candidates(workloads, range(5), idle=100) == [1, 3, 4, 2, 0]
    assert rank_candidates(workloads, [2, 4], idle=100) == [4, 2]
    assert rank_candidates(workloads, range(5), idle=50) == [3, 1, 4, 2, 0]
    assert rank_candidates(workloads, range(5), idle=0) == [3, 1, 4, 2, 0]


def test_expected_load_decides_between_idle_workers() -> None:
    assert rank_candidates([0, 0, 0, 400], range(4), 100, expected=[30, 10, 20, 5]) == [1, 2, 0, 3]


def test_chi_is_limited_by_what_is_left_after_migration() -> None:
    outlook = Outlook(total=1000, remaining=500, rows_per_s=10)
    assert reachable_reduction(0.5, 0.1, 1, 0.0, outlook) == pytest.approx(200), "LR_max = (0.5 - 0.3) * 1000"
    assert reachable_reduction(0.5, 0.1, 1, 40.0, outlook) == pytest.approx(50), "F = (500 - 400) * 0.5"
    assert reachable_reduction(0.5, 0.1, 1, 60.0, outlook) == 0.0
    with_backlog = Outlook(total=1000, remaining=500, rows_per_s=10, backlog=30)
    assert reachable_reduction(0.5, 0.1, 1, 40.0, with_backlog) == pytest.approx(80)
    assert reachable_reduction(0.5, 0.1, 1, 1e9, Outlook(None, None, 10)) == pytest.approx(0.2)


def test_helpers_are_added_until_chi_falls() -> None:
    outlook = Outlook(total=1000, remaining=500, rows_per_s=10)
    candidates = [(n, 0.1) for n in range(1, 9)]
    few = choose_helpers(0.5, candidates, lambda count: 0.0, outlook, 8)
    assert few == (1, 2), "LR_max is 200, 267, 300; never more than the F = 250 rows that are left"
    assert choose_helpers(0.5, candidates, lambda count: 0.0, Outlook(1000, None, 10), 3) == (1, 2, 3)
    costly = choose_helpers(0.5, candidates, lambda count: 12.0 * count, outlook, 8)
    assert costly == (1,), "one: chi = 190; two: F = (500 - 240) * 0.5 = 130"
    assert choose_helpers(0.5, candidates, lambda count: 1e9, outlook, 8) == (1,)
    assert choose_helpers(0.5, [], lambda count: 0.0, outlook, 8) == ()


@given(
    st.floats(0.2, 1.0),
    st.lists(st.floats(0.0, 0.2), min_size=1, max_size=10).map(sorted),
    st.floats(0.0, 20.0),
    st.integers(1, 10),
)
def test_each_helper_added_makes_chi_larger(skewed: float, loads: list[float], each_s: float, most: int) -> None:
    outlook = Outlook(1e6, 5e5, 1e4)

    def chi(count: int) -> float:
        return reachable_reduction(skewed, sum(loads[:count]), count, each_s * count, outlook)

    chosen = choose_helpers(skewed, list(enumerate(loads)), lambda count: each_s * count, outlook, most)
    assert 1 <= len(chosen) <= most
    assert chosen == tuple(range(len(chosen)))
    assert all(chi(count + 1) > chi(count) for count in range(1, len(chosen)))
    if len(chosen) < min(most, len(loads)):
        assert chi(len(chosen) + 1) <= chi(len(chosen))
