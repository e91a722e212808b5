"""Strategies by name. A name stands for a brain; its settings make it behave as published or as improved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reshape.control.baselines.flow_join import FlowJoin
from reshape.control.baselines.flux import Flux
from reshape.control.baselines.none import NoMitigation
from reshape.control.baselines.pkg import PartialKeyGrouping
from reshape.control.brain import Brain
from reshape.control.errors import require
from reshape.control.profile import OperatorProfile
from reshape.control.reshaping.controller import Controller
from reshape.control.settings import StrategySettings

Builder = Callable[[OperatorProfile, StrategySettings], Brain]


@dataclass(frozen=True, slots=True)
class Strategy:
    """``keys``, ``buckets``: whether its brain always wants to know how many rows each of them has."""

    build: Builder
    defaults: Callable[[], StrategySettings]
    keys: bool = False
    buckets: bool = False


STRATEGIES: dict[str, Strategy] = {
    "none": Strategy(NoMitigation, StrategySettings),
    "flux": Strategy(Flux, StrategySettings.paper, buckets=True),
    "flow-join": Strategy(FlowJoin, StrategySettings.paper, keys=True),
    "pkg": Strategy(PartialKeyGrouping, StrategySettings),
    "reshape-paper": Strategy(Controller, StrategySettings.paper),
    "reshape": Strategy(Controller, StrategySettings),
}


def build(strategy: str, profile: OperatorProfile, settings: StrategySettings | None = None) -> Brain:
    """The brain of a strategy for one operator; without settings, those that the strategy is known for."""
    require(strategy in STRATEGIES, "strategy", strategy, f"one of {', '.join(STRATEGIES)}")
    chosen = STRATEGIES[strategy]
    return chosen.build(profile, settings if settings is not None else chosen.defaults())
