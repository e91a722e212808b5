"""tau: the branches of Algorithm 1 with its limits, and the range that nobody has to set."""

from __future__ import annotations

from math import inf

import pytest

from reshape.control.reshaping.threshold import (
    RELATIVE_CEILING,
    Change,
    Forecast,
    Threshold,
    adjust_threshold,
    start_earlier,
)
from reshape.control.settings import AdaptiveTau

PAPER = AdaptiveTau(low=98.0, high=110.0, increase_by=50.0)


def forecast(error: float, predicted: float = 1e9, windows: float = 50) -> Forecast:
    return Forecast(error, predicted, predicted, windows)


def look(threshold: Threshold, gap: float, error: float, predicted: float = 1e9) -> Change:
    return threshold.look(gap, forecast(error, predicted)).change


def test_a_fixed_threshold_never_changes() -> None:
    threshold = Threshold(100.0, None)
    assert look(threshold, 150, inf) is Change.KEPT
    assert look(threshold, 50, 0.0) is Change.KEPT
    assert threshold.tau == 100
    assert threshold.look(100, forecast(5)).start
    assert not threshold.look(99, forecast(5)).start


def test_increases_are_limited_in_number() -> None:
    threshold = Threshold(100.0, PAPER)
    for expected in (150, 200, 250, 250, 250):
        look(threshold, 1000, 500)
        assert threshold.tau == expected
    assert threshold.adjustments == 3
    assert threshold.look(1000, forecast(500)).start, "no adjustment left is no reason to wait"


def test_increases_are_limited_in_size() -> None:
    threshold = Threshold(100.0, AdaptiveTau(98, 110, 1e9, ceiling=300))
    assert look(threshold, 1000, 500) is Change.INCREASED
    assert threshold.tau == 300
    assert look(threshold, 1000, 500) is Change.KEPT, "at the ceiling nothing is adjusted, and none is used up"
    assert threshold.adjustments == 1
    default = Threshold(100.0, AdaptiveTau(98, 110, 1e9))
    look(default, 1000, 500)
    assert default.tau == 100 * RELATIVE_CEILING


def test_a_ceiling_below_tau_does_not_lower_it() -> None:
    threshold = Threshold(100.0, AdaptiveTau(98, 110, 50, ceiling=10))
    assert look(threshold, 1000, 500) is Change.KEPT
    assert threshold.tau == 100


def test_a_decrease_starts_at_once_and_has_a_floor() -> None:
    threshold = Threshold(1000.0, PAPER, eta=100)
    found = threshold.look(99, forecast(10))
    assert (found.start, threshold.tau) == (False, 1000)
    found = threshold.look(400, forecast(10))
    assert (found.start, found.change, threshold.tau) == (True, Change.DECREASED, 400)
    floored = Threshold(1000.0, AdaptiveTau(98, 110, floor=500), eta=100)
    assert not floored.look(400, forecast(10)).start


def test_nothing_is_lowered_for_the_noise_of_equal_workers() -> None:
    threshold = Threshold(1000.0, PAPER, eta=100)
    assert not threshold.look(400, forecast(10, predicted=9)).start
    assert not threshold.look(400, Forecast(10, 1000, 9, 50)).start, "what is shared already counts as balanced"
    assert not threshold.look(400, forecast(10, windows=4)).start, "four windows can agree by chance"
    assert threshold.tau == 1000
    assert threshold.look(400, forecast(10, predicted=11, windows=5)).start


def test_the_test_can_be_made_earlier_without_changing_tau() -> None:
    threshold = Threshold(1000.0, None)
    assert threshold.look(400, forecast(10), 400).start
    assert not threshold.look(399, forecast(10), 400).start
    assert threshold.tau == 1000


def test_without_a_range_the_error_is_judged_against_the_predicted_gap() -> None:
    assert look(Threshold(100.0, AdaptiveTau()), 150, 41, predicted=100) is Change.INCREASED
    assert look(Threshold(100.0, AdaptiveTau()), 150, 39, predicted=100) is Change.KEPT
    assert look(Threshold(100.0, AdaptiveTau(), eta=10), 50, 21, predicted=100) is Change.KEPT
    assert look(Threshold(100.0, AdaptiveTau(), eta=10), 50, 19, predicted=100) is Change.DECREASED
    growing = Threshold(100.0, AdaptiveTau())
    look(growing, 150, inf, predicted=100)
    assert growing.tau == 150


def test_no_adjustments_allowed_means_fixed() -> None:
    threshold = Threshold(100.0, AdaptiveTau(98, 110, 50, max_adjustments=0))
    assert look(threshold, 150, inf) is Change.KEPT
    assert threshold.tau == 100


@pytest.mark.parametrize(
    ("gap", "floor", "starts"), [(0, 0.0, False), (-5, 0.0, False), (5, 10.0, False), (10, 10.0, True)]
)
def test_a_small_error_lowers_tau_to_a_gap_worth_having(gap: float, floor: float, starts: bool) -> None:
    found = adjust_threshold(gap, 100, 1, 98, 110, 150, floor)
    assert found.start is starts
    assert found.tau == (gap if starts else 100)


def test_a_passed_test_never_lowers_tau() -> None:
    assert adjust_threshold(200, 100, 500, 98, 110, 50).tau == 100


def test_detection_moves_forward_by_what_arrives_during_migration() -> None:
    assert start_earlier(1000, 0.4, 100, 5) == pytest.approx(800)
    assert start_earlier(1000, 0.4, 100, 0) == 1000
