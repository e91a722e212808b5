"""A brain that knows no reason: random valid transfers at random moments, the same for the same events and seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from random import Random

from reshape.control.events import Drained, Event, InputEnded
from reshape.control.profile import OperatorProfile
from reshape.control.settings import StrategySettings
from reshape.control.strategies import STRATEGIES, Builder, Strategy

from .transfers import Doings, TransferBrain

# A port's brain stops after so many actions, and after a few more when the input has ended: a flow has to end.
MOST_ACTIONS = 30
LAST_ACTIONS = 6


@contextmanager
def strategy(name: str, build: Builder) -> Iterator[None]:
    """While this is open there is one more strategy, whose brains hear of keys and mini-partitions."""
    STRATEGIES[name] = Strategy(build, StrategySettings, keys=True, buckets=True)
    try:
        yield
    finally:
        del STRATEGIES[name]


@contextmanager
def chaos(doings: Doings) -> Iterator[Doings]:
    """While this is open there is a strategy "chaos"; what its brains do is noted."""
    with strategy("chaos", lambda profile, _: ChaosBrain(profile, doings)):
        yield doings


class ChaosBrain(TransferBrain):
    def __init__(self, profile: OperatorProfile, doings: Doings) -> None:
        super().__init__(profile, doings)
        self._rng = Random(f"{doings.seed} {profile.name}")
        self._actions = 0

    def step(self, event: Event) -> None:
        if isinstance(event, InputEnded):
            self._actions = max(self._actions, MOST_ACTIONS - LAST_ACTIONS)
        if not isinstance(event, Drained) and self.profile.workers > 1:
            while self._actions < MOST_ACTIONS and self._rng.random() < self.doings.eagerness:
                self._act()

    def _act(self) -> None:
        self._actions += 1
        actions = [self._move, self._move, self._return, self._cancel]
        if not self.profile.order_matters:
            actions += [self._share, self._unshare, self._backlog, self._backlog]
            if self.immutable:
                actions += [self._replicate, self._share]
        self._rng.choice(actions)()

    def _others(self, worker: int, most: int) -> tuple[int, ...]:
        others = [other for other in range(self.profile.workers) if other != worker]
        return tuple(self._rng.sample(others, self._rng.randint(1, min(most, len(others)))))

    def _share(self) -> None:
        owner = self._rng.randrange(self.profile.workers)
        helpers = [helper for helper in self._others(owner, 3) if self.may_help(owner, helper)]
        if not helpers:
            return
        weights = [self._rng.randint(1, 9) for _ in helpers]
        whole = sum(weights) + self._rng.choice((0, 0, 1, 5, 20))  # sometimes the owner gets nothing
        self.share(owner, {helper: Fraction(weight, whole) for helper, weight in zip(helpers, weights, strict=True)})

    def _unshare(self) -> None:
        if self.shared:
            self.unshare(self._rng.choice(sorted(self.shared)))

    def _replicate(self) -> None:
        owner = self._rng.randrange(self.profile.workers)
        self.replicate(owner, self._others(owner, 3))

    def _move(self) -> None:
        scopes = [scope for scope in self.at if scope not in self.touched]
        if not scopes:
            return
        like = self._rng.choice(scopes)
        at = self.at[like]
        group = [s for s in scopes if (s.owner, s.is_bucket, self.at[s]) == (like.owner, like.is_bucket, at)]
        chosen = self._rng.sample(group, self._rng.randint(1, min(5, len(group))))
        [target] = self._others(at, 1)
        # A worker that got immutable state from its owner has it to use, not to pass on.
        if at != like.owner and not self.may_help(like.owner, target):
            target = like.owner
        self.hand_over(at, target, chosen)

    def _return(self) -> None:
        away = [s for s, at in self.at.items() if at != s.owner and s not in self.touched]
        if away:
            like = self._rng.choice(away)
            at = self.at[like]
            alike = [s for s in away if (s.owner, s.is_bucket, self.at[s]) == (like.owner, like.is_bucket, at)]
            self.hand_over(at, like.owner, alike)

    def _cancel(self) -> None:
        chains = [self.built_upon(move) for move in self.moves.values()]
        chains = [chain for chain in chains if not any(move.scopes & self.touched for move in chain)]
        if not chains:
            return
        chain = self._rng.choice(chains)
        if len(chain) == 2 and self.is_reverse(*chain) and self._rng.random() < 0.5:
            self.cancel_what_returns(chain[0])
        else:
            self.undo(chain, "chaos")

    def _backlog(self) -> None:
        owner = self._rng.randrange(self.profile.workers)
        source = owner if self._rng.random() < 0.7 else self._others(owner, 1)[0]
        target = self._rng.choice([owner, *self._others(source, 3)])
        if target != source and self.may_help(owner, target):
            self.move_backlog(source, target, owner, self._rng.choice((1, 10, 100, 1_000)))
