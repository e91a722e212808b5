from __future__ import annotations

import pytest

from reshape.datasets import months, synthetic, tpc, tweets


def test_tweets_are_the_papers() -> None:
    rows = tweets.tweets_per_location()
    assert sum(rows.values()) == 180_000_000
    assert sorted(rows) == list(range(1, 57))
    assert rows[6] / rows[4] == pytest.approx(6.85, abs=0.01)
    assert rows[6] + rows[54] == 26_600_000
    assert max(rows, key=lambda code: rows[code]) == 6
    assert {code for code in rows if code % 48 == 6} == {6, 54}


def test_population_adds_up_to_the_census() -> None:
    territories = {3, 7, 14, 43, 52}
    states = sum(people for code, people in tweets.POPULATION.items() if code not in territories)
    assert states == 331_449_281


def test_the_changing_table_has_the_papers_shares() -> None:
    before, after = synthetic.changing_distribution()
    assert (sum(before.values()), sum(after.values())) == (20_000_000, 60_000_000)
    assert before[0] == 0.8 * 20_000_000
    assert (after[0], after[10]) == (36_000_000, 12_000_000)
    assert len(before) == len(after) == 42


def test_months_are_the_papers() -> None:
    assert sum(months.PERCENT.values()) == 100
    load = [sum(p for m, p in months.PERCENT.items() if m % 6 == worker % 6) for worker in range(1, 7)]
    assert (load[1], load[3], load[4], load[5]) == (11, 7, 22, 26)  # J2, J4, J5, J6


def test_order_prices_follow_tpc_h() -> None:
    prices = tpc.order_prices()
    assert sum(prices) == pytest.approx(1.0)
    mean = sum((step + 0.5) * tpc.PRICE_STEP * share for step, share in enumerate(prices))
    # 4 line items of 25.5 pieces at about 1,500, less 5 % discount, plus 4 % tax.
    assert mean == pytest.approx(4 * 25.5 * 1499.5 * 0.95 * 1.04, rel=0.01)


def test_orders_are_skewed_as_in_the_papers_table() -> None:
    """At 100 GB some, not most, of 40 workers get more than 3.5 M rows."""
    rows = tpc.orders_per_range(100, 40)
    assert sum(rows.values()) == 73_500_000
    assert 5 <= sum(count > 3_500_000 for count in rows.values()) <= 15


def test_zipf_keys_are_whole_and_complete() -> None:
    rows = tpc.zipf_keys(tpc.ITEMS, tpc.ITEM_EXPONENT, 10_000_000, 40)
    assert sum(rows.values()) == 10_000_000
    assert len(rows) <= tpc.RANKS_APART + 40
