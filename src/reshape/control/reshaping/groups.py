"""Groups of a skewed worker and its helpers: who is busy with whom, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterator

from reshape.control.reshaping.mitigation import Mitigation


class Groups:
    """The mitigations under way. A worker belongs to one group at most, as its skewed worker or as a helper."""

    def __init__(self) -> None:
        self._mitigations: dict[int, Mitigation] = {}  # by skewed worker, those that have waited longest first
        self.busy: dict[int, int] = {}  # worker -> skewed worker of its group; to be read only

    def __iter__(self) -> Iterator[Mitigation]:
        """All of them as they are now: groups may come and go meanwhile."""
        return iter(list(self._mitigations.values()))

    def of(self, skewed: int) -> Mitigation:
        return self._mitigations[skewed]

    @property
    def pairs(self) -> dict[int, tuple[int, ...]]:
        return {m.skewed: m.helpers for m in self._mitigations.values()}

    def add(self, m: Mitigation) -> None:
        self._mitigations[m.skewed] = m
        for member in m.group:
            self.busy[member] = m.skewed

    def remove(self, m: Mitigation) -> None:
        del self._mitigations[m.skewed]
        for member in m.group:
            del self.busy[member]

    def free(self, helper: int) -> None:
        """A helper that takes no part any more."""
        self.busy.pop(helper, None)

    def to_the_end(self, m: Mitigation) -> None:
        """Let all other groups come first next time."""
        if m.skewed in self._mitigations:
            self._mitigations[m.skewed] = self._mitigations.pop(m.skewed)

    def check(self) -> None:
        """Raise AssertionError if roles overlap or the two books disagree."""
        skewed = set(self._mitigations)
        helpers = self.helpers
        assert len(set(helpers)) == len(helpers), f"a helper serves two skewed workers: {helpers}"
        assert not skewed & set(helpers), f"skewed workers and helpers overlap: {skewed & set(helpers)}"
        assert set(self.busy) == skewed | set(helpers), "roles and mitigations disagree"

    @property
    def helpers(self) -> list[int]:
        return [helper for m in self._mitigations.values() for helper in m.helpers]
