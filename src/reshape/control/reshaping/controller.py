"""Reshape's brain: detects skew, pairs workers, and drives each mitigation until its reason is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
)
from reshape.control.outbox import OutboxBrain, names, rows
from reshape.control.profile import OperatorProfile, Split
from reshape.control.reshaping.detection import Skew, SkewDetection
from reshape.control.reshaping.groups import Groups
from reshape.control.reshaping.keysplit import SplitByKeys
from reshape.control.reshaping.loans import Loans
from reshape.control.reshaping.mitigation import Mitigation, Phase, Transfer, TransferKind
from reshape.control.reshaping.patience import Patience
from reshape.control.reshaping.records import SplitByRecords
from reshape.control.reshaping.tables import PublishedTables
from reshape.control.reshaping.threshold import Thresholds
from reshape.control.reshaping.under_way import TransfersUnderWay
from reshape.control.sensing.observation import Observation
from reshape.control.sensing.reduction import PeriodicReduction
from reshape.control.settings import FirstPhase, History, StrategySettings
from reshape.control.story import DecisionKind

# A step stays short however many workers are skewed at once: after changing something for so many workers it leaves the
# rest to the next report.
MOST_CHANGES_PER_STEP = 256
# A pair is dissolved when both have had next to nothing to do for so many reports.
CALM_REPORTS = 10
INPUT_ENDED = "the input has ended and nothing is left to redirect"


class Controller(OutboxBrain):
    """Events in, commands out; ``handle`` is the only method that changes anything."""

    def __init__(self, profile: OperatorProfile, settings: StrategySettings) -> None:
        super().__init__()
        settings = replace(settings, backlog=settings.backlog and not profile.order_matters)
        by_key = profile.split is Split.BY_KEYS or settings.first_phase is FirstPhase.PART
        self._profile = profile
        self._settings = settings
        self._seen = Observation(profile, settings, count_keys=by_key)
        self._transfers = TransfersUnderWay(self._out, self._seen, settings)
        tactic = SplitByKeys if profile.split is Split.BY_KEYS else SplitByRecords
        self._tactic: SplitByKeys | SplitByRecords = tactic(profile, settings, self._seen, self._out, self._transfers)
        self._groups = Groups()
        self._tables = PublishedTables(self._out, settings.routing_timeout_s)
        self._thresholds = Thresholds(self._seen, settings)
        self._patience = Patience(self._seen, settings.transfer_timeout_s)
        self._loans = Loans(profile, self._seen)
        self._detection = SkewDetection(
            profile,
            settings,
            self._seen,
            self._out,
            self._transfers,
            self._groups,
            self._thresholds,
            self._patience,
            self._loans,
        )
        self._changes_left = 0
        self._drained = False
        period_s = settings.reduction_period_s
        self._reduction = PeriodicReduction(period_s) if period_s is not None else None

    @property
    def pairs(self) -> dict[int, tuple[int, ...]]:
        """Skewed workers and their helpers at this moment."""
        return self._groups.pairs

    @property
    def reduction(self) -> PeriodicReduction | None:
        """Load reduction per period, when a period is set (§6.3)."""
        return self._reduction

    def tau(self, worker: int) -> float:
        """The threshold that holds for a worker now."""
        return self._thresholds.tau(worker)

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
            case InputEnded():
                self._on_input_ended()
            case Drained():
                self._on_drained()
        if not self._seen.input_ended:
            self._tables.publish()
        return self._out.finish()

    # -- reports -------------------------------------------------------------------------------------------------

    def _on_report(self, event: MetricsCollected) -> None:
        if self._drained or not self._seen.take(event):
            return
        if self._reduction is not None:
            self._reduction.observe(event.time, event.routed, event.received, self.pairs.items())
        self._expire()
        if event.time < self._settings.warmup_s:
            return
        self._changes_left = MOST_CHANGES_PER_STEP
        for m in self._groups:
            if self._changes_left <= 0:
                break
            if m.phase is not Phase.MIGRATING and m.settled(self._tables.applied_version):
                self._advance(m)
                if not m.settled(self._tables.applied_version):
                    self._changes_left -= len(m.group)
                    self._groups.to_the_end(m)
        self._changes_left = MOST_CHANGES_PER_STEP
        if not self._seen.input_ended or self._settings.backlog:
            for skew in self._detection.skews():
                self._start(skew)
                if self._changes_left <= 0:
                    break

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

    def _start(self, skew: Skew) -> None:
        loads, worker, helpers = self._seen.workloads, skew.worker, skew.helpers
        lender = skew.owner if skew.owner != worker else None
        m = Mitigation(worker, helpers, self._seen.time, lender=lender)
        if self._tactic.refuses(m):
            self._patience.failed(worker)
            return
        self._groups.add(m)
        self._changes_left -= len(m.group)
        self._loans.lend(m.owner, helpers)
        waiting = ", ".join(f"{rows(loads[h])} at worker {h}" for h in helpers)
        state = f"; its state takes about {skew.cost_s:.2f} s to migrate" if skew.cost_s > 0 else ""
        self._out.record(
            DecisionKind.STARTED,
            worker,
            helpers,
            f"worker {worker} is skewed: {rows(loads[worker])} rows wait for it, {waiting}; the difference of "
            f"{rows(skew.gap)} starts a mitigation (tau {rows(skew.tau)}, {skew.change}){state}",
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
        m = self._groups.of(transfer.skewed)
        self._transfers.close(m, transfer)
        self._tactic.backlog_moved(m, event.rows)
        if event.rows < transfer.rows and m.phase is Phase.HANDING_OVER:
            self._loans.ran_dry(m.skewed, m.owner)
        if event.rows == 0 and self._loans.whose(m.skewed) in (m.skewed, m.owner):
            self._patience.failed(m.skewed)
        if m.phase is Phase.HANDING_OVER and not m.transfers:
            self._end(m, "its queued rows have been handed over")

    def _on_applied(self, event: RoutingApplied) -> None:
        lag_s = self._tables.applied(event)
        if lag_s is not None:
            self._tactic.control_lag_s = lag_s

    def _lost(self, transfer: Transfer, helpers: Sequence[int], why: str) -> None:
        """Helpers that did not get what was sent to them take no part; routing stays as it was."""
        m = self._groups.of(transfer.skewed)
        self._out.record(
            DecisionKind.FAILED,
            m.skewed,
            m.helpers,
            f"{transfer.kind.value} from worker {m.skewed} to {names(helpers)} failed ({why}); routing stays as "
            f"it was before",
        )
        self._patience.failed(m.skewed)
        if transfer.kind is not TransferKind.BACKLOG:
            for helper in self._tactic.lost(m, transfer, helpers):
                self._groups.free(helper)
        self._if_answered(transfer)

    def _if_answered(self, transfer: Transfer) -> None:
        """Go on when every helper has answered, one way or the other."""
        if transfer.waiting:
            return
        m = self._groups.of(transfer.skewed)
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
        self._groups.remove(m)
        self._out.record(
            DecisionKind.ENDED,
            m.skewed,
            m.helpers,
            f"the mitigation of worker {m.skewed} ends after {self._out.time - m.since:.1f} s: {reason}",
        )

    def _on_input_ended(self) -> None:
        self._seen.input_ended = True
        self._tables.stop()
        for m in self._groups:
            if not (self._settings.backlog and m.transfers):
                self._end(m, INPUT_ENDED)

    def _on_drained(self) -> None:
        self._seen.input_ended = self._drained = True
        for m in self._groups:
            self._end(m, "every row has been processed")

    def check(self) -> None:
        """Raise AssertionError if the brain's own books do not agree; tests call this after every step."""
        self._groups.check()
        if not self._seen.input_ended:
            assert set(self.table.owners) <= set(self.pairs), "a rule without a mitigation"
            if self._profile.order_matters:
                keepers = {worker for shares in self.table.keys.values() for worker in shares.workers}
                strangers = keepers - set(self._groups.helpers)
                assert not strangers, f"keys were given to {strangers}, who help nobody"
        assert self._tables.applied_version <= self.table.version
