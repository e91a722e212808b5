"""How much moves: records, keys, backlog."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshape.control.reshaping.shares import backlog_rows, choose_keys, fill_up, record_shares
from reshape.control.routing import Key

loads = st.floats(0, 1e6)


@given(st.dictionaries(st.integers(0, 9), st.integers(1, 60), max_size=7), st.integers(-10, 400))
def test_chosen_keys_come_closest_to_half_the_difference(keys: dict[Key, float], difference: int) -> None:
    half = difference / 2
    chosen = choose_keys(keys, half)
    assert chosen.load == sum(keys[key] for key in chosen.keys)
    assert chosen.load == 0 or abs(difference - 2 * chosen.load) < difference, "moving made it no better"
    subsets = chain.from_iterable(combinations(keys.values(), size) for size in range(len(keys) + 1))
    best = min(abs(half - sum(subset)) for subset in subsets)
    if difference > 0:
        assert abs(half - chosen.load) == best or chosen.load == 0 == half - best


@given(st.dictionaries(st.integers(0, 99), st.floats(1e-3, 1e9), max_size=64), st.floats(0, 1e10))
def test_any_loads_never_make_things_worse(keys: dict[Key, float], half: float) -> None:
    chosen = choose_keys(keys, half)
    assert chosen.keys <= set(keys)
    assert bool(chosen.keys) == (chosen.load > 0)
    assert not chosen.keys or chosen.load < 2 * half


def test_one_key_as_large_as_the_difference_helps_nobody() -> None:
    assert choose_keys({"december": 25.0}, 12.5).keys == frozenset()
    assert choose_keys({"december": 25.0, "june": 1.0}, 9.5).keys == {"june"}
    assert choose_keys({}, 10.0).keys == frozenset()
    assert choose_keys({"a": 5.0}, -3.0).keys == frozenset()


@given(loads, st.dictionaries(st.integers(0, 9), loads, max_size=6))
def test_filling_up_ends_at_one_level(own: float, others: dict[int, float]) -> None:
    gifts = fill_up(own, others)
    given_away = sum(gifts.values())
    assert all(gift > 0 for gift in gifts.values())
    assert set(gifts) <= set(others)
    level = own - given_away
    for worker, before in others.items():
        if worker in gifts:
            assert before + gifts[worker] == pytest.approx(level, abs=1e-3)
        else:
            assert before >= level - 1e-3, "one that is below the level was left out"


@given(loads, st.dictionaries(st.integers(0, 9), loads, max_size=6))
def test_record_shares_make_loads_equal(own: float, helpers: dict[int, float]) -> None:
    shares = record_shares(own, helpers)
    assert sum(shares.values()) <= 1
    assert all(share > 0 for share in shares.values())
    left = own * (1 - float(sum(shares.values())))
    for helper, share in shares.items():
        assert share.denominator <= 1000 or sum(shares.values()) == 1
        assert helpers[helper] + own * float(share) == pytest.approx(left, abs=own * (len(shares) + 1) / 1000 + 1e-6)


def test_record_shares_of_a_part() -> None:
    assert record_shares(26.0, {4: 7.0}, part=13.0) == {4: Fraction(19, 26)}
    assert record_shares(26.0, {4: 7.0}, part=5.0) == {4: Fraction(1)}, "no more than all of the part can move"
    assert record_shares(26.0, {4: 7.0}, part=0.0) == {}


def test_nothing_to_share() -> None:
    assert record_shares(0.0, {1: 0.0}) == {}
    assert record_shares(10.0, {1: 10.0}) == {}
    assert record_shares(10.0, {1: 90.0}) == {}
    assert record_shares(10.0, {}) == {}


@given(st.integers(0, 10**9), st.dictionaries(st.integers(0, 9), st.integers(0, 10**9), max_size=6))
def test_backlog_is_conserved_and_level(own: int, helpers: dict[int, int]) -> None:
    gifts = backlog_rows(own, helpers)
    left = own - sum(gifts.values())
    assert left >= 0
    assert all(rows > 0 for rows in gifts.values())
    after = {helper: rows + gifts.get(helper, 0) for helper, rows in helpers.items()}
    for helper, rows in after.items():
        assert abs(rows - left) <= len(helpers) + 1 or (helper not in gifts and rows >= left)
    assert max((left, *after.values())) <= max((own, *helpers.values()))
