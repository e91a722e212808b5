"""Reshape's brain: detects skew, pairs workers, and drives each mitigation until its reason is gone."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from reshape.control.commands import Command
from reshape.control.events import (
    BacklogMoved,
    Drained,
    Event,
    InputEnded,
    MetricsCollected,
    RoutingApplied,
    StateTransferred,
    TransferFailed,
    Watermark,
)
from reshape.control.outbox import Outbox, names, rows
from reshape.control.profile import OperatorProfile, Split, StateKind
from reshape.control.reshaping.choice import HelperChoice
from reshape.control.reshaping.helpers import excess_shares, rank_candidates
from reshape.control.reshaping.keysplit import SplitByKeys
from reshape.control.reshaping.loans import Loans
from reshape.control.reshaping.mitigation import Mitigation, Phase, Transfer, TransferKind
from reshape.control.reshaping.patience import Patience
from reshape.control.reshaping.records import SplitByRecords
from reshape.control.reshaping.threshold import Forecast, Thresholds, start_earlier
from reshape.control.reshaping.under_way import TransfersUnderWay
from reshape.control.routing import RoutingTable
from reshape.control.sensing.migration import worth_migrating
from reshape.control.sensing.observation import Observation
from reshape.control.sensing.reduction import PeriodicReduction
from reshape.control.settings import FirstPhase, History, StrategySettings
from reshape.control.story import Decision, Kind

# A step stays short however many workers are skewed at once: after changing something for so many workers it leaves the
# rest to the next report.
MOST_CHANGES_PER_STEP = 256
# Routers deal out shared rows helper by helper, so their number per skewed worker is limited.
MOST_HELPERS = 64
# A pair is dissolved when both have had next to nothing to do for so many reports.
CALM_REPORTS = 10
INPUT_ENDED = "the input has ended and nothing is left to redirect"


class Controller:
    """Events in, commands out; ``handle`` is the only method that changes anything."""

    def __init__(self, profile: OperatorProfile, settings: StrategySettings) -> None:
        self._profile = profile
        self._settings = settings
        self._backlog = settings.backlog and not profile.order_matters
        self._out = Outbox()
        by_key = profile.split is Split.BY_KEYS or settings.first_phase is FirstPhase.PART
        self._seen = Observation(profile, settings, count_keys=by_key)
        self._transfers = TransfersUnderWay(self._out, self._seen, settings)
        tactic = SplitByKeys if profile.split is Split.BY_KEYS else SplitByRecords
        self._tactic: SplitByKeys | SplitByRecords = tactic(profile, settings, self._seen, self._out, self._transfers)
        self._mitigations: dict[int, Mitigation] = {}
        self._busy_with: dict[int, int] = {}  # worker -> skewed worker of its group
        self._thresholds = Thresholds(self._seen, settings)
        self._scattered: dict[int, set[int]] = {}
        self._loans = Loans()
        self._choice = HelperChoice(profile, settings, self._seen, self._transfers)
        self._patience = Patience(self._seen, settings.transfer_timeout_s)
        self._changes_left = 0
        self._unapplied: dict[int, float] = {}  # version -> when it was sent
        self._send_again_at = inf
        self._applied_version = 0
        self._drained = False
        self._reduction = (
            PeriodicReduction(settings.reduction_period_s) if settings.reduction_period_s is not None else None
        )

    @property
    def table(self) -> RoutingTable:
        return self._out.routing.current

    @property
    def decisions(self) -> list[Decision]:
        return self._out.story.decisions

    @property
    def pairs(self) -> dict[int, tuple[int, ...]]:
        """Skewed workers and their helpers at this moment."""
        return {m.skewed: m.helpers for m in self._mitigations.values()}

    @property
    def reduction(self) -> PeriodicReduction | None:
        """Load reduction per period, when a period is set (§6.3)."""
        return self._reduction

    def tau(self, worker: int) -> float:
        """The threshold that holds for a worker now."""
        return self._thresholds.tau(worker)

    def story(self, worker: int) -> list[str]:
        return self._out.story.of(worker)

    def history(self) -> dict[int, History]:
        """Load per owner, to seed a later run of the same flow with."""
        return self._seen.estimator.history(self._profile.workers)

    def handle(self, event: Event) -> list[Command]:
        self._out.begin(event)
        match event:
            case MetricsCollected():
                self._on_report(event)
            case StateTransferred():
                self._on_state(event)
            case TransferFailed():
                self._on_failure(event)
            case BacklogMoved():
                self._on_backlog(event)
            case RoutingApplied():
                self._on_applied(event)
            case Watermark():
                self._merge(final=False)
            case InputEnded():
                self._on_input_ended()
            case Drained():
                self._on_drained()
        self._publish()
        return self._out.finish()

    # -- reports -------------------------------------------------------------------------------------------------

    def _on_report(self, event: MetricsCollected) -> None:
        if self._drained or not self._seen.take(event):
            return
        if self._reduction is not None:
            groups = [(m.skewed, m.helpers) for m in self._mitigations.values()]
            self._reduction.observe(event.time, event.routed, event.received, groups)
        self._expire()
        if event.time < self._settings.warmup_s:
            return
        self._changes_left = MOST_CHANGES_PER_STEP
        for m in list(self._mitigations.values()):
            if self._changes_left <= 0:
                break
            if m.phase is not Phase.MIGRATING and m.settled(self._applied_version):
                self._advance(m)
                if not m.settled(self._applied_version):
                    self._changed(m)
        self._changes_left = MOST_CHANGES_PER_STEP
        if not self._seen.input_ended or self._backlog:
            self._detect()

    def _changed(self, m: Mitigation) -> None:
        """Count a change, and let the other mitigations come first next time."""
        self._changes_left -= len(m.group)
        if m.skewed in self._mitigations:
            self._mitigations[m.skewed] = self._mitigations.pop(m.skewed)

    def _advance(self, m: Mitigation) -> None:
        if self._seen.input_ended:
            self._end(m, INPUT_ENDED)
            return
        if self._is_calm(m):
            self._end(m, "it and its helpers have had next to nothing to do for a while")
            return
        reason = self._tactic.advance(m, self._thresholds.of(m.skewed))
        if reason is not None:
            self._end(m, reason)

    def _is_calm(self, m: Mitigation) -> bool:
        """Idle, and able to take its own load all that time: the reason for the pair is gone. A source that pauses
        for a report or two will go on."""
        seen = self._seen
        idle = all(seen.workloads[worker] < seen.eta for worker in m.group)
        m.calm_reports = m.calm_reports + 1 if idle else 0
        if m.calm_reports <= 1:
            m.calm_from = (seen.time, seen.routed_total)
        if m.calm_reports < CALM_REPORTS:
            return False
        since, routed = m.calm_from
        return (seen.routed_total - routed) * seen.fraction(m.skewed) <= seen.speed * (seen.time - since)

    # -- detection -----------------------------------------------------------------------------------------------

    def _detect(self) -> None:
        """The skew test (§2.1): the most loaded free workers against the least loaded ones."""
        seen = self._seen
        eta, loads = seen.eta, seen.workloads
        free = [w for w in range(seen.workers) if w not in self._busy_with]
        skewed = [w for w in free if loads[w] >= eta and self._patience.is_over(w)]
        skewed.sort(key=loads.__getitem__, reverse=True)
        fixed = self._settings.fixed_helpers
        if fixed is not None:
            for worker in skewed:
                self._consider(worker, [h for h in fixed.get(worker, ()) if h not in self._busy_with], len(free))
            return
        if not skewed:
            return
        expected = self._seen.estimator.model.means() if self._settings.helpers is None else None
        candidates = rank_candidates(loads, free, seen.idle, expected)
        excess = excess_shares(loads, skewed)
        first = 0
        for worker in skewed:
            if self._changes_left <= 0:
                return
            most = min(MOST_HELPERS, max(1, round(len(candidates) * excess[worker])))
            while first < len(candidates) and candidates[first] in self._busy_with:
                first += 1
            offered = [h for h in candidates[first : first + 2 * most] if h not in self._busy_with and h != worker]
            self._consider(worker, offered, most)

    def _consider(self, worker: int, candidates: Sequence[int], most: int) -> None:
        seen = self._seen
        if not candidates or worker in self._busy_with:
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
        owner = self._whose(worker)
        needs_state = self._profile.state is StateKind.IMMUTABLE and not self._transfers.has_replica(owner, best, None)
        # tau' is in rows; other metrics have no rate at which they grow with the input.
        earlier = needs_state and self._settings.metric == "rows"
        migration_s = self._transfers.expected_s(owner, 1) if earlier else 0.0
        test_at = start_earlier(
            threshold.tau, predicted_gap / self._settings.horizon_rows, seen.input_rate, migration_s
        )
        tau = threshold.tau
        found = threshold.look(
            gap, Forecast(error, predicted_gap, predicted_gap, own.windows), min(tau, max(test_at, 1.0))
        )
        if not found.start:
            return
        least = tau if gap >= tau else gap / 2
        suitable = [h for h in candidates if loads[worker] - loads[h] >= least]
        helpers = self._choice.choose(worker, suitable, most)
        cost = self._transfers.expected_s(owner, len(helpers)) if needs_state else 0.0
        backlog_s = seen.backlog_left_s(worker) if self._backlog else 0.0
        if not worth_migrating(cost, seen.input_left_s, backlog_s):
            text = (
                f"worker {worker} is left alone: its state would take {cost:.1f} s to migrate, and there is "
                f"something to redirect for {max(seen.input_left_s, backlog_s):.1f} s only"
            )
            self._out.tell(Kind.REFUSED, worker, helpers, text, "too late to migrate")
            self._patience.failed(worker)
            return
        lender = owner if owner != worker else None
        self._start(Mitigation(worker, helpers, seen.time, lender=lender), gap, tau, found.change.value, cost)

    def _whose(self, worker: int) -> int:
        """Whose rows are to move away from a worker; while there is input, its own."""
        lends = self._seen.input_ended and self._profile.split is Split.BY_RECORDS
        return self._loans.whose(worker) if lends else worker

    def _start(self, m: Mitigation, gap: float, tau: float, change: str, cost: float) -> None:
        loads, worker, helpers = self._seen.workloads, m.skewed, m.helpers
        if self._tactic.refuses(m):
            self._patience.failed(worker)
            return
        self._mitigations[worker] = m
        self._changes_left -= len(m.group)
        for member in m.group:
            self._busy_with[member] = worker
        self._loans.lend(m.owner, helpers)
        waiting = ", ".join(f"{rows(loads[h])} at worker {h}" for h in helpers)
        state = f"; its state takes about {cost:.2f} s to migrate" if cost > 0 else ""
        self._out.tell(
            Kind.STARTED,
            worker,
            helpers,
            f"worker {worker} is skewed: {rows(loads[worker])} rows wait for it, {waiting}; the difference of "
            f"{rows(gap)} starts a mitigation (tau {rows(tau)}, {change}){state}",
        )
        reason = self._tactic.start(m)
        if reason is not None:
            self._end(m, reason)
            self._patience.failed(worker)

    # -- answers -------------------------------------------------------------------------------------------------

    def _on_state(self, event: StateTransferred) -> None:
        transfer = self._transfers.arrived(event)
        if transfer is not None:
            self._patience.worked(transfer.skewed)
            self._if_answered(transfer)

    def _on_failure(self, event: TransferFailed) -> None:
        transfer = self._transfers.failed(event)
        if transfer is not None:
            self._lost(transfer, (event.helper,), event.reason)

    def _on_backlog(self, event: BacklogMoved) -> None:
        transfer = self._transfers.moved(event)
        if transfer is None:
            return
        m = self._mitigations[transfer.skewed]
        self._transfers.close(m, transfer)
        self._tactic.backlog_moved(m, event.rows)
        if event.rows < transfer.rows and m.phase is Phase.HANDING_OVER:
            self._loans.ran_dry(m.skewed, m.owner)
        if event.rows == 0 and self._whose(m.skewed) in (m.skewed, m.owner):
            self._patience.failed(m.skewed)
        if self._profile.state is StateKind.MUTABLE:
            self._scatter(m)
        if m.phase is Phase.HANDING_OVER and not m.transfers:
            self._end(m, "its queued rows have been handed over")

    def _on_applied(self, event: RoutingApplied) -> None:
        sent = self._unapplied.get(event.version)
        if sent is None:
            return
        self._tactic.control_lag_s = max(0.0, event.time - sent)
        self._applied_version = max(self._applied_version, event.version)
        self._unapplied = {version: at for version, at in self._unapplied.items() if version > event.version}

    def _lost(self, transfer: Transfer, helpers: Sequence[int], why: str) -> None:
        """Helpers that did not get what was sent to them take no part; routing stays as it was."""
        m = self._mitigations[transfer.skewed]
        self._out.tell(
            Kind.FAILED,
            m.skewed,
            m.helpers,
            f"{transfer.kind.value} from worker {m.skewed} to {names(helpers)} failed ({why}); routing stays as "
            f"it was before",
        )
        self._patience.failed(m.skewed)
        if transfer.kind is not TransferKind.BACKLOG:
            for helper in self._tactic.lost(m, transfer, helpers):
                self._busy_with.pop(helper, None)
        self._if_answered(transfer)

    def _if_answered(self, transfer: Transfer) -> None:
        """Go on when every helper has answered, one way or the other."""
        if transfer.waiting:
            return
        m = self._mitigations[transfer.skewed]
        self._transfers.close(m, transfer)
        if not m.helpers:
            self._end(m, "no helper could be reached")
        elif transfer.kind is TransferKind.BACKLOG:
            if m.phase is Phase.HANDING_OVER and not m.transfers:
                self._end(m, "its queued rows could not be handed over")
        elif m.phase is Phase.ENDING and transfer.answered:
            self._remove(m, "its keys have been returned")
        elif transfer.kind is TransferKind.HAND_OVER and not transfer.answered and not m.part:
            self._end(m, "its keys could not be handed over")
        else:
            reason = self._tactic.state_ready(m)
            if reason is not None:
                self._end(m, reason)

    def _expire(self) -> None:
        """No waiting for ever: late transfers count as failed."""
        for transfer in self._transfers.late():
            waited = self._out.time - transfer.started
            late = tuple(sorted(transfer.waiting))
            if transfer.kind is not TransferKind.HAND_OVER:
                self._out.cancel(transfer.id, f"no answer after {waited:.1f} s")
            transfer.waiting.clear()
            self._lost(transfer, late, f"no answer after {waited:.1f} s")

    # -- endings -------------------------------------------------------------------------------------------------

    def _end(self, m: Mitigation, reason: str) -> None:
        """Dissolve a group: its rules go, its workers are free for others.

        Where mutable state has to be returned first, the group lives on until that is done.
        """
        self._transfers.abandon(m, reason)
        if m.helpers and not self._seen.input_ended and not self._tactic.withdraw(m):
            m.phase = Phase.ENDING
            return
        self._remove(m, reason)

    def _remove(self, m: Mitigation, reason: str) -> None:
        del self._mitigations[m.skewed]
        for member in m.group:
            del self._busy_with[member]
        self._out.tell(
            Kind.ENDED,
            m.skewed,
            m.helpers,
            f"the mitigation of worker {m.skewed} ends after {self._out.time - m.since:.1f} s: {reason}",
        )

    def _on_input_ended(self) -> None:
        self._seen.input_ended = True
        self._unapplied.clear()
        self._applied_version = self.table.version
        for m in list(self._mitigations.values()):
            if not (self._backlog and m.transfers):
                self._end(m, INPUT_ENDED)

    def _on_drained(self) -> None:
        self._seen.input_ended = self._drained = True
        for m in list(self._mitigations.values()):
            self._end(m, "every row has been processed")
        self._merge(final=True)

    def _merge(self, *, final: bool) -> None:
        """Scattered state is merged before it is output: at the end, or at a watermark (§5.4, §6.3)."""
        for owner, helpers in sorted(self._scattered.items()):
            self._out.merge(owner, helpers, final=final)
        # A helper that was asked once may still have rows queued, and gets more until all routers know better: it is
        # asked again each time.
        if final:
            self._scattered.clear()

    def _note_scattered(self) -> None:
        """Under split by records mutable state scatters to every worker that a rule sends rows to."""
        if self._profile.state is StateKind.MUTABLE and self._profile.split is Split.BY_RECORDS:
            for m in self._mitigations.values():
                if m.phase is not Phase.MIGRATING:
                    self._scatter(m)

    def _scatter(self, m: Mitigation) -> None:
        self._scattered.setdefault(m.owner, set()).update(set(m.helpers) - {m.owner})

    def _publish(self) -> None:
        """Send a new table, or once more the one that not all routers have acknowledged in time: never both."""
        if self._seen.input_ended:
            self._note_scattered()  # queued rows may move without any rule
            return
        table = self._out.publish()
        if table is not None:
            self._unapplied[table.version] = self._out.time
            self._send_again_at = self._out.time + self._settings.routing_timeout_s
            self._note_scattered()
        elif self._unapplied and self._out.time >= self._send_again_at:
            self._send_again_at = self._out.time + self._settings.routing_timeout_s
            self._out.send_again(self.table)

    def check(self) -> None:
        """Raise AssertionError if the brain's own books do not agree; tests call this after every step."""
        skewed = set(self._mitigations)
        helpers = [h for m in self._mitigations.values() for h in m.helpers]
        assert len(set(helpers)) == len(helpers), f"a helper serves two skewed workers: {helpers}"
        assert not skewed & set(helpers), f"skewed workers and helpers overlap: {skewed & set(helpers)}"
        assert set(self._busy_with) == skewed | set(helpers), "roles and mitigations disagree"
        if not self._seen.input_ended:
            assert set(self.table.owners) <= skewed, "a rule without a mitigation"
            if self._profile.order_matters:
                keepers = {worker for shares in self.table.keys.values() for worker in shares.workers}
                assert keepers <= set(helpers), f"keys were given to {keepers - set(helpers)}, who help nobody"
        assert self._applied_version <= self.table.version
