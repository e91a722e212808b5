"""No mitigation: every row goes to its owner."""

from __future__ import annotations

from reshape.control.commands import Command
from reshape.control.events import Event
from reshape.control.outbox import OutboxBrain
from reshape.control.profile import OperatorProfile
from reshape.control.settings import StrategySettings


class NoMitigation(OutboxBrain):
    def __init__(self, profile: OperatorProfile, settings: StrategySettings) -> None:
        super().__init__()

    def handle(self, event: Event) -> list[Command]:
        return []
