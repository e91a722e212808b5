"""Commands and decisions of the step at hand, with their ids and cause. Shared by all brains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from reshape.control.commands import (
    CancelTransfer,
    Command,
    HandOverState,
    MoveBacklog,
    ReplicateState,
    SetRouting,
)
from reshape.control.events import Event
from reshape.control.routing import Key, RoutingDraft, RoutingTable
from reshape.control.story import Decision, DecisionKind, Story


class Outbox:
    """Numbers what a brain says and ties it to the event that made it say so."""

    def __init__(self) -> None:
        self.routing = RoutingDraft()
        self.story = Story()
        self._commands: list[Command] = []
        self._last_command = 0
        self._last_transfer = 0
        self._cause = 0
        self.time = 0.0

    def begin(self, event: Event) -> None:
        self._commands = []
        self._cause = event.id
        self.time = event.time

    def finish(self) -> list[Command]:
        commands, self._commands = self._commands, []
        return commands

    def publish(self) -> RoutingTable | None:
        """Send the routing table if this step changed any rule."""
        table = self.routing.publish()
        if table is not None:
            self.send_again(table)
        return table

    def send_again(self, table: RoutingTable) -> None:
        self._commands.append(SetRouting(self._command_id(), self._cause, table))

    def replicate(self, skewed: int, helpers: tuple[int, ...], keys: frozenset[Key] | None) -> int:
        transfer = self._transfer_id()
        self._commands.append(ReplicateState(self._command_id(), self._cause, transfer, skewed, helpers, keys))
        return transfer

    def hand_over(self, source: int, target: int, keys: frozenset[Key], buckets: frozenset[int] = frozenset()) -> int:
        """The routing rules that go with it are set in the same step and published as the next version."""
        transfer = self._transfer_id()
        version = self.routing.next_version
        self._commands.append(
            HandOverState(self._command_id(), self._cause, transfer, source, target, keys, version, buckets)
        )
        return transfer

    def move_backlog(self, source: int, target: int, owner: int, rows: int) -> int:
        transfer = self._transfer_id()
        self._commands.append(MoveBacklog(self._command_id(), self._cause, transfer, source, target, owner, rows))
        return transfer

    def cancel(self, transfer: int, reason: str) -> None:
        self._commands.append(CancelTransfer(self._command_id(), self._cause, transfer, reason))

    def record(
        self, kind: DecisionKind, skewed: int, helpers: Iterable[int], text: str, reason: str | None = None
    ) -> None:
        self.story.record(Decision(self._cause, self.time, kind, skewed, tuple(helpers), text), reason)

    def _command_id(self) -> int:
        self._last_command += 1
        return self._last_command

    def _transfer_id(self) -> int:
        self._last_transfer += 1
        return self._last_transfer


class OutboxBrain(ABC):
    """A brain whose words all go through an outbox; what it says to an event is all that is left to write."""

    def __init__(self) -> None:
        self._out = Outbox()

    @property
    def table(self) -> RoutingTable:
        return self._out.routing.current

    @property
    def decisions(self) -> list[Decision]:
        return self._out.story.decisions

    def story(self, worker: int) -> list[str]:
        return self._out.story.of(worker)

    @abstractmethod
    def handle(self, event: Event) -> list[Command]:
        """Begins and finishes the outbox."""


def rows(count: float) -> str:
    """A number of rows as people read it."""
    return f"{count:,.0f}"


def names(workers: Iterable[int]) -> str:
    """'worker 4' or 'workers 4, 5 and 7'."""
    listed = [str(worker) for worker in workers]
    if len(listed) == 1:
        return f"worker {listed[0]}"
    return f"workers {', '.join(listed[:-1])} and {listed[-1]}" if listed else "nobody"
