"""No mitigation: every row goes to its owner."""

from __future__ import annotations

from reshape.control.commands import Command
from reshape.control.events import Event
from reshape.control.profile import OperatorProfile
from reshape.control.routing import RoutingTable
from reshape.control.settings import StrategySettings
from reshape.control.story import Decision


class NoMitigation:
    def __init__(self, profile: OperatorProfile, settings: StrategySettings) -> None:
        self._profile = profile
        self.table = RoutingTable()
        self.decisions: list[Decision] = []

    def handle(self, event: Event) -> list[Command]:
        return []

    def story(self, worker: int) -> list[str]:
        return []
