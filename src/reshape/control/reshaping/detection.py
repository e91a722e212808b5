"""Detection: which free workers are skewed (§2.1), who could help them, and whether that pays (§6.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reshape.control.outbox import Outbox
from reshape.control.profile import OperatorProfile, StateKind
from reshape.control.reshaping.choice import HelperChoice
from reshape.control.reshaping.groups import Groups
from reshape.control.reshaping.helpers import excess_shares, rank_candidates
from reshape.control.reshaping.loans import Loans
from reshape.control.reshaping.patience import Patience
from reshape.control.reshaping.threshold import Forecast, Thresholds, start_earlier
from reshape.control.reshaping.under_way import TransfersUnderWay
from reshape.control.sensing.migration import worth_migrating
from reshape.control.sensing.observation import Observation
from reshape.control.settings import StrategySettings
from reshape.control.story import DecisionKind

# Routers deal out shared rows helper by helper, so their number per skewed worker is limited.
MOST_HELPERS = 64


@dataclass(frozen=True, slots=True)
class Skew:
    """A worker that passed the skew test, the helpers chosen for it, and the numbers that decided.

    owner:  whose rows are to move
    change: what the test did to tau, in a word
    cost_s: seconds that the state is expected to take, 0 where none has to move
    """

    worker: int
    helpers: tuple[int, ...]
    owner: int
    gap: float
    tau: float
    change: str
    cost_s: float


class SkewDetection:
    def __init__(
        self,
        profile: OperatorProfile,
        settings: StrategySettings,
        seen: Observation,
        out: Outbox,
        transfers: TransfersUnderWay,
        groups: Groups,
        thresholds: Thresholds,
        patience: Patience,
        loans: Loans,
    ) -> None:
        self._settings = settings
        self._migrates = profile.state is StateKind.IMMUTABLE
        self._seen = seen
        self._out = out
        self._transfers = transfers
        self._groups = groups
        self._thresholds = thresholds
        self._patience = patience
        self._loans = loans
        self._choice = HelperChoice(profile, settings, seen, transfers)

    def skews(self) -> Iterator[Skew]:
        """The most loaded free workers against the least loaded ones.

        One at a time: whoever asks makes a group of it before asking for the next, so that no worker is taken twice.
        """
        seen, busy = self._seen, self._groups.busy
        eta, loads = seen.eta, seen.workloads
        free = [w for w in range(seen.workers) if w not in busy]
        skewed = [w for w in free if loads[w] >= eta and self._patience.is_over(w)]
        skewed.sort(key=loads.__getitem__, reverse=True)
        fixed = self._settings.fixed_helpers
        if fixed is not None:
            for worker in skewed:
                yield from self._consider(worker, [h for h in fixed.get(worker, ()) if h not in busy], len(free))
            return
        if not skewed:
            return
        expected = seen.estimator.model.means() if self._settings.helpers is None else None
        candidates = rank_candidates(loads, free, seen.idle, expected)
        excess = excess_shares(loads, skewed)
        first = 0
        for worker in skewed:
            most = min(MOST_HELPERS, max(1, round(len(candidates) * excess[worker])))
            while first < len(candidates) and candidates[first] in busy:
                first += 1
            offered = [h for h in candidates[first : first + 2 * most] if h not in busy and h != worker]
            yield from self._consider(worker, offered, most)

    def _consider(self, worker: int, candidates: Sequence[int], most: int) -> Iterator[Skew]:
        """The skew of one worker, if its difference to the candidates starts a mitigation now."""
        seen = self._seen
        if not candidates or worker in self._groups.busy:
            return
        loads = seen.workloads
        best = candidates[0]  # of the idle ones that with the least to come, whatever little waits for it
        gap = loads[worker] - min(loads[h] for h in candidates)
        if gap <= 0:
            return
        threshold = self._thresholds.of(worker)
        own, other = seen.predict(worker), seen.predict(best)
        predicted_gap = own.mean - other.mean
        error = max(own.standard_error, other.standard_error)
        owner = self._loans.whose(worker)
        needs_state = self._migrates and not self._transfers.has_replica(owner, best, None)
        # tau' is in rows; other metrics have no rate at which they grow with the input.
        earlier = needs_state and self._settings.metric == "rows"
        migration_s = self._transfers.expected_s(owner, 1) if earlier else 0.0
        test_at = start_earlier(
            threshold.tau, predicted_gap / self._settings.horizon_rows, seen.input_rate, migration_s
        )
        tau = threshold.tau
        test = threshold.look(
            gap, Forecast(error, predicted_gap, predicted_gap, own.windows), min(tau, max(test_at, 1.0))
        )
        if not test.start:
            return
        least = tau if gap >= tau else gap / 2
        helpers = self._choice.choose(worker, [h for h in candidates if loads[worker] - loads[h] >= least], most)
        cost_s = self._transfers.expected_s(owner, len(helpers)) if needs_state else 0.0
        if self._pays(worker, helpers, cost_s):
            yield Skew(worker, helpers, owner, gap, tau, test.change.value, cost_s)

    def _pays(self, worker: int, helpers: tuple[int, ...], cost_s: float) -> bool:
        """Is there something to redirect for longer than the state takes to move? Says so if not."""
        input_s = self._seen.input_left_s
        backlog_s = self._seen.backlog_left_s(worker) if self._settings.backlog else 0.0
        if worth_migrating(cost_s, input_s, backlog_s):
            return True
        text = (
            f"worker {worker} is left alone: its state would take {cost_s:.1f} s to migrate, and there is "
            f"something to redirect for {max(input_s, backlog_s):.1f} s only"
        )
        self._out.record(DecisionKind.REFUSED, worker, helpers, text, "too late to migrate")
        self._patience.failed(worker)
        return False
