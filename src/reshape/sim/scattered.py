"""Scattered parts of mutable state: what helpers have of keys that are not theirs, and the merge at the owner.

A body merges by itself, at a watermark and when the input is drained (§5.4, §6.3): that a result is whole must not rest
on what a brain remembers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reshape.control.profile import OperatorProfile, Split, StateKind
from reshape.sim.scenario import Network
from reshape.sim.worker import Worker


class ScatteredParts:
    """``merges`` counts an owner each time that it takes parts in; ``merged`` is rows per owner and helper."""

    def __init__(self, profile: OperatorProfile, workers: Sequence[Worker], network: Network) -> None:
        self._scatters = profile.state is StateKind.MUTABLE and profile.split is Split.BY_RECORDS
        self._combinable = profile.combinable
        self._workers = workers
        self._network = network
        self._behind_markers: set[int] = set()
        self._merged_of_key: dict[tuple[int, int], int] = {}  # (helper, key) -> rows
        self.merges = 0
        self.merged: dict[tuple[int, int], int] = {}

    def hand_over(self, keys: Iterable[int]) -> None:
        """All state of these keys has moved behind markers, so none of it is scattered."""
        self._behind_markers.update(keys)

    def unmerged(self) -> dict[int, dict[int, dict[int, int]]]:
        """Rows per owner, helper and key that the owner's state lacks."""
        parts: dict[int, dict[int, dict[int, int]]] = {}
        if not self._scatters:
            return parts
        count = len(self._workers)
        for helper, worker in enumerate(self._workers):
            for key, rows in worker.counts.items():
                left = rows - self._merged_of_key.get((helper, key), 0)
                if key % count != helper and left and key not in self._behind_markers:
                    parts.setdefault(key % count, {}).setdefault(helper, {})[key] = left
        return parts

    def merge(self) -> float:
        """Helpers send their parts to the owners; how long that takes for the owner with most."""
        seconds = 0.0
        for owner, parts in self.unmerged().items():
            self.merges += 1
            seconds = max(seconds, sum(self._travel_s(part) for part in parts.values()))
            for helper, part in parts.items():
                self.merged[owner, helper] = self.merged.get((owner, helper), 0) + sum(part.values())
                for key, rows in part.items():
                    self._merged_of_key[helper, key] = self._merged_of_key.get((helper, key), 0) + rows
        return seconds

    def _travel_s(self, part: dict[int, int]) -> float:
        """All rows of a part travel if they must be kept, else one value per key."""
        rows = len(part) if self._combinable else sum(part.values())
        return self._network.link_latency_s + rows * self._network.row_bytes / self._network.link_bytes_per_s
