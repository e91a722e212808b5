"""Keyed state as far as its size matters: which keys there are, and how many bytes some of them have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from reshape.control.commands import HandOverState
from reshape.control.routing import Key
from reshape.sim.router import SimulatedRouter


class KeyedState:
    def __init__(self, keys: Sequence[int], worker_bytes: int, router: SimulatedRouter) -> None:
        self._keys = keys
        self._worker_bytes = worker_bytes
        self._router = router
        self._keys_of = Counter(key % router.workers for key in keys)

    def moved_by(self, command: HandOverState) -> list[int]:
        """The keys that a hand-over moves, be they named or in one of its mini-partitions."""
        bucket_of = self._router.bucket_of
        return [key for key in self._keys if key in command.keys or bucket_of(key) in command.buckets]

    def size(self, worker: int, keys: frozenset[Key] | None) -> int:
        """Bytes of some keys of a worker: all of its keys are taken to be equally large."""
        if keys is None:
            return self._worker_bytes
        return self._worker_bytes * len(keys) // max(1, len(keys), self._keys_of[worker])
