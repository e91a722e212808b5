"""One simulated operator: workers behind a router, and the brain that is told about them."""

from __future__ import annotations

from reshape.control.brain import Brain
from reshape.control.commands import Command
from reshape.control.events import Drained, InputEnded
from reshape.errors import ReshapeError
from reshape.sim.agenda import Agenda
from reshape.sim.brain_link import BrainLink
from reshape.sim.keyed_state import KeyedState
from reshape.sim.moves import Luck, SimulatedMoves
from reshape.sim.recorder import LOADS_KEPT_FOR, Merges, OperatorRun, Record
from reshape.sim.reports import Reports
from reshape.sim.router import SimulatedRouter
from reshape.sim.scattered import ScatteredParts
from reshape.sim.scenario import Scenario, Stage
from reshape.sim.senders import SimulatedSenders
from reshape.sim.source import Group, KeyedInput
from reshape.sim.worker import Worker

# Virtual seconds without a single row processed after which a run is given up: far above any time limit
# of a transfer.
STALL_S = 3600.0


class SimulationStalled(ReshapeError, RuntimeError):
    """Rows are left and nothing moves: says where they wait."""


class SimulatedOperator:
    """The body of one brain. Rows come by :meth:`offer`; the brain sees reports and acknowledgements only."""

    def __init__(self, stage: Stage, brain: Brain, rows: KeyedInput, scenario: Scenario, agenda: Agenda) -> None:
        network = scenario.network
        workers = [Worker(speed) for speed in stage.speeds]
        router = SimulatedRouter(len(workers), stage.settings.buckets_per_worker, brain.table)
        self.total = rows.total
        self._stage = stage
        self._agenda = agenda
        self._workers = workers
        self._router = router
        self._senders = SimulatedSenders(router, workers, stage.queue_rows, agenda, network.link_latency_s)
        self._reports = Reports(stage, rows.total, workers, router, scenario.report_s)
        self._scattered = ScatteredParts(stage.profile, workers, network)
        self._link = BrainLink(brain, agenda, network.control_latency_s, self._execute)
        state = KeyedState(rows.keys, stage.state_bytes, router)
        luck = Luck(scenario.failures, scenario.seed)
        self._moves = SimulatedMoves(state, workers, router, agenda, network, luck, self._link, self._scattered)
        self._record = Record(stage.displayed, keep_loads=len(workers) <= LOADS_KEPT_FOR)
        self._input_s: float | None = None  # when the input ended
        self._merge_s: float | None = None  # how long the last merge took; known once all rows are processed
        self._advanced = (0.0, 0)  # when all workers were last brought up to now, and the rows that they had processed
        self._moved_at = (0.0, 0)  # when the number of processed rows last grew, and to what
        agenda.every(scenario.report_s, self._report)
        agenda.every(scenario.display_s, self._display)
        if scenario.watermark_s is not None:
            agenda.every(scenario.watermark_s, self._pass_watermark)

    def advance(self) -> int:
        """Bring all workers up to now; the rows that they have processed so far."""
        now = self._agenda.now
        if self._advanced[0] != now:  # what comes at this very moment has had no time yet
            for worker in self._workers:
                if worker.queue:
                    worker.advance(now)
            self._advanced = (now, sum([worker.processed for worker in self._workers]))
        return self._advanced[1]

    def offer(self, group: Group) -> float | None:
        """Route a group. None when all of it is on its way, else the moment to call :meth:`retry`."""
        return self._senders.offer(group)

    def retry(self) -> float | None:
        """Send what found a full queue, as far as there is room now."""
        return self._senders.retry()

    def end_input(self) -> None:
        """All rows have been sent."""
        self._input_s = self._agenda.now
        self._link.tell(InputEnded)

    def _execute(self, command: Command) -> None:
        self._moves.execute(command)

    def _is_done(self, processed: int) -> bool:
        return self._input_s is not None and processed == self.total

    def _report(self) -> bool:
        processed = self.advance()
        self._link.tell(self._reports.next())
        if self._is_done(processed):
            self._merge_s = self._scattered.merge()
            self._link.tell(Drained)
            return False
        self._check_progress(processed)
        return True

    def _pass_watermark(self) -> bool:
        """The operator has to output what it has (unbounded input, §6.3), so parts are merged first."""
        if self._merge_s is not None:
            return False
        self.advance()
        self._scattered.merge()
        return True

    def _check_progress(self, processed: int) -> None:
        since, before = self._moved_at
        if processed != before or not self._senders.sent:
            self._moved_at = (self._agenda.now, processed)
        elif self._agenda.now - since > STALL_S:
            held = [index for index, worker in enumerate(self._workers) if worker.held]
            raise SimulationStalled(
                f"{self._stage.profile.name}: {self.total - processed} rows left, idle for {STALL_S:.0f} s; "
                f"waiting at senders: {sorted(self._senders.waiting)}, held for state: {held}"
            )

    def _display(self) -> bool:
        processed = self.advance()
        received = self._router.received
        workload = [r - w.processed for r, w in zip(received, self._workers, strict=True)]
        self._record.add(self._agenda.now, self._shown(), workload, received, self._router.routed)
        return not self._is_done(processed)

    def _shown(self) -> tuple[int, ...]:
        counts = [worker.counts for worker in self._workers]
        return tuple(sum([of_worker[key] for of_worker in counts if key in of_worker]) for key in self._stage.displayed)

    def result(self) -> OperatorRun:
        """The totals, after a check that every row was processed exactly once and is part of its owner's state."""
        by_key: dict[int, int] = {}
        for worker in self._workers:
            for key, rows in worker.counts.items():
                by_key[key] = by_key.get(key, 0) + rows
        processed = tuple(worker.processed for worker in self._workers)
        received = tuple(self._router.received)
        assert sum(processed) == self.total == sum(by_key.values()), "rows were lost or doubled"
        assert processed == received, "a worker processed other rows than it was sent"
        unmerged = self._scattered.unmerged()
        assert not unmerged, f"parts of state were never merged at their owner: {unmerged}"
        merge_s = self._merge_s or 0.0
        return OperatorRun(
            name=self._stage.profile.name,
            brain=self._link.brain,
            record=self._record,
            total_s=max(worker.drained_at for worker in self._workers) + merge_s,
            input_s=self._input_s or 0.0,
            processed=processed,
            received=received,
            routed=tuple(self._router.routed),
            by_key=by_key,
            scattered={index: dict(worker.counts) for index, worker in enumerate(self._workers)},
            state_transfers=self._moves.state_transfers,
            state_bytes=self._moves.state_bytes,
            backlog_rows=self._moves.backlog_rows,
            merges=Merges(self._scattered.merges, dict(self._scattered.merged), merge_s),
        )
