"""State migration time: learned from what was measured, and what follows from it."""

from __future__ import annotations

from math import inf, nan

import pytest

from reshape.control.sensing.migration import MigrationTime, seconds_left, worth_migrating


def test_the_guess_counts_until_something_was_measured() -> None:
    time = MigrationTime(100.0)
    assert time.seconds(1000) == pytest.approx(10.0)
    assert time.seconds(1000, 3) == pytest.approx(30.0)
    time.learn(1000, 1, 2.0)
    assert time.seconds(1000) == pytest.approx(2.0)
    assert time.seconds(2000) == pytest.approx(4.0)


def test_later_measurements_count_for_half() -> None:
    time = MigrationTime(100.0)
    time.learn(1000, 1, 2.0)
    time.learn(1000, 1, 4.0)
    assert time.seconds(1000) == pytest.approx(3.0)
    for _ in range(30):
        time.learn(1000, 1, 8.0)
    assert time.seconds(1000) == pytest.approx(8.0)


def test_further_helpers_have_a_price_of_their_own() -> None:
    time = MigrationTime(100.0)
    for _ in range(40):
        time.learn(1000, 1, 5.0)
        time.learn(1000, 2, 6.0)
        time.learn(1000, 3, 7.0)
    assert time.seconds(1000, 1) == pytest.approx(5.0)
    assert time.seconds(1000, 2) == pytest.approx(6.0, abs=0.01)
    assert time.seconds(1000, 4) == pytest.approx(8.0, abs=0.01)
    assert time.seconds(1000, 0) == 0.0


@pytest.mark.parametrize(("size", "rank", "seconds"), [(0, 1, 5.0), (-1, 1, 5.0), (10, 0, 5.0), (10, 1, -1.0)])
def test_measurements_without_meaning_are_ignored(size: int, rank: int, seconds: float) -> None:
    time = MigrationTime(100.0)
    time.learn(size, rank, seconds)
    assert time.seconds(1000) == pytest.approx(10.0)


@pytest.mark.parametrize("seconds", [nan, inf])
@pytest.mark.parametrize("rank", [1, 2])
def test_one_bad_clock_does_not_end_all_migrations(seconds: float, rank: int) -> None:
    time = MigrationTime(100.0)
    time.learn(1000, rank, seconds)
    assert time.seconds(1000, 2) == pytest.approx(20.0)


def test_migrate_only_while_there_is_something_to_redirect() -> None:
    assert worth_migrating(5.0, 6.0)
    assert not worth_migrating(5.0, 5.0)
    assert worth_migrating(5.0, 0.0, 6.0)
    assert worth_migrating(5.0, inf)


def test_time_left() -> None:
    assert seconds_left(None, 10) == inf
    assert seconds_left(0, 10) == 0
    assert seconds_left(-5, 10) == 0
    assert seconds_left(100, 10) == 10
    assert seconds_left(100, 0) == inf
