"""The protocol that Reshape and all baselines share: events in, commands out."""

from __future__ import annotations

from typing import Protocol

from reshape.control.commands import Command
from reshape.control.events import Event
from reshape.control.routing import RoutingTable
from reshape.control.story import Decision


class Brain(Protocol):
    """Decides and does nothing else. Same events in, same commands out."""

    @property
    def table(self) -> RoutingTable:
        """The newest routing table that the brain has published."""

    @property
    def decisions(self) -> list[Decision]:
        """Everything decided so far, oldest first."""

    def handle(self, event: Event) -> list[Command]:
        """Take one event; never raises for anything that a body can report."""

    def story(self, worker: int) -> list[str]:
        """Why load of this worker was moved, changed, returned or left alone, in plain words."""
