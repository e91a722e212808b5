"""Shares are exact and evenly interleaved; tables are versioned and never changed."""

from __future__ import annotations

from fractions import Fraction
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshape.control.errors import ParameterError
from reshape.control.routing import RoutingDraft, RoutingTable, Shares

from ..shares import worker_at

HALF = Fraction(1, 2)


@st.composite
def shares(draw: st.DrawFn, least: int = 1, most: int = 6) -> Shares:
    weights = draw(st.lists(st.integers(1, 40), min_size=least, max_size=most))
    return Shares(tuple((worker, Fraction(weight, sum(weights))) for worker, weight in enumerate(weights)))


@given(shares(), st.integers(0, 10**9))
def test_a_whole_cycle_is_exact_wherever_it_starts(rule: Shares, start: int) -> None:
    cycle = 1
    for _, share in rule.parts:
        cycle *= share.denominator
    assert rule.deal(start * cycle, cycle) == [(worker, int(share * cycle)) for worker, share in rule.parts]


@given(shares(), st.integers(0, 10**6), st.integers(0, 60))
def test_deal_agrees_with_worker_at(rule: Shares, start: int, rows: int) -> None:
    one_by_one = [worker_at(rule, position) for position in range(start, start + rows)]
    assert rule.deal(start, rows) == [(worker, one_by_one.count(worker)) for worker in rule.workers]


@given(shares(least=2), st.integers(0, 10**6), st.integers(0, 10**4))
def test_any_window_is_close_to_its_share(rule: Shares, start: int, rows: int) -> None:
    """Each level of the nested counting adds less than one row of error, and the last has no counting of its own."""
    for worker, count in rule.deal(start, rows):
        assert abs(count - rows * rule.share_of(worker)) < len(rule.parts) - 1


def test_nine_of_26_is_never_many_in_a_row() -> None:
    rule = Shares.of(6, {4: Fraction(9, 26)})
    dealt = [worker_at(rule, position) for position in range(2600)]
    assert dealt.count(4) == 900
    longest = {worker: max(len(list(run)) for who, run in groupby(dealt) if who == worker) for worker in (4, 6)}
    assert longest == {4: 1, 6: 2}


def test_shares_of_an_owner_and_others() -> None:
    rule = Shares.of(0, {1: Fraction(1, 4), 2: Fraction(0), 3: Fraction(1, 4)})
    assert rule.workers == (1, 3, 0)
    assert rule.share_of(0) == HALF
    assert rule.share_of(2) == 0
    assert Shares.of(0, {1: Fraction(1)}) == Shares.whole(1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Shares.of(0, {1: Fraction(3, 2)}),
        lambda: Shares.of(0, {1: Fraction(2, 3), 2: Fraction(2, 3)}),
        lambda: Shares.of(0, {1: Fraction(-1, 2)}),
        lambda: Shares(((0, Fraction(-1)), (1, Fraction(2)))),
        lambda: Shares(((0, HALF),)),
        lambda: Shares(()),
        lambda: Shares(((0, HALF), (0, HALF))),
    ],
)
def test_shares_that_make_no_sense_are_refused(make: object) -> None:
    with pytest.raises(ParameterError, match="share"):
        make()  # type: ignore[operator]


def test_key_beats_bucket_beats_owner() -> None:
    table = RoutingTable(1, owners={0: Shares.whole(1)}, keys={"k": Shares.whole(2)}, buckets={5: Shares.whole(3)})
    assert table.shares("k", 5, 0) == Shares.whole(2)
    assert table.shares("other", 5, 0) == Shares.whole(3)
    assert table.shares("other", 6, 0) == Shares.whole(1)
    assert table.shares("other", 6, 4) is None


def test_versions_grow_by_one_and_only_for_a_change() -> None:
    draft = RoutingDraft()
    assert draft.publish() is None
    assert draft.set_owner(0, Shares.whole(1))
    assert draft.set_keys(["a", "b"], Shares.whole(2))
    first = draft.publish()
    assert first is not None
    assert first.version == 1
    assert draft.publish() is None
    assert not draft.set_owner(0, Shares.whole(1))
    assert not draft.set_keys(["a", "b"], Shares.whole(2))
    assert draft.publish() is None
    assert draft.next_version == 2
    draft.set_bucket(7, Shares.whole(1))
    second = draft.publish()
    assert second is not None
    assert second.version == 2
    assert draft.current is second


def test_published_tables_never_change() -> None:
    draft = RoutingDraft()
    draft.set_owner(0, Shares.whole(1))
    draft.set_keys(["a"], Shares.whole(1))
    first = draft.publish()
    assert first is not None
    draft.set_owner(0, None)
    draft.set_keys(["a", "b"], Shares.whole(2))
    draft.set_bucket(3, Shares.whole(2))
    draft.use_two_choices()
    second = draft.publish()
    assert first == RoutingTable(1, {0: Shares.whole(1)}, {"a": Shares.whole(1)})
    assert second == RoutingTable(2, {}, dict.fromkeys("ab", Shares.whole(2)), {3: Shares.whole(2)}, True)


def test_removing_what_is_not_there_changes_nothing() -> None:
    draft = RoutingDraft()
    assert not draft.set_owner(4, None)
    assert not draft.set_keys(["a"], None)
    assert draft.publish() is None
