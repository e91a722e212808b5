"""What Flow-Join and Flux have in common as the paper adapts them (§7.1): pairs by queue size after a fixed time."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from reshape.control.commands import Command
from reshape.control.events import (
    Event,
    InputEnded,
    MetricsCollected,
    StateTransferred,
    TransferFailed,
)
from reshape.control.outbox import OutboxBrain
from reshape.control.profile import OperatorProfile, StateKind
from reshape.control.reshaping.helpers import rank_candidates, skew_test
from reshape.control.routing import Shares
from reshape.control.sensing.observation import Observation
from reshape.control.settings import StrategySettings
from reshape.control.story import DecisionKind


@dataclass(frozen=True, slots=True)
class Move:
    """Rules that wait for a helper to have the state behind them."""

    skewed: int
    helper: int
    keys: tuple[tuple[object, Shares], ...] = ()
    buckets: tuple[tuple[int, Shares], ...] = ()


class PairingBrain(OutboxBrain):
    """Pairs skewed workers with helpers and applies the moves that a subclass plans."""

    def __init__(self, profile: OperatorProfile, settings: StrategySettings) -> None:
        super().__init__()
        self._profile = profile
        self._settings = settings
        self._seen = Observation(profile, settings, count_keys=True, count_buckets=True)
        self._helper_of: dict[int, int] = {}
        self._moves: dict[int, Move] = {}
        self._handed: dict[int, Move] = {}  # hand-overs of mutable state, by transfer

    def handle(self, event: Event) -> list[Command]:
        self._out.begin(event)
        match event:
            case MetricsCollected():
                if self._seen.take(event) and event.time >= self._settings.warmup_s and not self._seen.input_ended:
                    self._decide()
            case StateTransferred():
                self._handed.pop(event.transfer, None)
                move = self._moves.pop(event.transfer, None)
                if move is not None and move.helper == event.helper:
                    self._apply(move)
            case TransferFailed():
                lost = self._moves.pop(event.transfer, None)
                handed = self._handed.pop(event.transfer, None)
                if lost is not None:
                    self._lost(lost, event.reason)
                elif handed is not None:
                    self._return(event.transfer, handed, event.reason)
            case InputEnded():
                self._seen.input_ended = True
        self._out.publish()
        return self._out.finish()

    def _return(self, transfer: int, move: Move, reason: str) -> None:
        """State that did not leave: its rows go to where it is again."""
        self._lost(move, reason)
        for bucket, _ in move.buckets:
            self._out.routing.set_bucket(bucket, None)
        self._out.cancel(transfer, reason)

    def _lost(self, move: Move, reason: str) -> None:
        text = f"state did not reach worker {move.helper} ({reason}); routing stays as it was"
        self._out.record(DecisionKind.FAILED, move.skewed, (move.helper,), text)

    @abstractmethod
    def _decide(self) -> None:
        """Look at the newest report after the detection period."""

    def _pair(self) -> list[tuple[int, int]]:
        """New pairs: the most loaded worker first, each with the least loaded worker that nobody has yet (§2.1)."""
        seen, loads = self._seen, self._seen.workloads
        taken = set(self._helper_of) | set(self._helper_of.values())
        free = [w for w in range(self._profile.workers) if w not in taken]
        pairs = []
        for worker in sorted(free, key=lambda w: (-loads[w], w)):
            if worker in taken:
                continue
            fixed = self._settings.fixed_helpers
            allowed = free if fixed is None else list(fixed.get(worker, ()))
            candidates = [w for w in allowed if w not in taken and w != worker]
            best = rank_candidates(loads, candidates, seen.idle)[:1] if candidates else []
            if not best or not skew_test(loads[worker], loads[best[0]], seen.eta, seen.first_tau):
                if fixed is None:
                    break
                continue
            self._helper_of[worker] = best[0]
            taken.update((worker, best[0]))
            pairs.append((worker, best[0]))
        return pairs

    def _send(self, move: Move) -> None:
        """Apply a move: after its state if that is immutable, with it if whole scopes move; else state scatters."""
        if self._profile.state is StateKind.IMMUTABLE:
            keys = frozenset(key for key, _ in move.keys) if move.keys else None
            self._moves[self._out.replicate(move.skewed, (move.helper,), keys)] = move
            return
        if move.buckets:
            buckets = frozenset(bucket for bucket, _ in move.buckets)
            self._handed[self._out.hand_over(move.skewed, move.helper, frozenset(), buckets)] = move
        self._apply(move)

    def _apply(self, move: Move) -> None:
        if self._seen.input_ended:
            return
        for key, shares in move.keys:
            self._out.routing.set_keys((key,), shares)
        for bucket, shares in move.buckets:
            self._out.routing.set_bucket(bucket, shares)
