"""The line between a simulated operator and its brain: events there, commands back, each with its delay."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from reshape.control.brain import Brain
from reshape.control.commands import Command
from reshape.control.events import Event
from reshape.sim.agenda import Agenda

LOG = logging.getLogger(__name__)

MakeEvent = Callable[[int, float], Event]


class BrainLink:
    """``execute`` is called with each command when it has arrived."""

    def __init__(self, brain: Brain, agenda: Agenda, latency_s: float, execute: Callable[[Command], None]) -> None:
        self.brain = brain
        self._agenda = agenda
        self._latency_s = latency_s
        self._execute = execute
        self._events = 0

    def tell(self, make: MakeEvent) -> None:
        """Send an event; it gets its number and its time when the brain hears it."""
        self._agenda.after(self._latency_s, partial(self._deliver, make))

    def _deliver(self, make: MakeEvent) -> None:
        self._events += 1
        event = make(self._events, self._agenda.now)
        for command in self.brain.handle(event):
            LOG.debug("%.3f s: event %d makes the brain ask for %s", event.time, event.id, command)
            self._agenda.after(self._latency_s, partial(self._execute, command))
