"""One attempt at a flow, seen from the driver: starts sources when hosts are there, ends inputs when those have."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from reshape.driver.admission import check_report
from reshape.driver.board import Board, host_task
from reshape.driver.bounds import SortBounds
from reshape.driver.cluster import Cluster
from reshape.driver.control_plane import BuildBrain, ControlPlane, PortId
from reshape.driver.estimating import Estimating
from reshape.driver.host_meeting import STALE
from reshape.driver.inputs import Inputs
from reshape.driver.range_meeting import RangeMeeting
from reshape.driver.running_result import RunningResult
from reshape.driver.showing import Showing
from reshape.driver.source_counts import SourceCounts
from reshape.driver.source_tasks import RunAgain, SourceTasks
from reshape.driver.splits import SplitDealer
from reshape.driver.task_errors import in_short, is_loss
from reshape.errors import FlowFailed
from reshape.observe.charts import Presentation
from reshape.observe.estimates import Estimate
from reshape.observe.progress import WorkerProgress
from reshape.observe.recording import Recorder
from reshape.observe.representativeness import Shown
from reshape.plan.balancing import brain_of
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.errors import TaskLost
from reshape.protocol.orders import Abort, EndInput, Enough, Pause, Resume
from reshape.protocol.reports import (
    Answer,
    AttemptReport,
    Failed,
    Leaving,
    OperatorDone,
    PortReport,
    Progress,
    RangeComputed,
    RangeSorted,
    RouterCounted,
    RouterEnded,
    Sampled,
    Sender,
    SourceBegins,
    SourceRead,
    SplitWanted,
)
from reshape.scan.scan import Scan

LOG = logging.getLogger(__name__)

# Hosts leave between two batches, once they know that they should; one whose batch takes longer is not waited for.
LEAVE_S = 2.0
# Hosts come for orders every two seconds, whatever their workers do, unless code in C keeps Python's lock for so long.
# Nothing waits for this but a thread of a flow whose hosts are gone for good.
SILENT_S = 60.0


# What is said of hosts that Spark ends or starts anew; its books may tell why.
ENDED_BY_SPARK = "Spark has ended it before it was done"


@dataclass(slots=True)
class Outcome:
    """How an attempt has ended, if it has. ``may_retry``: the cluster has failed, not the flow, and another attempt may
    do better. ``story``: attempts of the same hosts that were lost before this one."""

    finished: bool = False
    failure: FlowFailed | None = None
    may_retry: bool = False
    story: tuple[str, ...] = ()
    enough: bool = False  # have there been as many rows as are wanted?
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hear_why(self, where: str, cause: str, *, may_retry: bool) -> None:
        """Spark may end hosts before it says what was lost: that is what people want to know."""
        named = may_retry and cause != ENDED_BY_SPARK
        if named and self.failure is not None and self.failure.cause == ENDED_BY_SPARK:
            self.failure = FlowFailed(where, cause)


class Execution:
    """One attempt: the hosts of a stage of Spark, and the sources that feed them."""

    def __init__(
        self,
        plan: PhysicalPlan,
        attempt: int,
        stage: int,
        locations: tuple[str, ...],
        cluster: Cluster,
        scans: Mapping[int, Scan] = MappingProxyType({}),
        build_brain: BuildBrain = brain_of,
        log: Recorder | None = None,
        presentation: Presentation | None = None,
        *,
        steady_log: bool = False,
    ) -> None:
        """``scans`` are the sources that hosts read by themselves, by their number. ``steady_log``: what is shown is
        logged even when nobody looks."""
        self.attempt = attempt
        self.board = Board(plan.report_s)
        self.result = RunningResult(plan, SourceCounts(plan, scans, cluster.task_count))
        post, pause_s = self.board.post, lambda: self.board.pause_s
        self.control = ControlPlane(plan, post, self._close_port, build_brain, log, self._control_failed, pause_s)
        self._estimating = Estimating(plan, scans, self.result, self.control)
        self._outcome = Outcome()
        self._showing = Showing(plan, self.control, self.shown, log, presentation, steady=steady_log)
        self._plan = plan
        self._stage = stage
        self._cluster = cluster
        bounds = SortBounds(plan, self.board.post, self.fail, scans.keys(), self.sources.tasks)
        self._ranges = RangeMeeting(plan, self.board.post, bounds)
        silent = partial(self.board.silent, self._host_tasks, SILENT_S)
        self._splits = SplitDealer(scans, plan.hosts, self.board.post, silent, in_order=plan.ordered)
        self._source_tasks = SourceTasks(cluster.unsuccessful, self._run_again)
        by_cluster = partial(cluster.run_source, attempt=attempt, locations=locations)

        def run_source(source: int) -> int:
            try:
                rows = self._splits.run(source) if source in scans else by_cluster(source)
            except Exception:
                if not self._outcome.enough:
                    raise
                rows = 0  # it was cancelled: nobody wants the rest
            self.sources.ended(source)
            return rows

        self._inputs = Inputs(plan, run_source, self.control.end_input, self._source_failed)
        self._ending = threading.Thread(target=self._end_hosts, name="reshape-ending", daemon=True)
        self._showing.begin(attempt, scans)

    def start(self) -> None:
        LOG.info("flow %s: attempt %d begins on %d hosts", self._plan.name, self.attempt, self._plan.hosts)
        self._inputs.start()

    def pause(self) -> None:
        """Nothing is read, sent or processed until ``resume``; what is there stays."""
        self.control.pause()
        self.control.note("paused", text="paused: nothing is read, sent or processed")
        self.board.post("all", Pause())

    def resume(self) -> None:
        self.control.resume()
        self.control.note("resumed", text="resumed")
        self.board.post("all", Resume())

    def take_over(self, before: Execution) -> None:
        """It takes the place of an attempt that was lost, and says so."""
        lost = before.failure
        assert lost is not None
        line = f"attempt {before.attempt} was lost in {lost.where}: {before.why_lost()}; attempt {self.attempt} begins"
        self._outcome.story = (*before._outcome.story, line)
        LOG.warning("flow %s: %s", self._plan.name, line)
        self.control.note("restarted", text=line)

    def why_lost(self) -> str:
        """What Spark says of hosts that it has ended by itself, else what was said when the attempt failed."""
        assert self.failure is not None
        if self.failure.cause not in (ENDED_BY_SPARK, STALE.cause):
            return self.failure.cause
        errors = [fate.error for fate in self._cluster.unsuccessful(self._stage) if fate.error is not None]
        losses = [error for error in errors if is_loss(error) and not error.startswith("TaskKilled")]
        return in_short(losses[-1]) if losses else self.failure.cause

    def story(self) -> list[str]:
        """Attempts that were lost before this one, and every decision about load, oldest first."""
        return [*self._outcome.story, *self.control.story()]

    @property
    def sources(self) -> SourceCounts:
        """How much has been read."""
        return self.result.sources

    @property
    def finished(self) -> bool:
        return self._outcome.finished

    @property
    def failure(self) -> FlowFailed | None:
        return self._outcome.failure

    @property
    def may_retry(self) -> bool:
        return self._outcome.may_retry

    @property
    def over(self) -> bool:
        return self.finished or self.failure is not None

    def reported(self, sender: Sender, report: AttemptReport) -> Answer | None:
        """Book what a task of this attempt reports; what to answer it."""
        check_report(self._plan, report)
        match report:
            case Progress():
                self.control.host_report(report)
                self.result.book(report)
                self._end_if_enough()
                if self.finished:
                    self._showing.after_end()
            case OperatorDone():
                self._operator_done(report)
            case RangeSorted():
                self._ranges.sorted(report)
            case RangeComputed():
                self._ranges.computed(report)
            case Sampled():
                self._ranges.bounds.sampled((report.operator, report.port), sender.task, report.rows)
            case SplitWanted():
                return self._splits.next(report.source)
            case SourceRead():
                self._splits.read(report)
            case Leaving():
                self.board.leave(sender.task)
                self._left(sender)
            case Failed():
                self.fail(report.where, report.cause, may_retry=report.lost)
                self._let_others_leave(sender)
            case SourceBegins():
                self.sources.begins(report.source, report.stage)
                return self._source_tasks.begins(sender.task, report)
            case _:
                return self._port_reported(sender, report)
        return None

    def _port_reported(self, sender: Sender, report: PortReport) -> Answer | None:
        """What a task says about one input. The end of its router is booked there before anybody acts on it."""
        if isinstance(report, RouterCounted):
            self.sources.book(sender.task, report.read, ended=False)
        if not isinstance(report, RouterEnded):
            return self.control.reported(report)
        self.sources.book(sender.task, report.read, ended=True)
        self._ranges.bounds.ended((report.operator, report.port), sender.task)
        answer = self.control.reported(report)
        self._source_tasks.ended(sender.task)
        return answer

    def workers(self) -> tuple[WorkerProgress, ...]:
        """How every worker of every operator is doing, as of the newest reports."""
        operators = self._plan.operators
        return tuple(
            WorkerProgress(
                counts.operator,
                operators[counts.operator].label,
                counts.worker,
                host,
                counts.waiting,
                counts.processed,
                counts.of_owner,
                counts.emitted,
                counts.state_bytes,
                counts.busy_s,
                counts.done,
            )
            for host, counts in self.result.workers()
        )

    def look(self) -> None:
        """Look at the running result: estimates are made of a series of looks."""
        self._estimating.look()

    def ratio(self, over: str, under: str) -> tuple[Estimate | None, ...] | str:
        """The ratio of two columns of the result at its end, for each row that is shown; why there is none, if so."""
        return self._estimating.ratio(over, under)

    def shown(self) -> Shown | None:
        """The running result and how far to trust it."""
        complete = self.finished and self.result.all_done
        self.look()
        table, estimates = self._estimating.shown(complete=complete)
        if table is None:
            return None
        trust, left_out = self.control.representativeness(), self.result.left_out()
        return Shown(table, self.control.completeness(table), trust, self.control.now, complete, estimates, left_out)

    def show(self) -> None:
        """Let those that record the attempt know what it shows now."""
        self._showing.look()

    def fail(self, where: str, cause: str, *, may_retry: bool = False) -> None:
        """The first failure counts; everything that still runs is told to stop.

        Spark would start the hosts again, four times in all. That is welcome when a part of the cluster was lost; an
        error of the flow itself would only come again, so its hosts are cancelled.
        """
        with self._outcome.lock:
            if self.over:
                self._outcome.hear_why(where, cause, may_retry=may_retry)
                return
            self._outcome.failure = FlowFailed(where, cause)
            self._outcome.may_retry = may_retry
        LOG.info("flow %s: attempt %d failed in %s: %s", self._plan.name, self.attempt, where, cause)
        self._inputs.stop()
        self._splits.close()
        self._source_tasks.close()
        self.board.post("all", Abort(where, cause))
        self.control.stop()
        self._showing.end(f"attempt {self.attempt} failed in {where}: {cause}", failed=True)
        if not may_retry:
            self._ending.start()
        self._cluster.cancel_sources(self.attempt)

    def join(self, timeout_s: float) -> None:
        """Wait for the threads of the sources, and for hosts that are being cancelled."""
        self._inputs.join(timeout_s)
        if self._ending.is_alive():
            self._ending.join(timeout_s)

    def _operator_done(self, report: OperatorDone) -> None:
        """All workers of an operator on one host have finished and sent everything."""
        self.control.operator_done(report)
        target = self._plan.operators[report.operator].target
        if target is not None:
            self._ranges.bounds.ended(target, host_task(report.host))
        if not self._inputs.operator_done(report.operator, report.host):
            return
        with self._outcome.lock:
            if self.over:
                return
            self._outcome.finished = True
        LOG.info("flow %s: attempt %d has ended after %.2f s", self._plan.name, self.attempt, self.control.now)
        self.board.close()
        self._source_tasks.close()
        self.control.stop()
        self._showing.end(f"the result is complete after {self.control.now:.1f} s", failed=False)

    def _end_if_enough(self) -> None:
        """A limit needs no more rows than these: sources end where they are, and what waits is dropped. All else is as
        at any end, so that no task is left behind."""
        wanted = self._plan.enough_rows
        if wanted is None or self.result.given() < wanted:
            return
        with self._outcome.lock:
            if self._outcome.enough or self.over:
                return
            self._outcome.enough = True
        LOG.info("flow %s: attempt %d has the %d rows that are wanted", self._plan.name, self.attempt, wanted)
        self.control.enough()
        self.control.note("enough", text=f"there are {wanted:,} rows, as many as are wanted: no more are read")
        self._splits.enough()
        self._inputs.enough()
        self.board.post("all", Enough())
        # Spark would read on, whatever its tasks do with the rows. Hosts have all that those have sent.
        self._source_tasks.enough(lambda: self._cluster.cancel_sources(self.attempt))

    def _left(self, sender: Sender) -> None:
        """Spark ends hosts of a job that is cancelled, or of which a part was lost: no result will come of the rest."""
        done = map(host_task, self._inputs.hosts_that_are_done())
        if sender.is_host and sender.task not in done:
            self.fail(sender.task, ENDED_BY_SPARK, may_retry=True)

    def _let_others_leave(self, sender: Sender) -> None:
        """When the task of one host has failed, Spark kills the others at once: it had better fail last."""
        if sender.is_host:
            self.board.wait_until_left(self._host_tasks - {sender.task}, LEAVE_S + self.board.pause_s)

    def _end_hosts(self) -> None:
        """Spark kills the processes of cancelled tasks, so hosts get a moment to put everything away by themselves."""
        self.board.wait_until_left(self._host_tasks, LEAVE_S + self.board.pause_s)
        self._cluster.cancel_hosts(self._stage, str(self.failure))

    @property
    def _host_tasks(self) -> set[str]:
        return {host_task(host) for host in range(self._plan.hosts)}

    def _control_failed(self, where: str, error: Exception) -> None:
        self.fail(where, f"{type(error).__name__}: {error}")

    def _source_failed(self, source: int, error: Exception) -> None:
        if isinstance(error, TaskLost):
            self.fail(error.where, error.cause, may_retry=True)
            return
        # Where Spark tries a task once only, as in local sessions, a lost one fails the whole job.
        self.fail(f"source {source}", f"{type(error).__name__}: {in_short(error)}", may_retry=is_loss(str(error)))

    def _run_again(self, task: str, why: RunAgain) -> None:
        """Rows of the run before may be with the hosts: sent again they would count twice."""
        self.fail(task, why.cause, may_retry=why.lost)

    def _close_port(self, port: PortId) -> None:
        """Every row of an input has been processed and all of its state is where it belongs."""
        self.board.post("hosts", EndInput(*port))
        self._inputs.close(port)
