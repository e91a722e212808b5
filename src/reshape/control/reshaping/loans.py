"""Rows that wait at workers that are not their owners: they move on when a helper has more of them than others do."""

from __future__ import annotations

from collections.abc import Iterable

from reshape.control.profile import OperatorProfile, Split
from reshape.control.sensing.observation import Observation


class Loans:
    """Which owners' rows may wait at each worker, and which of these queues are known to be dry."""

    def __init__(self, profile: OperatorProfile, seen: Observation) -> None:
        self._any_row_moves = profile.split is Split.BY_RECORDS
        self._seen = seen
        self._lent: dict[int, set[int]] = {}  # worker -> owners
        self._dry: set[tuple[int, int]] = set()  # (worker, owner): none of the owner's rows are left there to move

    def lend(self, owner: int, helpers: Iterable[int]) -> None:
        for helper in helpers:
            self._lent.setdefault(helper, set()).add(owner)
            self._dry.discard((helper, owner))

    def ran_dry(self, worker: int, owner: int) -> None:
        self._dry.add((worker, owner))

    def whose(self, worker: int) -> int:
        """Whose rows are to move away from a worker: its own, and when those are gone the ones that it helps with.

        While there is input they are its own, for that is what routing can change.
        """
        if not (self._seen.input_ended and self._any_row_moves) or (worker, worker) not in self._dry:
            return worker
        left = (owner for owner in sorted(self._lent.get(worker, ())) if (worker, owner) not in self._dry)
        return next(left, worker)
