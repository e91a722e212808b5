"""The line between an input and its brain: events get their ids and times, everything goes into the event log, and
control messages can be made slow for an experiment (§7.5)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reshape.control.brain import Brain
from reshape.control.commands import Command
from reshape.control.events import Drained, Event, MetricsCollected, StateTransferred
from reshape.control.routing import RoutingTable
from reshape.protocol.tables import pack_table

MakeEvent = Callable[[int, float], Event]
WriteLog = Callable[[dict[str, Any]], None]


class BrainLine:
    """``execute`` gets the commands of one step of the brain."""

    def __init__(
        self,
        brain: Brain,
        execute: Callable[[Sequence[Command]], None],
        log: WriteLog = lambda _: None,
        delay_s: float = 0.0,
    ) -> None:
        self.brain = brain
        self.opened_at: float | None = None  # a brain's time begins with the first row of its input
        self._execute = execute
        self._log = log
        self._delay_s = delay_s
        self._now = 0.0
        self._events = 0
        self._delayed: list[tuple[float, int, Callable[[], None]]] = []
        self._delays = 0
        self._closed = False

    def clock(self, now: float) -> None:
        """What time it is: events between two reports have a time of their own."""
        self._now = max(self._now, now)

    def run_due(self) -> None:
        """Do what was delayed until now."""
        while self._delayed and self._delayed[0][0] <= self._now:
            heapq.heappop(self._delayed)[2]()

    def tell(self, make: MakeEvent) -> None:
        self._after_delay(lambda: self._hear(make))

    def tell_last(self) -> None:
        """The input is drained: the brain hears of it, and nothing that it says is done any more."""
        self._delayed.clear()
        drained = Drained(self._events + 1, self._brain_time)
        self._log(_event_facts(drained))
        self._closed = True
        self.brain.handle(drained)

    def log_command(self, command: Command) -> None:
        self._log({"command": type(command).__name__, **_command_facts(command)})

    @property
    def _brain_time(self) -> float:
        return self._now - (self.opened_at or 0.0)

    def _hear(self, make: MakeEvent) -> None:
        if self._closed:
            return
        if self._events == 0:
            self._log({"kind": "opened", "at": round(self.opened_at or 0.0, 4)})
        self._events += 1
        event = make(self._events, self._brain_time)
        self._log(_event_facts(event))
        commands = self.brain.handle(event)
        if commands:
            self._after_delay(lambda: self._execute(commands))

    def _after_delay(self, action: Callable[[], None]) -> None:
        if self._delay_s <= 0:
            action()
            return
        self._delays += 1
        heapq.heappush(self._delayed, (self._now + self._delay_s, self._delays, action))


def _event_facts(event: Event) -> dict[str, Any]:
    """What the brain is told, as the event log writes it."""
    if isinstance(event, MetricsCollected):
        names = ("workload", "processed", "routed", "received")
        return {"kind": "report", "id": event.id, **{name: getattr(event, name) for name in names}}
    facts = {name: getattr(event, name) for name in event.__dataclass_fields__ if name != "time"}
    if isinstance(event, StateTransferred):
        facts["took_s"] = facts.pop("seconds")  # a line has its own
    return {"kind": "told", "what": type(event).__name__, **facts}


def _command_facts(command: Command) -> Mapping[str, Any]:
    """A command's fields as the event log writes them."""
    facts: dict[str, Any] = {}
    for name in command.__dataclass_fields__:
        value = getattr(command, name)
        if isinstance(value, RoutingTable):
            value = pack_table(value)
        elif isinstance(value, frozenset):
            value = sorted(value)
        facts[name] = value
    return facts
