"""The line between an input and its brain: events get their ids and times, everything goes into the event log, and
control messages can be made slow for an experiment (§7.5).

A brain that raises, or says what cannot be done, is not asked again: the input goes on without it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reshape.control.brain import Brain
from reshape.control.commands import Command, HandOverState, MoveBacklog, ReplicateState, SetRouting
from reshape.control.events import Drained, Event, MetricsCollected, StateTransferred
from reshape.control.routing import RoutingTable
from reshape.errors import ReshapeError
from reshape.protocol.tables import pack_table

# Heavy keys of an owner in a report of the event log: beyond these none is hot.
LOGGED_KEYS = 8

MakeEvent = Callable[[int, float], Event]
WriteLog = Callable[[dict[str, Any]], None]


class UnknownWorker(ReshapeError):
    """A strategy speaks of a worker that its operator does not have."""


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A brain is asked no more since it raised this. ``time`` is the brain's."""

    time: float
    error: Exception
    text: str


class BrainLine:
    """``execute`` gets the commands of one step of the brain, about so many ``workers`` at the most."""

    def __init__(
        self,
        brain: Brain,
        workers: int,
        execute: Callable[[Sequence[Command]], None],
        log: WriteLog = lambda _: None,
        delay_s: float = 0.0,
    ) -> None:
        self.brain = brain
        self.opened_at: float | None = None  # a brain's time begins with the first row of its input
        self.gave_up: GaveUp | None = None
        self._workers = workers
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
        self._ask(drained)
        self._closed = True

    def log_command(self, command: Command) -> None:
        self._log({"command": type(command).__name__, **_command_facts(command)})

    def told(self) -> list[tuple[float, str]]:
        """Everything that was decided, and that nothing is any more, each with the brain's time."""
        last = [] if self.gave_up is None else [(self.gave_up.time, self.gave_up.text)]
        return [*((decision.time, decision.text) for decision in self.brain.decisions), *last]

    @property
    def _brain_time(self) -> float:
        return self._now - (self.opened_at or 0.0)

    def _hear(self, make: MakeEvent) -> None:
        if self._closed or self.gave_up is not None:
            return
        if self._events == 0:
            self._log({"kind": "opened", "at": round(self.opened_at or 0.0, 4)})
        self._events += 1
        event = make(self._events, self._brain_time)
        self._log(_event_facts(event))
        commands = self._ask(event)
        if commands:
            self._after_delay(lambda: self._execute(commands))

    def _ask(self, event: Event) -> Sequence[Command]:
        """What the brain says; what it said before is still done when it raises, and nothing of this step is."""
        if self.gave_up is not None:
            return ()
        try:
            commands = self.brain.handle(event)
            for worker in _workers_in(commands):
                if worker not in range(self._workers):
                    raise UnknownWorker(f"there is no worker {worker}, they are numbered 0 to {self._workers - 1}")
        except Exception as error:
            text = (
                f"the strategy raised {type(error).__name__} at {type(event).__name__} ({error}); "
                "the flow goes on without it, and no load of this input is moved any more"
            )
            self.gave_up = GaveUp(self._brain_time, error, text)
            self._log({"kind": "gave up", "text": text})
            return ()
        return commands

    def _after_delay(self, action: Callable[[], None]) -> None:
        if self._delay_s <= 0:
            action()
            return
        self._delays += 1
        heapq.heappush(self._delayed, (self._now + self._delay_s, self._delays, action))


def _workers_in(commands: Sequence[Command]) -> Iterator[int]:
    """Every worker that commands speak of: a command that is done in part could not be undone."""
    for command in commands:
        match command:
            case ReplicateState():
                yield from (command.skewed, *command.helpers)
            case HandOverState() | MoveBacklog():
                yield from (command.source, command.target)
            case SetRouting():
                table = command.table
                for rules in (table.owners, table.keys, table.buckets):
                    for shares in rules.values():
                        yield from shares.workers


def _event_facts(event: Event) -> dict[str, Any]:
    """What the brain is told, as the event log writes it."""
    if isinstance(event, MetricsCollected):
        names = ("workload", "processed", "routed", "received", "state_bytes", "busy")
        keys = {owner: _heaviest(rows) for owner, rows in event.keys.items()}
        return {"kind": "report", "id": event.id, **{name: getattr(event, name) for name in names}, "keys": keys}
    facts = {name: getattr(event, name) for name in event.__dataclass_fields__ if name != "time"}
    if isinstance(event, StateTransferred):
        facts["took_s"] = facts.pop("seconds")  # a line has its own
    return {"kind": "told", "what": type(event).__name__, **facts}


def _heaviest(rows: Mapping[Any, int]) -> list[tuple[Any, int]]:
    return heapq.nlargest(LOGGED_KEYS, rows.items(), key=lambda item: item[1])


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
