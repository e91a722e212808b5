"""The summary of heavy keys: Space-Saving's guarantees against exact counts, and its bound."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from reshape.control.routing import Key
from reshape.control.sensing.hitters import HeavyKeys

batches = st.lists(st.dictionaries(st.integers(0, 20), st.integers(-1, 50), max_size=6), max_size=30)


@given(batches, st.integers(1, 8))
def test_guarantees_against_exact_counts(reports: list[dict[Key, int]], places: int) -> None:
    summary, exact = HeavyKeys(places), Counter[Key]()
    for report in reports:
        summary.add(report)
        exact.update({key: rows for key, rows in report.items() if rows > 0})
    certain = summary.certain()
    assert len(certain) <= places
    assert summary.total == exact.total()
    for key, rows in certain.items():
        assert 0 < rows <= exact[key], "certain means certain"
    for key, rows in exact.items():
        if rows * places > exact.total():
            assert key in certain, "a heavy key is never missing"
    assert sum(summary.shares().values()) <= 1 + 1e-9
    assert list(certain.values()) == sorted(certain.values(), reverse=True)


@given(batches)
def test_few_keys_are_counted_exactly(reports: list[dict[Key, int]]) -> None:
    summary, exact = HeavyKeys(21), Counter[Key]()
    for report in reports:
        summary.add(report)
        exact.update({key: rows for key, rows in report.items() if rows > 0})
    assert summary.certain() == exact


@given(batches, st.integers(1, 8))
def test_fading_keeps_shares_sane(reports: list[dict[Key, int]], places: int) -> None:
    summary = HeavyKeys(places)
    for report in reports:
        summary.add(report)
        summary.fade()
        shares = summary.shares()
        assert all(0 < share <= 1 for share in shares.values())
        assert sum(shares.values()) <= 1 + 1e-9


def test_recent_keys_win_after_fading() -> None:
    summary = HeavyKeys(4)
    summary.add({"old": 1000})
    for _ in range(8):
        summary.fade()
        summary.add({"new": 100})
    assert next(iter(summary.shares())) == "new"


def test_empty_has_no_shares() -> None:
    summary = HeavyKeys(2)
    assert summary.shares() == {}
    summary.add({"a": 1})
    summary.fade()
    assert summary.shares() == {}
