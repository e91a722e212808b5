"""What the experiments must show. The paper's own numbers, and why some differ, are in docs/paper.md."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from reshape.control.errors import ParameterError
from reshape.sim.experiments import EXPERIMENTS, find


@cache
def outcome(name: str, *strategies: str) -> Any:
    return find(name).run(strategies)


def summary(name: str, *strategies: str) -> Any:
    return outcome(name, *strategies).summary


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_case_has_the_promised_numbers(name: str) -> None:
    made = outcome(name)
    text = json.dumps(made.as_json(), allow_nan=False)
    assert list(json.loads(text)) == ["experiment", "engine", "params", "series", "summary"]
    assert set(made.series) == set(made.summary)
    for case, numbers in made.summary.items():
        assert {"total_s", "ttr", "load_balancing", "iterations"} <= set(numbers), case
        assert numbers["total_s"] > 0
        assert numbers["load_balancing"] is not None
    assert all(panel.lines or panel.bars or panel.candles for panel in find(name).figure(made))


def test_ratio_shows_what_the_user_gains() -> None:
    cases = summary("ratio")
    assert list(cases) == ["none", "flux", "flow-join", "pkg", "reshape-paper", "reshape"]
    for label in ("CA:AZ", "CA:IL"):
        assert cases["none"]["ttr"][label] >= 0.9
        assert cases["flux"]["ttr_of_own_run"][label] >= 0.9
        assert cases["reshape-paper"]["ttr"][label] <= 0.31
        assert cases["reshape"]["ttr"][label] <= 0.10
        assert cases["flow-join"]["overshoot"][label] > 0.2
    assert cases["none"]["total_s"] == pytest.approx(416, abs=0.5)


def test_without_the_first_phase_it_takes_twice_as_long() -> None:
    cases = summary("first-phase")
    for label in ("CA:AZ", "CA:IL"):
        late = cases["reshape-paper/no-first-phase"]["ttr"][label]
        assert late >= 2 * cases["reshape-paper"]["ttr"][label]


def test_heavy_hitters_are_balanced() -> None:
    cases = summary("heavy-hitter")
    assert cases["reshape-paper"]["load_balancing"] >= 0.92
    assert cases["flux"]["load_balancing"] < 0.1
    waits = [cases[f"flow-join/{seconds}s"]["load_balancing"] for seconds in (2, 4, 8)]
    assert waits == sorted(waits, reverse=True)
    assert {"reshape-paper/workers=40", "reshape-paper/workers=56"} <= set(cases)


def test_slow_control_messages_cost_balance() -> None:
    cases = summary("control-latency")
    course = [cases[f"reshape-paper/delay={delay}"]["load_balancing"] for delay in (0, 1, 2, 5, 10, 15)]
    assert course[0] >= 0.93
    assert course == sorted(course, reverse=True)


def test_dynamic_tau_iterates_less_and_starts_in_time() -> None:
    cases = summary("dynamic-tau")
    assert 2 * cases["reshape-paper/tau=10/dynamic"]["iterations"] <= cases["reshape-paper/tau=10"]["iterations"]
    for tau in (1000, 1500, 1800, 2000):
        fixed, dynamic = cases[f"reshape-paper/tau={tau}"], cases[f"reshape-paper/tau={tau}/dynamic"]
        assert dynamic["load_balancing"] > fixed["load_balancing"] + 0.2
    assert cases["reshape-paper/tau=2000"]["first_mitigation_s"] is None


def test_a_changed_distribution_is_followed() -> None:
    cases = summary("changing-distribution")
    assert cases["flux"]["helper_to_skewed"] < 0.1
    assert cases["flow-join"]["helper_to_skewed"] > 1.3
    for strategy in ("reshape-paper", "reshape"):
        assert cases[strategy]["helper_to_skewed"] == pytest.approx(1.0, abs=0.1)


def test_load_reduction_rises_then_falls_with_helpers() -> None:
    cases = summary("multiple-helpers")
    course = [cases[f"reshape-paper/helpers={count}"]["load_reduction"] for count in (1, 2, 4, 8, 16, 24)]
    top = course.index(max(course))
    assert 0 < top < len(course) - 1
    assert course[: top + 1] == sorted(course[: top + 1])
    assert course[top:] == sorted(course[top:], reverse=True)


def test_strategies_and_parameters_restrict_a_run() -> None:
    made = find("ratio").run(["none"], settings={"workers": "24", "tau": "7"})
    assert list(made.summary) == ["none"]
    assert (made.params["workers"], made.params["tau"]) == (24, 7.0)


@pytest.mark.parametrize(
    ("name", "value", "parameter"),
    [("workers", "0", "workers"), ("tau", "-1", "tau"), ("tau", "x", "tau"), ("nonsense", "1", "--set")],
)
def test_nonsense_parameters_are_named(name: str, value: str, parameter: str) -> None:
    with pytest.raises(ParameterError) as caught:
        find("ratio").run(settings={name: value})
    assert caught.value.parameter == parameter


def test_the_same_seed_gives_the_same_outcome() -> None:
    restricted = {"taus": "10,500"}
    first, second, other = (find("dynamic-tau").run(settings=restricted, seed=seed).series for seed in (3, 3, 4))
    assert first == second
    assert first != other
