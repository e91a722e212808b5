"""The tables and numbers behind the draws; the draws themselves are tested on Spark."""

from __future__ import annotations

from math import gcd

import pytest

from reshape.datasets.draws import AliasTable, spread_step
from reshape.datasets.months import PERCENT
from reshape.datasets.synthetic import changing_distribution
from reshape.datasets.tweets import tweets_per_location


@pytest.mark.parametrize(
    "weights",
    [
        tweets_per_location(),
        PERCENT,
        *changing_distribution(),
        {7: 3},
        {1: 0, 2: 1},
        {1: 5, 2: 5, 3: 5},
        {0: 1, 1: 10**12},
    ],
    ids=["tweets", "months", "before", "after", "one", "never", "equal", "extreme"],
)
def test_an_alias_table_draws_by_weight(weights: dict[int, int]) -> None:
    total = sum(weights.values())
    shares = AliasTable.of(weights).shares()
    assert shares == pytest.approx({value: weight / total for value, weight in weights.items()}, abs=1e-9)


@pytest.mark.parametrize("weights", [{1: 0}, {1: 2, 2: -1}])
def test_weights_that_cannot_be_drawn_by(weights: dict[int, int]) -> None:
    with pytest.raises(ValueError, match="weights must not be negative and must have a positive sum"):
        AliasTable.of(weights)


@pytest.mark.parametrize("size", [1, 2, 6, 1826, 2000, 18_000, 100_000])
def test_spreading_loses_no_rank(size: int) -> None:
    assert gcd(spread_step(size), size) == 1
