"""Partial key grouping (Nasir et al., ICDE 2015): two hash choices per key, each row to the less loaded of them."""

from __future__ import annotations

from reshape.control.commands import Command
from reshape.control.errors import StrategyRefused
from reshape.control.events import Event, MetricsCollected
from reshape.control.outbox import OutboxBrain
from reshape.control.profile import OperatorProfile, Partitioning, Split
from reshape.control.settings import StrategySettings
from reshape.control.story import DecisionKind


class PartialKeyGrouping(OutboxBrain):
    """Static: the rule is set once, the routers do the rest with their own counts of rows sent."""

    def __init__(self, profile: OperatorProfile, settings: StrategySettings) -> None:
        if profile.partitioning is Partitioning.RANGE:
            raise StrategyRefused(
                "strategy",
                "pkg",
                f"cannot be used for {profile.name}: its rows go by ranges, each of which has one owner; use reshape",
            )
        if not profile.combinable:
            raise StrategyRefused(
                "strategy",
                "pkg",
                f"cannot be used for {profile.name}: partial results of one key cannot be combined; use reshape",
            )
        if profile.split is Split.BY_KEYS:
            raise StrategyRefused(
                "strategy",
                "pkg",
                f"cannot be used for {profile.name}: the order of a key's rows is needed; use reshape",
            )
        super().__init__()
        self._profile = profile

    def handle(self, event: Event) -> list[Command]:
        self._out.begin(event)
        if isinstance(event, MetricsCollected) and not self.table.two_choices:
            self._out.routing.use_two_choices()
            everybody = range(self._profile.workers)
            text = "every key may go to two workers from now on; each row goes to the one that got fewer so far"
            self._out.record(DecisionKind.STARTED, -1, everybody, text)
        self._out.publish()
        return self._out.finish()
