"""Strategies by name. A name stands for a brain; its settings make it behave as published or as improved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reshape.control.baselines.flow_join import FlowJoin
from reshape.control.baselines.flux import Flux
from reshape.control.baselines.none import NoMitigation
from reshape.control.baselines.pkg import PartialKeyGrouping
from reshape.control.brain import Brain
from reshape.control.controller import Controller
from reshape.control.errors import require
from reshape.control.profile import OperatorProfile
from reshape.control.settings import Settings

Builder = Callable[[OperatorProfile, Settings], Brain]


@dataclass(frozen=True, slots=True)
class Strategy:
    """``keys``, ``buckets``: whether its brain always wants to know how many rows each of them has."""

    build: Builder
    defaults: Callable[[], Settings]
    keys: bool = False
    buckets: bool = False


STRATEGIES: dict[str, Strategy] = {
    "none": Strategy(NoMitigation, Settings),
    "flux": Strategy(Flux, Settings.paper, buckets=True),
    "flow-join": Strategy(FlowJoin, Settings.paper, keys=True),
    "pkg": Strategy(PartialKeyGrouping, Settings),
    "reshape-paper": Strategy(Controller, Settings.paper),
    "reshape": Strategy(Controller, Settings),
}


def build(strategy: str, profile: OperatorProfile, settings: Settings | None = None) -> Brain:
    """The brain of a strategy for one operator; without settings, those that the strategy is known for."""
    require(strategy in STRATEGIES, "strategy", strategy, f"one of {', '.join(STRATEGIES)}")
    known = STRATEGIES[strategy]
    return known.build(profile, settings if settings is not None else known.defaults())
