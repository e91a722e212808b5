"""Which of the candidates help a skewed worker: one, as many as set, or as many as chi says (§6.2)."""

from __future__ import annotations

from collections.abc import Sequence

from reshape.control.profile import OperatorProfile, Split, StateKind
from reshape.control.reshaping.helpers import Outlook, choose_helpers
from reshape.control.reshaping.under_way import TransfersUnderWay
from reshape.control.sensing.observation import Observation
from reshape.control.settings import StrategySettings


class HelperChoice:
    def __init__(
        self,
        profile: OperatorProfile,
        settings: StrategySettings,
        seen: Observation,
        transfers: TransfersUnderWay,
    ) -> None:
        self._profile = profile
        self._settings = settings
        self._seen = seen
        self._transfers = transfers

    def choose(self, worker: int, candidates: Sequence[int], most: int) -> tuple[int, ...]:
        """Candidates are in order, the best first."""
        if self._profile.split is Split.BY_KEYS:
            return tuple(candidates[:1])
        if self._settings.fixed_helpers is not None:
            return tuple(candidates)
        if self._settings.helpers is not None:
            return tuple(candidates[: self._settings.helpers])
        fractions, outlook = self._outlook(worker, candidates)
        migrates = self._profile.state is StateKind.IMMUTABLE
        return choose_helpers(
            fractions[worker],
            [(w, fractions[w]) for w in candidates],
            lambda count: self._transfers.expected_s(worker, count) if migrates else 0.0,
            outlook,
            most,
        )

    def _outlook(self, worker: int, candidates: Sequence[int]) -> tuple[dict[int, float], Outlook]:
        """What each of them can expect to get, and what is left to redirect."""
        seen = self._seen
        if seen.input_ended:  # only what is queued counts now
            total = float(sum(seen.queued)) or 1.0
            outlook = Outlook(total, 0.0, seen.input_rate, float(seen.queued[worker]))
            return {w: seen.queued[w] / total for w in (worker, *candidates)}, outlook
        left = None if seen.remaining is None else float(seen.remaining)
        whole = None if left is None else seen.routed_total + left
        backlog = float(seen.queued[worker]) if self._settings.backlog else 0.0
        outlook = Outlook(whole, left, seen.input_rate, backlog)
        return {w: seen.fraction(w) for w in (worker, *candidates)}, outlook
