from __future__ import annotations

import pytest

from reshape.control.story import Decision, DecisionKind
from reshape.sim import metrics


def test_representative_from_the_first_point_that_stays_in_range() -> None:
    times = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert metrics.time_to_representative(times, [None, 4.0, 3.0, 3.7, 4.0], 4.0) == 4.0
    assert metrics.time_to_representative(times, [4.3, 4.3, 3.7, 4.0, 4.0], 4.0) == 1.0
    assert metrics.time_to_representative(times, [1.0, 1.0, 1.0, 1.0, 4.0], 4.0) == 5.0
    assert metrics.time_to_representative(times, [4.0, 4.0, 4.0, 4.0, 5.0], 4.0) == float("inf")


def test_overshoot_is_what_goes_beyond() -> None:
    assert metrics.overshoot([None, 1.0, 4.0, 5.5, 4.0], 4.0) == pytest.approx(1.5)
    assert metrics.overshoot([1.0, 3.9], 4.0) == 0.0
    assert metrics.overshoot([None], 4.0) == 0.0


def test_load_balancing_is_the_mean_of_smaller_over_larger() -> None:
    received = [[0, 0, 0], [10, 5, 0], [10, 20, 20]]
    assert metrics.load_balancing(received, 0, [1]) == pytest.approx((0.5 + 0.5) / 2)
    assert metrics.load_balancing(received, 0, [1, 2]) == pytest.approx((0.25 + 0.5) / 2)
    assert metrics.load_balancing([[0, 0]], 0, [1]) is None


def test_load_reduction_of_the_papers_example() -> None:
    """S 1,000 and H 200 rows; 400 of S's rows moved make 600 each (§4.1)."""
    assert metrics.load_reduction([1000, 200], [600, 600], (0, 1)) == 400
    assert metrics.load_reduction([1000, 200], [1000, 200], (0, 1)) == 0


def test_iterations_are_starts_and_repetitions_of_the_given_workers() -> None:
    def decision(kind: DecisionKind, skewed: int) -> Decision:
        return Decision(1, 1.0, kind, skewed, (3,), "")

    story = [
        decision(DecisionKind.STARTED, 6),
        decision(DecisionKind.CHANGED, 6),
        decision(DecisionKind.ITERATED, 6),
        decision(DecisionKind.STARTED, 7),
    ]
    assert metrics.iterations(story, {6}) == 2
    assert metrics.chosen_helpers(story, 6) == (3,)
    assert metrics.chosen_helpers(story, 9) == ()


def test_percentiles() -> None:
    values = [4.0, 1.0, 3.0, 2.0]
    assert metrics.candlestick(values) == {"min": 1.0, "p25": 1.75, "median": 2.5, "p75": 3.25, "max": 4.0}
    assert metrics.percentile([5.0], 99) == 5.0
