"""A body driven by hand: the test says what workers report, and sees what the brain asks for.

After every event the rules that hold for any brain at any time are checked, so each test of a behaviour is a test
of those too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from reshape.control.commands import Command, HandOverState, SetRouting
from reshape.control.events import Event, MetricsCollected, RoutingApplied, StateTransferred, TransferFailed
from reshape.control.profile import OperatorProfile, Split, StateKind
from reshape.control.reshaping.controller import Controller
from reshape.control.routing import RoutingTable
from reshape.control.settings import StrategySettings
from reshape.control.story import DecisionKind

C = TypeVar("C", bound=Command)

SBR, SBK = Split.BY_RECORDS, Split.BY_KEYS
IMMUTABLE, MUTABLE = StateKind.IMMUTABLE, StateKind.MUTABLE


class Desk:
    """Settings are the paper's with eta = tau = 100 and no warm-up, unless the test says otherwise."""

    def __init__(
        self,
        workers: int = 3,
        *,
        split: Split = SBR,
        state: StateKind = IMMUTABLE,
        state_bytes: int = 0,
        **settings: Any,
    ) -> None:
        chosen: dict[str, Any] = {
            "eta": 100.0,
            "tau": 100.0,
            "adaptive": None,
            "backlog": False,
            "helpers": 1,
        } | settings
        self.brain = Controller(OperatorProfile("operator", workers, split, state), StrategySettings(**chosen))
        self.workers = workers
        self.time = 0.0
        self.state_bytes = state_bytes
        self.routed = [0] * workers
        self.processed = [0] * workers
        self.sent: list[Command] = []
        self.causes: set[int] = set()
        self._events = 0
        self._tables: dict[int, tuple[RoutingTable, str]] = {}
        self._ids: set[int] = set()

    def tell(self, event: Event) -> list[Command]:
        """Give an event to the brain and check what may never go wrong."""
        self.causes.add(event.id)
        commands = self.brain.handle(event)
        self.brain.check()
        for command in commands:
            assert command.cause == event.id
            assert command.id not in self._ids
            self._ids.add(command.id)
        tables = [command.table for command in commands if isinstance(command, SetRouting)]
        for table in tables:
            newest = max(self._tables, default=0)
            assert table.version > newest or self._tables[table.version][0] is table, "a version was used twice"
            self._tables[table.version] = (table, repr(table))
        for table, before in self._tables.values():
            assert repr(table) == before, "a published table was changed"
        for command in commands:
            if isinstance(command, HandOverState):
                assert [command.version] == [table.version for table in tables]
        self.sent += commands
        return commands

    def event(self, kind: type[Event], *fields: Any, after: float = 0.0) -> list[Command]:
        self._events += 1
        self.time += after
        return self.tell(kind(self._events, self.time, *fields))

    def report(
        self,
        workload: Sequence[int],
        arriving: Sequence[int] = (),
        *,
        keys: Mapping[int, Mapping[Any, int]] | None = None,
        remaining: int | None = None,
        busy: Sequence[float] = (),
        after: float = 1.0,
        speed: int = 100,
    ) -> list[Command]:
        """One report period: so many rows arrive per owner, workers with work process ``speed`` rows."""
        for owner, count in enumerate(arriving):
            self.routed[owner] += count
        for worker in range(self.workers):
            self.processed[worker] += min(workload[worker], speed)
        self._events += 1
        self.time += after
        return self.tell(
            MetricsCollected(
                self._events,
                self.time,
                tuple(workload),
                tuple(self.processed),
                tuple(self.routed),
                tuple(self.routed),
                (self.state_bytes,) * self.workers,
                remaining,
                keys or {},
                busy=tuple(busy),
            )
        )

    def state_arrives(self, transfer: int, helper: int, size: int = 0, seconds: float = 0.1) -> list[Command]:
        return self.event(StateTransferred, transfer, helper, size, seconds)

    def state_fails(self, transfer: int, helper: int) -> list[Command]:
        return self.event(TransferFailed, transfer, helper, "connection lost")

    def apply(self) -> list[Command]:
        """All routers use the newest table."""
        return self.event(RoutingApplied, self.brain.table.version)

    def kinds(self, worker: int | None = None) -> list[DecisionKind]:
        return [d.kind for d in self.brain.decisions if worker is None or d.skewed == worker]


def only(commands: Sequence[Command], kind: type[C]) -> C:
    """The one command of a kind."""
    found = [command for command in commands if isinstance(command, kind)]
    assert len(found) == 1, f"one {kind.__name__} expected among {commands}"
    return found[0]


def none_of(commands: Sequence[Command], *kinds: type[Command]) -> bool:
    return not any(isinstance(command, kinds) for command in commands)
