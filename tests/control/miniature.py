"""A miniature body of the brain: integer rows, routers, queues, state; everything that happens is chosen by the test.

It keeps the promises that a body makes (DESIGN.md, rules 2 and 3) in the simplest way: links deliver at once and in
order, and a hand-over waits until all routers use its table and the source has processed what came before. A hand-over
that is cancelled or fails ends with the state at its source, and rows on a detour keep their order. It then checks what
the brain has to do for that to be enough, row by row.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any

from reshape.control.commands import (
    CancelTransfer,
    Command,
    HandOverState,
    MoveBacklog,
    ReplicateState,
    SetRouting,
)
from reshape.control.events import (
    BacklogMoved,
    Event,
    MetricsCollected,
    RoutingApplied,
    StateTransferred,
    TransferFailed,
)
from reshape.control.profile import OperatorProfile, Split, StateKind
from reshape.control.reshaping.controller import Controller
from reshape.control.routing import Key, RoutingTable, Shares
from reshape.control.settings import StrategySettings

from ..shares import worker_at

KEYS_PER_OWNER = 4
ROUTERS = 2
# Rows that a worker processes in a period of the tests; the scale of everything else.
SPEED = 12


@dataclass(slots=True)
class Row:
    router: int
    key: int
    sequence: int
    owner: int
    version: int


@dataclass(slots=True)
class HandOver:
    """``until`` is the first version under which routers no longer send rows to the target."""

    command: HandOverState
    stage: str = "open"  # open, done, failed, returning, returned
    until: float = inf
    held: list[Row] = field(default_factory=list)

    def concerns(self, row: Row) -> bool:
        return row.key in self.command.keys and self.command.version <= row.version < self.until


class Miniature:
    def __init__(self, profile: OperatorProfile, settings: StrategySettings, state_bytes: int = 1000) -> None:
        self.profile = profile
        self.brain = Controller(profile, settings)
        self.workers = range(profile.workers)
        self.by_keys = profile.split is Split.BY_KEYS
        self.mutable = profile.state is StateKind.MUTABLE
        self.state_bytes = state_bytes
        self.now = 0.0
        self.ended = False
        self.routers = [RoutingTable() for _ in range(ROUTERS)]
        self.inboxes: list[deque[RoutingTable]] = [deque() for _ in range(ROUTERS)]
        self.queues: list[deque[Row]] = [deque() for _ in self.workers]
        self.copies: list[tuple[ReplicateState, int]] = []
        self.moves: list[MoveBacklog] = []
        self.hand_overs: dict[int, HandOver] = {}
        self.answers: dict[str, deque[tuple[type[Event], tuple[Any, ...]]]] = {}
        self.reports: list[MetricsCollected] = []
        self.commands: list[Command] = []
        self._tables: dict[int, tuple[RoutingTable, str]] = {}
        self._events: set[int] = set()
        self._command_ids: set[int] = set()
        self._positions: Counter[tuple[int, object]] = Counter()
        self._sequence: Counter[tuple[int, int]] = Counter()
        self._done: Counter[tuple[int, int]] = Counter()
        self._replicas: dict[tuple[int, int], set[int]] = {}
        self._holder = {key: key % profile.workers for key in range(KEYS_PER_OWNER * profile.workers)}
        self._recent: Counter[int] = Counter()
        self.routed = [0] * profile.workers
        self.received = [0] * profile.workers
        self.processed = [0] * profile.workers
        self.diverted: Counter[int] = Counter()  # owner -> rows sent to others
        self._before = list(self.processed)

    # -- the brain -----------------------------------------------------------------------------------------------

    def tell(self, kind: type[Event], *fields: Any) -> None:
        self.give(kind(len(self._events) + 1, self.now, *fields))

    def give(self, event: Event) -> None:
        """Hand an event to the brain, check its answer and carry it out."""
        self._events.add(event.id)
        commands = self.brain.handle(event)
        self.brain.check()
        self._examine(event, commands)
        self.commands += commands
        new_table = next((c.table.version for c in commands if isinstance(c, SetRouting)), None)
        for command in commands:
            self._execute(command, new_table)

    def _examine(self, event: Event, commands: list[Command]) -> None:
        tables = [command.table for command in commands if isinstance(command, SetRouting)]
        assert len(tables) <= 1, "one step, one table"
        for command in commands:
            assert command.cause == event.id
            assert command.cause in self._events
            assert command.id not in self._command_ids
            self._command_ids.add(command.id)
            if isinstance(command, HandOverState):
                assert [command.version] == [table.version for table in tables]
                assert self.by_keys
            if isinstance(command, ReplicateState):
                assert not self.mutable, "mutable state is never replicated"
                assert not self.by_keys, "a copy alone would let the helper overtake"
            if isinstance(command, MoveBacklog):
                assert not self.by_keys, "queued rows never move where order matters"
                assert command.rows > 0
        for table in tables:
            newest = max(self._tables, default=0)
            assert table.version > newest or self._tables[table.version][0] is table, "a version was used twice"
            self._tables[table.version] = (table, repr(table))
            self._examine_table(table)
        for table, before in self._tables.values():
            assert repr(table) == before, "a published table was changed"

    def _examine_table(self, table: RoutingTable) -> None:
        rules: list[tuple[int, int | None, Shares]] = [(owner, None, shares) for owner, shares in table.owners.items()]
        for key, shares in table.keys.items():
            assert isinstance(key, int)
            rules.append((key % len(self.workers), key, shares))
        for owner, only_key, shares in rules:
            assert sum(share for _, share in shares.parts) == 1
            assert len(shares.parts) == 1 or not self.by_keys, "a key has one worker at a time"
            if not self.mutable and not self.by_keys:
                for worker in shares.workers:
                    keys = range(owner, len(self._holder), len(self.workers)) if only_key is None else [only_key]
                    missing = [k for k in keys if not self._has_state(worker, k)]
                    assert not missing, f"rows of keys {missing} would go to {worker}, which has no state for them"

    def _has_state(self, worker: int, key: int) -> bool:
        owner = key % len(self.workers)
        return worker == owner or key in self._replicas.get((owner, worker), ())

    def _execute(self, command: Command, new_table: int | None) -> None:
        match command:
            case SetRouting():
                for inbox in self.inboxes:
                    inbox.append(command.table)
            case ReplicateState():
                self.copies += [(command, helper) for helper in command.helpers]
            case HandOverState():
                self.hand_overs[command.transfer] = HandOver(command)
            case MoveBacklog():
                self.moves.append(command)
            case CancelTransfer():
                self.copies = [copy for copy in self.copies if copy[0].transfer != command.transfer]
                self.moves = [move for move in self.moves if move.transfer != command.transfer]
                if command.transfer in self.hand_overs:
                    self._undo(self.hand_overs[command.transfer], new_table)

    def answer(self, channel: str, kind: type[Event], *fields: Any) -> None:
        self.answers.setdefault(channel, deque()).append((kind, fields))

    # -- routers and workers -------------------------------------------------------------------------------------

    def send(self, router: int, key: int) -> None:
        table, owner = self.routers[router], key % len(self.workers)
        self._sequence[router, key] += 1
        row = Row(router, key, self._sequence[router, key], owner, table.version)
        shares = table.shares(key, 0, owner)
        worker = owner
        if shares is not None:
            scope: object = ("key", key) if key in table.keys else owner
            worker = worker_at(shares, self._positions[router, scope])
            self._positions[router, scope] += 1
        self.routed[owner] += 1
        self.received[worker] += 1
        self.diverted[owner] += worker != owner
        self._recent[key] += 1
        self._arrive(worker, row)

    def use_next_table(self, router: int) -> None:
        """A router takes the next table from its channel; the last one to use a version makes the body report it."""
        if not self.inboxes[router]:
            return
        table = self.inboxes[router].popleft()
        if table.version > self.routers[router].version:
            self.routers[router] = table
        if self._passed(table.version):
            self.answer("routing", RoutingApplied, table.version)

    def _passed(self, version: float) -> bool:
        return self.ended or all(table.version >= version for table in self.routers)

    def _arrive(self, worker: int, row: Row) -> None:
        for known in reversed(self.hand_overs.values()):
            command = known.command
            if known.stage == "returning" and command.source == worker and row.key in command.keys:
                if row.version >= known.until:
                    known.held.append(row)
                    return
            elif command.target == worker and known.concerns(row):
                if known.stage == "open":
                    known.held.append(row)
                    return
                if known.stage == "failed":
                    self._arrive(command.source, row)
                    return
        self.queues[worker].append(row)

    def process(self, worker: int, rows: int) -> None:
        """Process so many rows from the head of the queue, with all that they need."""
        queue = self.queues[worker]
        while rows > 0 and queue:
            row = queue.popleft()
            rows -= 1
            stream = (row.router, row.key)
            self._done[stream] += 1
            self.processed[worker] += 1
            if self.by_keys:
                assert row.sequence == self._done[stream], f"{row} was processed out of order"
            if self.by_keys:
                assert self._holder[row.key] == worker, f"{row} at {worker}, its state is at {self._holder[row.key]}"
            elif not self.mutable:
                assert self._has_state(worker, row.key), f"{row} was processed by {worker}, which has no state for it"

    def report(self, after: float, *, busy: bool = False) -> None:
        self.now += after
        count = len(self.workers)
        waiting = [len(queue) for queue in self.queues]
        for known in self.hand_overs.values():
            at = known.command.source if known.stage == "returning" else known.command.target
            waiting[at] += len(known.held)
        keys: dict[int, dict[Key, int]] = {}
        for key, rows in self._recent.items():
            keys.setdefault(key % count, {})[key] = rows
        worked = [now - before for now, before in zip(self.processed, self._before, strict=True)]
        self._before = list(self.processed)
        self._recent.clear()
        event = MetricsCollected(
            len(self._events) + 1,
            self.now,
            waiting,
            tuple(self.processed),
            tuple(self.routed),
            tuple(self.received),
            (self.state_bytes,) * count,
            None,
            keys,
            busy=[min(1.0, (w + d) / SPEED) for w, d in zip(waiting, worked, strict=True)] if busy else (),
        )
        self.reports.append(event)
        self.give(event)

    # -- transfers -----------------------------------------------------------------------------------------------

    def finish_copy(self, index: int, *, success: bool) -> None:
        command, helper = self.copies.pop(index)
        if not success:
            self.answer(f"worker {helper}", TransferFailed, command.transfer, helper, "as the test says")
            return
        owned = range(command.skewed, len(self._holder), len(self.workers))
        keys = owned if command.keys is None else [key for key in command.keys if isinstance(key, int)]
        self._replicas.setdefault((command.skewed, helper), set()).update(keys)
        self.answer(f"worker {helper}", StateTransferred, command.transfer, helper, self.state_bytes, 0.01)

    def finish_move(self, index: int, *, success: bool) -> None:
        move = self.moves.pop(index)
        if not success:
            self.answer(f"worker {move.target}", TransferFailed, move.transfer, move.target, "as the test says")
            return
        taken: list[Row] = []
        kept: list[Row] = []
        queue = self.queues[move.source]
        while queue and len(taken) < move.rows:
            row = queue.pop()
            (taken if row.owner == move.owner else kept).append(row)
        queue.extend(reversed(kept))
        self.queues[move.target].extend(reversed(taken))
        self.diverted[move.owner] += len(taken) if move.target != move.owner else 0
        self.answer(f"worker {move.target}", BacklogMoved, move.transfer, len(taken))

    def open_hand_overs(self) -> list[HandOver]:
        return [known for known in self.hand_overs.values() if known.stage == "open"]

    def finish_hand_over(self, known: HandOver, *, success: bool) -> None:
        """Success only when markers have passed and the source is through with the keys; failure at any time."""
        command = known.command
        channel = f"worker {command.target}"
        if not success:
            self._fail(known)
            self.answer(channel, TransferFailed, command.transfer, command.target, "as the test says")
        elif self._passed(command.version) and self._is_through(command.source, command.keys, known):
            known.stage = "done"
            self._give_state(command.target, command.keys, known)
            self.answer(channel, StateTransferred, command.transfer, command.target, self.state_bytes, 0.01)

    def _is_through(self, worker: int, keys: Iterable[Any], but: HandOver) -> bool:
        """Has the worker the state of the keys, and no row of them waiting?"""
        chosen = set(keys)
        if any(self._holder[key] != worker for key in chosen):
            return False
        if any(row.key in chosen for row in self.queues[worker]):
            return False
        waits = {"open": lambda c: c.target, "returning": lambda c: c.source}
        return not any(
            chosen & other.command.keys and waits[other.stage](other.command) == worker
            for other in self.hand_overs.values()
            if other is not but and other.stage in waits
        )

    def _give_state(self, worker: int, keys: Iterable[Any], known: HandOver) -> None:
        for key in keys:
            self._holder[key] = worker
        self.queues[worker].extend(known.held)
        known.held = []

    def _fail(self, known: HandOver) -> None:
        known.stage = "failed"
        held, known.held = known.held, []
        for row in held:
            self._arrive(known.command.source, row)

    def _undo(self, known: HandOver, new_table: int | None) -> None:
        """A cancelled hand-over ends with its state at the source, whatever stage it was in."""
        until = inf if new_table is None else new_table
        if known.stage == "open":
            self._fail(known)
        if known.stage == "failed":
            known.until = until
        elif known.stage == "done" and new_table is not None:
            known.stage, known.until = "returning", until

    def return_states(self) -> None:
        """Hand-overs that were completed and cancelled: the state goes back behind the markers."""
        for known in self.hand_overs.values():
            if known.stage == "returning":
                command = known.command
                if self._passed(known.until) and self._is_through(command.target, command.keys, known):
                    known.stage = "returned"
                    self._give_state(command.source, command.keys, known)

    # -- to an end -----------------------------------------------------------------------------------------------

    @property
    def unprocessed(self) -> int:
        return sum(self._sequence.values()) - sum(self._done.values())

    def lose_nothing(self) -> None:
        """No row lost or doubled: what was sent is done or waits somewhere."""
        waiting = sum(map(len, self.queues)) + sum(len(known.held) for known in self.hand_overs.values())
        assert waiting == self.unprocessed, f"{self.unprocessed} rows are missing, {waiting} wait"

    def answer_all(self) -> None:
        """Everything under way succeeds and is told."""
        for _ in range(100):
            busy = False
            for router, inbox in enumerate(self.inboxes):
                while inbox:
                    busy = True
                    self.use_next_table(router)
            while self.copies:
                busy = True
                self.finish_copy(0, success=True)
            while self.moves:
                busy = True
                self.finish_move(0, success=True)
            self.return_states()
            for known in self.open_hand_overs():
                self.finish_hand_over(known, success=True)
            for channel in list(self.answers):
                while self.answers[channel]:
                    busy = True
                    self.deliver(channel)
            if not busy:
                return
        raise AssertionError("the brain always has something more to ask for")

    def deliver(self, channel: str) -> None:
        kind, fields = self.answers[channel].popleft()
        self.tell(kind, *fields)

    def work_off(self) -> None:
        """Process all rows, with everything that they wait for."""
        for _ in range(200):
            if not self.unprocessed:
                return
            for worker in self.workers:
                self.process(worker, 10**6)
            self.answer_all()
            if self.unprocessed:
                self.report(1.0)
        raise AssertionError(f"{self.unprocessed} rows are never processed: {self.queues} {self.hand_overs}")

    def arrivals(
        self, seed: int, rows: int, hot: int, out_of_ten: int, pick: Callable[[Random], int] | None = None
    ) -> None:
        """Rows of which so many out of ten are for the hot owner, most of them for one of its keys."""
        if self.ended:
            return
        chance, count = Random(seed), len(self.workers)
        for _ in range(rows):
            owner = hot if chance.randrange(10) < out_of_ten else chance.randrange(count)
            which = pick(chance) if pick else min(chance.randrange(KEYS_PER_OWNER), chance.randrange(KEYS_PER_OWNER))
            self.send(chance.randrange(ROUTERS), owner + which * count)
