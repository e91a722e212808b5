"""The load models: formulas, what is kept and what is forgotten, windows, history."""

from __future__ import annotations

from math import inf, isfinite, sqrt
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshape.control.sensing.estimator import Estimator, MeanModel, Prediction, RecencyModel
from reshape.control.settings import History, StrategySettings

values = st.lists(st.floats(0, 2000), min_size=2, max_size=40)


@given(values)
def test_mean_model_is_the_papers_formula(sample: list[float]) -> None:
    model = MeanModel(1)
    for value in sample:
        model.add([value])
    seen = model.predict(0)
    n = len(sample)
    assert seen.mean == pytest.approx(mean(sample))
    assert seen.standard_error == pytest.approx(stdev(sample) * sqrt(1 + 1 / n), abs=1e-3)
    assert seen.windows == n


def test_fewer_than_two_windows_say_nothing_about_the_error() -> None:
    for model in (MeanModel(1), RecencyModel(1, 4.0)):
        assert model.predict(0) == Prediction(0.0, inf, 0.0)
        model.add([7.0])
        assert model.predict(0) == Prediction(7.0, inf, 1.0)
        model.add([7.0])
        assert isfinite(model.predict(0).standard_error)


@pytest.mark.parametrize("model", [MeanModel(2), RecencyModel(2, 4.0)])
def test_a_reset_keeps_the_last_prediction_until_a_new_window(model: RecencyModel) -> None:
    for value in (10.0, 20.0, 30.0):
        model.add([value, value])
    before = model.predict(0)
    model.reset(0)
    assert model.predict(0) == before
    model.reset(0)
    assert model.predict(0) == before
    other = model.predict(1)
    model.add([100.0, 100.0])
    assert model.predict(0).mean == pytest.approx(100.0)
    assert model.predict(0).standard_error == inf
    assert model.predict(1).windows > other.windows


def test_the_sample_starts_anew_at_a_reset() -> None:
    model = MeanModel(1)
    for value in (1000.0, 1010.0, 5.0):
        model.add([value])
    model.reset(0)
    for value in (10.0, 20.0, 30.0):
        model.add([value])
    assert model.predict(0).mean == pytest.approx(20.0)
    assert model.predict(0).standard_error == pytest.approx(10.0 * sqrt(4 / 3))


def test_the_recency_model_forgets_by_half_each_half_life() -> None:
    slow, quick = MeanModel(1), RecencyModel(1, 2.0)
    for value in [0.0] * 50 + [100.0] * 2:
        slow.add([value])
        quick.add([value])
    assert slow.predict(0).mean == pytest.approx(200 / 52)
    assert quick.predict(0).mean == pytest.approx(50.0, abs=0.01)
    for _ in range(40):
        quick.add([100.0])
    assert quick.predict(0).mean == pytest.approx(100.0, abs=0.01)
    assert quick.predict(0).standard_error < 1.0


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), max_size=60), st.sampled_from([inf, 8.0, 0.5]))
def test_no_history_of_windows_and_resets_breaks_the_model(steps: list[float | None], half_life: float) -> None:
    model = RecencyModel(1, half_life)
    for step in steps:
        if step is None:
            model.reset(0)
        else:
            model.add([step])
        seen = model.predict(0)
        assert isfinite(seen.mean)
        assert seen.mean >= 0
        assert seen.standard_error >= 0


def test_windows_close_by_rows() -> None:
    estimator = Estimator(2, StrategySettings(window_rows=100, horizon_rows=1000))
    estimator.observe([30, 10])
    assert estimator.windows == 0
    estimator.observe([90, 30])
    assert estimator.windows == 1
    assert estimator.predict(0).mean == pytest.approx(750.0)
    estimator.observe([100, 129])
    assert estimator.windows == 2
    assert estimator.predict(1).mean == pytest.approx((250 + 1000 * 99 / 109) / 2)


def test_a_report_without_rows_is_no_window() -> None:
    estimator = Estimator(2, StrategySettings())
    for _ in range(3):
        estimator.observe([0, 0])
    assert estimator.windows == 0
    estimator.observe([5, 5])
    estimator.observe([5, 5])
    assert estimator.windows == 1


def test_counts_that_go_back_are_not_a_window() -> None:
    estimator = Estimator(2, StrategySettings())
    estimator.observe([50, 50])
    estimator.observe([20, 20])
    assert estimator.windows == 1
    estimator.observe([150, 50])
    assert estimator.predict(0).mean == pytest.approx((1000 + 2000) / 2)


@pytest.mark.parametrize("model", ["mean", "recency"])
def test_history_goes_round(model: str) -> None:
    first = Estimator(3, StrategySettings(model=model, half_life=1000.0))
    total = [0, 0, 0]
    for rows in ([10, 20, 70], [20, 10, 70], [15, 20, 65], [10, 25, 65]):
        total = [a + b for a, b in zip(total, rows, strict=True)]
        first.observe(total)
    past = first.history(3)
    second = Estimator(3, StrategySettings(model=model, history=past))
    for owner in range(3):
        assert second.predict(owner).mean == pytest.approx(first.predict(owner).mean)
        assert second.predict(owner).standard_error == pytest.approx(first.predict(owner).standard_error, rel=0.01)
    again = second.history(3)
    assert set(again) == {0, 1, 2}
    assert again[2].mean == pytest.approx(past[2].mean)
    assert again[2].deviation == pytest.approx(past[2].deviation)


def test_history_is_part_of_the_sample_until_the_pair_is_balanced() -> None:
    estimator = Estimator(
        2, StrategySettings(horizon_rows=100, history={0: History(3, 80.0, 5.0), 9: History(1, 1.0, 0.0)})
    )
    estimator.observe([40, 60])
    assert estimator.predict(0).mean == pytest.approx((3 * 80 + 40) / 4)
    assert estimator.predict(1).mean == pytest.approx(60)
    estimator.balanced([0])
    estimator.observe([60, 140])
    assert estimator.predict(0).mean == pytest.approx(20.0)


def test_one_window_is_no_history() -> None:
    estimator = Estimator(1, StrategySettings())
    estimator.observe([10])
    assert estimator.history(1) == {}
