"""What brains of tests have in common: valid transfers, and the books that tell which ones are valid.

*Valid* is what the protocol of commands and events allows, whether or not it makes sense: state is there before rows
are shared, keys are handed over from where they are, and what fails or is cancelled is routed back in the same step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from reshape.control.commands import Command
from reshape.control.events import BacklogMoved, Event, MetricsCollected, StateTransferred, TransferFailed
from reshape.control.outbox import Outbox
from reshape.control.profile import OperatorProfile, Partitioning, StateKind
from reshape.control.routing import RoutingTable, Shares
from reshape.control.story import Decision, DecisionKind
from reshape.kernels.hashing import mini_partitions

BUCKETS_PER_WORKER = 16
# Keys of an owner that a brain keeps in its books.
KEYS_PER_OWNER = 8


@dataclass(slots=True)
class Doings:
    """What the brains of a run did, and what became of it."""

    seed: int = 0
    eagerness: float = 0.6  # the chance to act at an event
    started: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    rows_moved: int = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """A key or a mini-partition."""

    number: int
    is_bucket: bool
    owner: int


@dataclass(frozen=True, slots=True)
class Moving:
    """A hand-over under way, or one whose answer may still be lost: cancelling it returns its scopes to ``source``."""

    id: int
    source: int
    target: int
    scopes: frozenset[Scope]


class TransferBrain(ABC):
    """Keeps the books and turns wishes into commands; when to wish for what is left to its children."""

    def __init__(self, profile: OperatorProfile, doings: Doings) -> None:
        self.profile = profile
        self.doings = doings
        self.out = Outbox()
        self.immutable = profile.state is StateKind.IMMUTABLE
        self.at: dict[Scope, int] = {}  # where scopes are that have ever been seen
        self.moves: dict[int, Moving] = {}  # hand-overs that were not answered
        self.replicas: set[tuple[int, int]] = set()  # owner, helper
        self.shared: set[int] = set()  # owners with shares
        self.touched: set[Scope] = set()  # in the step at hand
        self._answered: dict[int, Moving] = {}
        self._latest: dict[Scope, int] = {}  # the newest hand-over of a scope
        self._replicating: dict[int, int] = {}  # transfer -> owner
        self._backlogs: set[int] = set()

    @property
    def table(self) -> RoutingTable:
        return self.out.routing.current

    @property
    def decisions(self) -> list[Decision]:
        return self.out.story.decisions

    def story(self, worker: int) -> list[str]:
        return self.out.story.of(worker)

    def handle(self, event: Event) -> list[Command]:
        self.out.begin(event)
        self.touched = set()
        self._book(event)
        self.step(event)
        self.out.publish()
        return self.out.finish()

    @abstractmethod
    def step(self, event: Event) -> None:
        """Wish for something, now that this has happened."""

    # What has happened

    def _book(self, event: Event) -> None:
        match event:
            case MetricsCollected():
                self._see(event)
            case StateTransferred():
                if event.transfer in self._replicating:
                    self.replicas.add((self._replicating[event.transfer], event.helper))
                    self.doings.done["replicate"] += 1
                moving = self.moves.pop(event.transfer, None)
                if moving is not None:
                    self._answered[event.transfer] = moving
                    self.doings.done["hand over"] += 1
            case TransferFailed():
                self._book_failure(event)
            case BacklogMoved():
                self.doings.done["backlog"] += 1
                self.doings.rows_moved += event.rows

    def _book_failure(self, event: TransferFailed) -> None:
        self.doings.reasons.append(event.reason)
        if event.transfer in self.moves:
            self.doings.failed["hand over"] += 1
            self.undo(self.built_upon(self.moves[event.transfer]), event.reason)
        elif event.transfer in self._replicating:
            self.doings.failed["replicate"] += 1
        elif event.transfer in self._backlogs:
            self.doings.failed["backlog"] += 1

    def _see(self, event: MetricsCollected) -> None:
        ranges = self.profile.partitioning is Partitioning.RANGE  # mini-partitions are by hash
        for owner, keys in event.keys.items():
            for key in list(keys)[:KEYS_PER_OWNER]:
                assert isinstance(key, int)
                if ranges or self._by_key(self._bucket_of(key)):
                    self.at.setdefault(Scope(key, False, owner), owner)
        for number in () if ranges else event.buckets:
            owner = number % self.profile.workers
            if not self._by_key(number):
                self.at.setdefault(Scope(number, True, owner), owner)

    def _by_key(self, bucket: int) -> bool:
        """A part of the mini-partitions moves as a whole, the others key by key: a rule for a key beats both."""
        return (bucket // self.profile.workers + self.doings.seed) % 3 != 0

    def _bucket_of(self, key: int) -> int:
        hashes = np.array([key], dtype=np.uint64)
        return int(mini_partitions(hashes, self.profile.workers, BUCKETS_PER_WORKER)[0])

    # What can be done

    def note(self, what: str, worker: int, helpers: tuple[int, ...]) -> None:
        self.doings.started[what] += 1
        self.out.record(DecisionKind.STARTED, worker, helpers, what)

    def may_help(self, owner: int, helper: int) -> bool:
        """Would rows of the owner meet their state at this worker?"""
        return not self.immutable or helper == owner or (owner, helper) in self.replicas

    def share(self, owner: int, shares: dict[int, Fraction]) -> None:
        """Split an owner's records among it and helpers."""
        if self.out.routing.set_owner(owner, Shares.of(owner, shares)):
            self.shared.add(owner)
            self.note("share" if len(shares) == 1 else "share with several", owner, tuple(shares))

    def unshare(self, owner: int) -> None:
        self.shared.discard(owner)
        self.out.routing.set_owner(owner, None)
        self.note("unshare", owner, ())

    def replicate(self, owner: int, helpers: tuple[int, ...]) -> int:
        transfer = self.out.replicate(owner, helpers, None)
        self._replicating[transfer] = owner
        self.note("replicate", owner, helpers)
        return transfer

    def move_backlog(self, source: int, target: int, owner: int, rows: int) -> int:
        """Rows that wait go to a worker that has the state for them."""
        transfer = self.out.move_backlog(source, target, owner, rows)
        self._backlogs.add(transfer)
        self.note("backlog", source, (target,))
        return transfer

    def hand_over(self, source: int, target: int, scopes: Iterable[Scope]) -> Moving:
        """Scopes go on from where they are, perhaps while they are still on their way there."""
        scopes = frozenset(scopes)
        on_its_way = any(self._latest.get(scope, 0) in self.moves for scope in scopes)
        keys = frozenset(scope.number for scope in scopes if not scope.is_bucket)
        buckets = frozenset(scope.number for scope in scopes if scope.is_bucket)
        transfer = self.out.hand_over(source, target, keys, buckets)
        moving = self.moves[transfer] = Moving(transfer, source, target, scopes)
        self._place(scopes, target)
        for scope in scopes:
            self._latest[scope] = transfer
        back = all(scope.owner == target for scope in scopes)
        self.note(
            f"{'return' if back else 'move'} {'mini-partitions' if buckets else 'keys'}",
            source,
            (target,),
        )
        if on_its_way:
            self.doings.started["move on"] += 1
        return moving

    def _place(self, scopes: frozenset[Scope], worker: int) -> None:
        self.touched |= scopes
        for scope in scopes:
            self.at[scope] = worker
            rule = None if scope.owner == worker else Shares.whole(worker)
            if scope.is_bucket:
                self.out.routing.set_bucket(scope.number, rule)
            else:
                self.out.routing.set_keys((scope.number,), rule)

    def cancel_what_returns(self, moving: Moving) -> None:
        """Its keys are on their way back already, as when a brain gives up a late hand-over that it wanted back."""
        self.moves.pop(moving.id, None)
        self.out.cancel(moving.id, "chaos")
        self.note("cancel what returns", moving.source, (moving.target,))

    def is_reverse(self, first: Moving, second: Moving) -> bool:
        """Does the second undo the first, with nothing open before them that could be cancelled later?"""
        older = any(m.id < first.id and m.scopes & first.scopes for m in self.moves.values())
        same = first.scopes == second.scopes and (first.source, first.target) == (second.target, second.source)
        return same and not older

    def built_upon(self, moving: Moving) -> list[Moving]:
        """A hand-over and all later ones that started from where it, or one of them, brought keys to."""
        chain, scopes = [moving], moving.scopes
        later = {**self.moves, **self._answered}
        for number in sorted(later):
            if number > moving.id and later[number].scopes & scopes:
                chain.append(later[number])
                scopes |= later[number].scopes
        return chain

    def undo(self, chain: list[Moving], reason: str) -> None:
        """Cancel hand-overs, the newest first; their keys are where they were before the first one."""
        for moving in reversed(chain):
            self.moves.pop(moving.id, None)
            self._answered.pop(moving.id, None)
            self._place(moving.scopes, moving.source)
            self.out.cancel(moving.id, reason)
            self.note("cancel", moving.source, (moving.target,))
        if len(chain) > 1:
            self.doings.started["cancel a chain"] += 1
