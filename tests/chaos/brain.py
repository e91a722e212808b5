"""A brain that knows no reason: random valid transfers at random moments, the same for the same events and seed.

*Valid* is what the protocol of commands and events allows, whether or not it makes sense: state is there before rows
are shared, keys are handed over from where they are, and what fails or is cancelled is routed back in the same step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

import numpy as np

from reshape.control.commands import Command
from reshape.control.events import (
    BacklogMoved,
    Drained,
    Event,
    InputEnded,
    MetricsCollected,
    StateTransferred,
    TransferFailed,
)
from reshape.control.outbox import Outbox
from reshape.control.profile import OperatorProfile, Partitioning, StateKind
from reshape.control.routing import RoutingTable, Shares
from reshape.control.settings import StrategySettings
from reshape.control.story import Decision, DecisionKind
from reshape.control.strategies import STRATEGIES, Strategy
from reshape.kernels.hashing import mini_partitions

BUCKETS_PER_WORKER = 16
# A port's brain stops after so many actions, and after a few more when the input has ended: a flow has to end.
MOST_ACTIONS = 30
LAST_ACTIONS = 6


@dataclass(slots=True)
class Doings:
    """What brains did, and what became of it."""

    seed: int = 0
    runs: int = 0
    eagerness: float = 0.6  # the chance to act at an event
    started: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    rows_moved: int = 0

    def add(self, other: Doings) -> None:
        """One more run."""
        self.runs += 1
        self.started += other.started
        self.done += other.done
        self.failed += other.failed
        self.reasons += other.reasons
        self.rows_moved += other.rows_moved


@contextmanager
def chaos(doings: Doings) -> Iterator[Doings]:
    """While this is open there is a strategy "chaos"; what its brains do is noted."""
    STRATEGIES["chaos"] = Strategy(
        lambda profile, _: ChaosBrain(profile, doings), StrategySettings, keys=True, buckets=True
    )
    try:
        yield doings
    finally:
        del STRATEGIES["chaos"]


@dataclass(frozen=True, slots=True)
class Scope:
    """A key or a mini-partition."""

    number: int
    is_bucket: bool
    owner: int


@dataclass(slots=True)
class Moving:
    """A hand-over under way, or one whose answer may still be lost: cancelling it returns its scopes to ``source``."""

    id: int
    source: int
    target: int
    scopes: frozenset[Scope]


class ChaosBrain:
    def __init__(self, profile: OperatorProfile, doings: Doings) -> None:
        self._profile = profile
        self._doings = doings
        self._rng = Random(f"{doings.seed} {profile.name}")
        self._out = Outbox()
        self._immutable = profile.state is StateKind.IMMUTABLE
        self._at: dict[Scope, int] = {}  # where scopes are that have ever been seen
        self._moves: dict[int, Moving] = {}  # hand-overs that were not answered
        self._answered: dict[int, Moving] = {}
        self._latest: dict[Scope, int] = {}  # the newest hand-over of a scope
        self._replicas: set[tuple[int, int]] = set()  # owner, helper
        self._replicating: dict[int, int] = {}  # transfer -> owner
        self._shared: set[int] = set()  # owners with shares
        self._backlogs: set[int] = set()
        self._actions = 0
        self._ended = False
        self._touched: set[Scope] = set()  # in the step at hand

    @property
    def table(self) -> RoutingTable:
        return self._out.routing.current

    @property
    def decisions(self) -> list[Decision]:
        return self._out.story.decisions

    def story(self, worker: int) -> list[str]:
        return self._out.story.of(worker)

    def handle(self, event: Event) -> list[Command]:
        self._out.begin(event)
        self._touched = set()
        self._book(event)
        if not isinstance(event, Drained) and self._profile.workers > 1:
            while self._actions < MOST_ACTIONS and self._rng.random() < self._doings.eagerness:
                self._act()
        self._out.publish()
        return self._out.finish()

    # What has happened

    def _book(self, event: Event) -> None:
        match event:
            case MetricsCollected():
                self._see(event)
            case StateTransferred():
                if event.transfer in self._replicating:
                    self._replicas.add((self._replicating[event.transfer], event.helper))
                    self._doings.done["replicate"] += 1
                moving = self._moves.pop(event.transfer, None)
                if moving is not None:
                    self._answered[event.transfer] = moving
                    self._doings.done["hand over"] += 1
            case TransferFailed():
                self._doings.reasons.append(event.reason)
                if event.transfer in self._moves:
                    self._doings.failed["hand over"] += 1
                    self._undo(self._built_upon(self._moves[event.transfer]), event.reason)
                elif event.transfer in self._replicating:
                    self._doings.failed["replicate"] += 1
                elif event.transfer in self._backlogs:
                    self._doings.failed["backlog"] += 1
            case BacklogMoved():
                self._doings.done["backlog"] += 1
                self._doings.rows_moved += event.rows
            case InputEnded():
                self._ended = True
                self._actions = max(self._actions, MOST_ACTIONS - LAST_ACTIONS)

    def _see(self, event: MetricsCollected) -> None:
        ranges = self._profile.partitioning is Partitioning.RANGE  # mini-partitions are by hash
        for owner, keys in event.keys.items():
            for key in list(keys)[:8]:
                assert isinstance(key, int)
                if ranges or self._by_key(self._bucket_of(key)):
                    self._at.setdefault(Scope(key, False, owner), owner)
        for number in () if ranges else event.buckets:
            if not self._by_key(number):
                self._at.setdefault(Scope(number, True, number % self._profile.workers), number % self._profile.workers)

    def _by_key(self, bucket: int) -> bool:
        """A part of the mini-partitions moves as a whole, the others key by key: a rule for a key beats both."""
        return (bucket // self._profile.workers + self._doings.seed) % 3 != 0

    def _bucket_of(self, key: int) -> int:
        hashes = np.array([key], dtype=np.uint64)
        return int(mini_partitions(hashes, self._profile.workers, BUCKETS_PER_WORKER)[0])

    # What to do

    def _act(self) -> None:
        self._actions += 1
        actions = [self._move, self._move, self._return, self._cancel]
        if not self._profile.order_matters:
            actions += [self._share, self._unshare, self._backlog, self._backlog]
            if self._immutable:
                actions += [self._replicate, self._share]
        self._rng.choice(actions)()

    def _others(self, worker: int, most: int) -> tuple[int, ...]:
        others = [other for other in range(self._profile.workers) if other != worker]
        return tuple(self._rng.sample(others, self._rng.randint(1, min(most, len(others)))))

    def _note(self, what: str, worker: int, helpers: tuple[int, ...]) -> None:
        self._doings.started[what] += 1
        self._out.record(DecisionKind.STARTED, worker, helpers, what)

    def _share(self) -> None:
        """Split an owner's records among it and helpers."""
        owner = self._rng.randrange(self._profile.workers)
        helpers = self._others(owner, 3)
        if self._immutable:
            helpers = tuple(helper for helper in helpers if (owner, helper) in self._replicas)
            if not helpers:
                return
        weights = [self._rng.randint(1, 9) for _ in helpers]
        whole = sum(weights) + self._rng.choice((0, 0, 1, 5, 20))  # sometimes the owner gets nothing
        shares = {helper: Fraction(weight, whole) for helper, weight in zip(helpers, weights, strict=True)}
        if self._out.routing.set_owner(owner, Shares.of(owner, shares)):
            self._shared.add(owner)
            self._note("share" if len(helpers) == 1 else "share with several", owner, helpers)

    def _unshare(self) -> None:
        if self._shared:
            owner = self._rng.choice(sorted(self._shared))
            self._shared.discard(owner)
            self._out.routing.set_owner(owner, None)
            self._note("unshare", owner, ())

    def _replicate(self) -> None:
        owner = self._rng.randrange(self._profile.workers)
        helpers = self._others(owner, 3)
        self._replicating[self._out.replicate(owner, helpers, None)] = owner
        self._note("replicate", owner, helpers)

    def _move(self) -> None:
        """Keys or mini-partitions go on from where they are, some of them while they are still on their way there."""
        scopes = [scope for scope in self._at if scope not in self._touched]
        if not scopes:
            return
        like = self._rng.choice(scopes)
        at = self._at[like]
        group = [s for s in scopes if (s.owner, s.is_bucket, self._at[s]) == (like.owner, like.is_bucket, at)]
        chosen = frozenset(self._rng.sample(group, self._rng.randint(1, min(5, len(group)))))
        [target] = self._others(at, 1)
        # A worker that got immutable state from its owner has it to use, not to pass on.
        if self._immutable and at != like.owner != target and (like.owner, target) not in self._replicas:
            target = like.owner
        self._hand_over(at, target, chosen)

    def _return(self) -> None:
        away = [s for s, at in self._at.items() if at != s.owner and s not in self._touched]
        if away:
            like = self._rng.choice(away)
            at = self._at[like]
            some = [s for s in away if (s.owner, s.is_bucket, self._at[s]) == (like.owner, like.is_bucket, at)]
            self._hand_over(at, like.owner, frozenset(some))

    def _hand_over(self, source: int, target: int, scopes: frozenset[Scope]) -> None:
        on_its_way = any(self._latest.get(scope, 0) in self._moves for scope in scopes)
        keys = frozenset(scope.number for scope in scopes if not scope.is_bucket)
        buckets = frozenset(scope.number for scope in scopes if scope.is_bucket)
        transfer = self._out.hand_over(source, target, keys, buckets)
        self._moves[transfer] = Moving(transfer, source, target, scopes)
        self._place(scopes, target)
        for scope in scopes:
            self._latest[scope] = transfer
        back = all(scope.owner == target for scope in scopes)
        what = f"{'return' if back else 'move'} {'mini-partitions' if buckets else 'keys'}"
        self._note(what, source, (target,))
        if on_its_way:
            self._doings.started["move on"] += 1

    def _place(self, scopes: frozenset[Scope], worker: int) -> None:
        self._touched |= scopes
        for scope in scopes:
            self._at[scope] = worker
            rule = None if scope.owner == worker else Shares.whole(worker)
            if scope.is_bucket:
                self._out.routing.set_bucket(scope.number, rule)
            else:
                self._out.routing.set_keys((scope.number,), rule)

    def _cancel(self) -> None:
        chains = [self._built_upon(move) for move in self._moves.values()]
        chains = [chain for chain in chains if not any(move.scopes & self._touched for move in chain)]
        if not chains:
            return
        chain = self._rng.choice(chains)
        if len(chain) == 2 and self._is_reverse(*chain) and self._rng.random() < 0.5:
            # Its keys are on their way back already, as when a brain gives up a late hand-over that it wanted back.
            self._moves.pop(chain[0].id, None)
            self._out.cancel(chain[0].id, "chaos")
            self._note("cancel what returns", chain[0].source, (chain[0].target,))
            return
        self._undo(chain, "chaos")

    def _is_reverse(self, first: Moving, second: Moving) -> bool:
        """Does the second undo the first, with nothing open before them that could be cancelled later?"""
        older = any(m.id < first.id and m.scopes & first.scopes for m in self._moves.values())
        same = first.scopes == second.scopes and (first.source, first.target) == (second.target, second.source)
        return same and not older

    def _built_upon(self, moving: Moving) -> list[Moving]:
        """A hand-over and all later ones that started from where it, or one of them, brought keys to."""
        chain, scopes = [moving], moving.scopes
        known = {**self._moves, **self._answered}
        for number in sorted(known):
            if number > moving.id and known[number].scopes & scopes:
                chain.append(known[number])
                scopes |= known[number].scopes
        return chain

    def _undo(self, chain: list[Moving], reason: str) -> None:
        """Cancel hand-overs, the newest first; their keys are where they were before the first one."""
        for moving in reversed(chain):
            self._moves.pop(moving.id, None)
            self._answered.pop(moving.id, None)
            self._place(moving.scopes, moving.source)
            self._out.cancel(moving.id, reason)
            self._note("cancel", moving.source, (moving.target,))
        if len(chain) > 1:
            self._doings.started["cancel a chain"] += 1

    def _backlog(self) -> None:
        """Rows that wait go to a worker that has the state for them."""
        owner = self._rng.randrange(self._profile.workers)
        source = owner if self._rng.random() < 0.7 else self._others(owner, 1)[0]
        target = self._rng.choice([owner, *self._others(source, 3)])
        if target == source or (self._immutable and target != owner and (owner, target) not in self._replicas):
            return
        self._backlogs.add(self._out.move_backlog(source, target, owner, self._rng.choice((1, 10, 100, 1_000))))
        self._note("backlog", source, (target,))
