"""Parameters that make no sense are refused, and the error names them."""

from __future__ import annotations

import pickle
from math import inf, nan
from typing import Any

import pytest

from reshape.control.errors import ParameterError, StrategyRefused
from reshape.control.profile import OperatorProfile
from reshape.control.reshaping.controller import Controller
from reshape.control.settings import AdaptiveTau, History, StrategySettings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, value) for name in ("eta", "tau", "reduction_period_s") for value in (-1.0, 0.0, nan, inf)],
        *[
            (name, value)
            for name in ("half_life", "state_bytes_per_s", "transfer_timeout_s", "routing_timeout_s")
            for value in (-1.0, 0.0, nan, inf)
        ],
        *[("warmup_s", value) for value in (-0.1, nan, inf)],
        *[(name, 0) for name in ("horizon_rows", "heavy_keys", "buckets_per_worker", "max_denominator")],
        ("helpers", 0),
        ("window_rows", 0),
        ("metric", "cpu"),
        ("model", "oracle"),
        ("fixed_helpers", {0: ()}),
        ("fixed_helpers", {0: (2,), 1: (2,)}),
        ("fixed_helpers", {0: (1,), 1: (2,)}),
    ],
)
def test_settings_name_the_parameter(name: str, value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        StrategySettings(**{name: value})
    assert caught.value.parameter == name
    assert str(caught.value).startswith(f"{name} = ")


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"low": 5.0}, "low, high"),
        ({"high": 5.0}, "low, high"),
        ({"low": 5.0, "high": 4.0}, "low, high"),
        ({"low": -1.0, "high": 4.0}, "low, high"),
        ({"increase_by": 0.0}, "increase_by"),
        ({"max_adjustments": -1}, "max_adjustments"),
        ({"floor": 0.0}, "floor"),
        ({"ceiling": -1.0}, "ceiling"),
        ({"floor": 10.0, "ceiling": 9.0}, "ceiling"),
    ],
)
def test_adaptive_tau_names_the_parameter(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        AdaptiveTau(**fields)
    assert caught.value.parameter == name


def test_history_and_profile_name_the_parameter() -> None:
    for make, name in (
        (lambda: History(0, 1.0, 1.0), "windows"),
        (lambda: History(1, 1.0, -1.0), "deviation"),
        (lambda: OperatorProfile("", 3), "name"),
        (lambda: OperatorProfile("join", 0), "workers"),
    ):
        with pytest.raises(ParameterError) as caught:
            make()
        assert caught.value.parameter == name


@pytest.mark.parametrize("pairs", [{0: (3,)}, {3: (0,)}, {-1: (0,)}])
def test_fixed_helpers_must_be_workers_of_the_operator(pairs: dict[int, tuple[int, ...]]) -> None:
    with pytest.raises(ParameterError) as caught:
        Controller(OperatorProfile("join", 3), StrategySettings(fixed_helpers=pairs))
    assert caught.value.parameter == "fixed_helpers"


def test_the_papers_settings() -> None:
    paper = StrategySettings.paper()
    assert (paper.eta, paper.tau, paper.adaptive, paper.helpers, paper.backlog) == (100, 100, None, 1, False)
    assert paper.warmup_s == 2.0


@pytest.mark.parametrize("kind", [ParameterError, StrategyRefused])
def test_errors_survive_pickling(kind: type[ParameterError]) -> None:
    error = kind("tau", -1, "above 0")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (again.parameter, again.got, again.wanted, str(again)) == ("tau", -1, "above 0", str(error))
