"""Heavy scopes of each owner: which of its keys or mini-partitions carry how much of its load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reshape.control.routing import Key
from reshape.control.sensing.hitters import HeavyKeys

# Counts are halved so often (in reports), for a key that was heavy long ago must not be moved today.
FADE_EVERY = 16


class HeavyScopes:
    """A bounded summary per owner, fed by reports."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._reports = 0
        self._summaries: dict[int, HeavyKeys] = {}

    def begin_report(self) -> None:
        """Counts of another report follow."""
        self._reports += 1
        if self._reports % FADE_EVERY == 0:
            self.fade(self._summaries)

    def add(self, owner: int, counts: Mapping[Key, int]) -> None:
        summary = self._summaries.get(owner)
        if summary is None:
            summary = self._summaries[owner] = HeavyKeys(self._most)
        summary.add(counts)

    def fade(self, owners: Iterable[int]) -> None:
        for owner in owners:
            summary = self._summaries.get(owner)
            if summary is not None:
                summary.fade()

    def loads(self, owner: int, load: float) -> dict[Key, float]:
        """An owner's load divided among its heavy scopes, heaviest first."""
        summary = self._summaries.get(owner)
        return {} if summary is None else {scope: share * load for scope, share in summary.shares().items()}
