"""A flow's attempts: each action on its DataFrame is one, and so is each further try of Spark. Hosts that meet make
one; it is numbered, and whatever tasks say about it finds its way by that number."""

from __future__ import annotations

import secrets
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from reshape.driver.admission import check_report
from reshape.driver.cluster import Cluster
from reshape.driver.control_plane import BuildBrain
from reshape.driver.execution import Execution
from reshape.driver.host_meeting import STALE, HostMeeting
from reshape.driver.running_result import FirstPartial
from reshape.errors import FlowFailed
from reshape.exchange.transport.access import Access, Tls
from reshape.observe.charts import Presentation
from reshape.observe.estimates import Estimate
from reshape.observe.event_log import EventLog
from reshape.observe.record import RunRecord
from reshape.observe.recording import Recorder, Recorders
from reshape.observe.representativeness import Shown
from reshape.plan.balancing import brain_of
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.link import POLL_S
from reshape.protocol.orders import Abort, Orders
from reshape.protocol.reports import Answer, HostReady, Met, Refused, Report, Sender
from reshape.scan.scan import Scan

# Cancelled tasks end within a second or two; this only bounds the wait for one that is stuck.
TEARDOWN_S = 30.0


class AttemptWatch(Protocol):
    """Hears of attempts: of each before its sources start, and of it at least once when it is over."""

    def begins(self, execution: Execution, stage: int) -> None: ...

    def over(self, execution: Execution) -> None: ...


@dataclass(frozen=True, slots=True)
class _Making:
    """All that an attempt is made of, beside its number and its hosts."""

    name: str
    plan: PhysicalPlan
    cluster: Cluster
    scans: Mapping[int, Scan]
    build_brain: BuildBrain
    log_directory: str | None
    record: RunRecord = field(default_factory=RunRecord)
    presentation: Presentation = field(default_factory=Presentation)

    def __call__(self, attempt: int, stage: int, locations: tuple[str, ...]) -> Execution:
        log: Recorder = self.record
        if self.log_directory is not None:
            log = Recorders(self.record, EventLog(self.log_directory, f"{self.name}-{attempt}"))
        who = (self.plan, attempt, stage, locations, self.cluster, self.scans, self.build_brain)
        return Execution(*who, log, self.presentation, steady_log=self.log_directory is not None)


@dataclass(slots=True)
class _Wishes:
    """What users want of a flow, whichever attempt runs: that there is none any more, and why, or that it waits."""

    stopped: FlowFailed | None = None
    paused: bool = False


class Attempts:
    """What tasks of a flow talk to by way of the driver's service, and what its handle looks at."""

    def __init__(
        self,
        name: str,
        plan: PhysicalPlan,
        cluster: Cluster,
        scans: Mapping[int, Scan] = MappingProxyType({}),
        tls: Tls | None = None,
        log_directory: str | None = None,
        build_brain: BuildBrain = brain_of,
        watch: AttemptWatch | None = None,
    ) -> None:
        self.name = name
        self.access = Access(secrets.token_hex(32), tls)
        self.plan = plan
        self._cluster = cluster
        self._watch = watch
        self._make = _Making(name, plan, cluster, scans, build_brain, log_directory)
        self._lock = threading.Lock()
        self._last = 0
        self._executions: dict[int, Execution] = {}  # the newest one, and those that are not over
        self._stages: dict[int, int] = {}  # stage of the hosts -> its newest attempt
        self._meetings: dict[int, HostMeeting] = {}  # by stage of the hosts
        self._lost: Execution | None = None  # to be replaced by the attempt of another stage
        self._failures: dict[int, FlowFailed] = {}  # stages that are not to be tried again
        self._complete = False  # has any attempt given its whole result?
        self._wishes = _Wishes()

    def reported(self, sender: Sender, report: Report) -> Answer | None:
        if isinstance(report, HostReady):
            check_report(self.plan, report)
            stopped = self._wishes.stopped
            if stopped is not None:  # at once: Spark would start refused hosts again, four times in all
                self._cluster.cancel_hosts(report.stage, str(stopped))
                return Refused(stopped.where, stopped.cause)
            return self._meeting(report.stage).arrive(report, POLL_S)
        execution = self._executions.get(sender.attempt)
        if execution is None:
            return None
        try:
            return execution.reported(sender, report)
        finally:
            if self._watch is not None and execution.over:
                self._watch.over(execution)

    def orders(self, sender: Sender, after: int, wait_s: float) -> Orders:
        execution = self._executions.get(sender.attempt)
        if execution is not None:
            return execution.board.read(sender.task, after, wait_s)
        return Orders((Abort("the driver", f"attempt {sender.attempt} is over"),), after + 1, over=True)

    @property
    def record(self) -> RunRecord:
        """What is known of all attempts, for people who watch them."""
        return self._make.record

    @property
    def presentation(self) -> Presentation:
        """How people see what attempts show."""
        return self._make.presentation

    @property
    def newest(self) -> Execution | None:
        with self._lock:
            return self._executions[max(self._executions)] if self._executions else None

    @property
    def failure(self) -> FlowFailed | None:
        """What ended the newest execution, if it failed; what has stopped the flow, if there was none."""
        return self._wishes.stopped if self.newest is None else self.newest.failure

    @property
    def paused(self) -> bool:
        return self._wishes.paused

    def partial(self) -> pa.Table | None:
        return self.newest.result.table() if self.newest is not None else None

    def shown(self) -> Shown | None:
        return self.newest.shown() if self.newest is not None else None

    def look(self) -> None:
        """Bring what is shown now into the record."""
        if self.newest is not None:
            self.newest.show()

    def ratio(self, over: str, under: str) -> tuple[Estimate | None, ...] | str:
        return self.newest.ratio(over, under) if self.newest is not None else "its hosts are not there yet"

    def story(self) -> list[str]:
        return self.newest.story() if self.newest is not None else []

    @property
    def first_partial(self) -> FirstPartial | None:
        return self.newest.result.first_partial if self.newest is not None else None

    def pause(self) -> None:
        """Also attempts that come later."""
        with self._lock:
            self._wishes.paused = True
            executions = list(self._executions.values())
        for execution in executions:
            execution.pause()

    def resume(self) -> None:
        with self._lock:
            self._wishes.paused = False
            executions = list(self._executions.values())
        for execution in executions:
            execution.resume()

    def fail(self, where: str, cause: str) -> None:
        """Stop the newest execution."""
        if self.newest is not None:
            self.newest.fail(where, cause)

    def hosts_failed(self, cause: str) -> bool:
        """The job of the hosts has failed. Was it by a loss? Then the attempt that comes next is in the place of this
        one, and the source jobs of this one are gone."""
        newest = self.newest
        if newest is None:
            return False
        newest.fail("the hosts", cause, may_retry=True)
        newest.join(TEARDOWN_S)
        with self._lock:
            self._lost = newest if newest.may_retry else None
        return newest.may_retry

    def stop(self, where: str, cause: str) -> None:
        """Stop the newest execution, and refuse any other, also that of hosts which are about to meet."""
        with self._lock:
            self._wishes.stopped = self._wishes.stopped or FlowFailed(where, cause)
        self.fail(where, cause)

    def join(self, timeout_s: float) -> None:
        """Wait for the source jobs of the newest execution to be gone."""
        if self.newest is not None:
            self.newest.join(timeout_s)

    def _meeting(self, stage: int) -> HostMeeting:
        with self._lock:
            if stage not in self._meetings:
                kept = {at: meeting for at, meeting in self._meetings.items() if at in self._stages or not meeting.over}
                new = HostMeeting(self.plan.hosts, partial(self._hosts_ready, stage), partial(self._hosts_lost, stage))
                self._meetings = {**kept, stage: new}
            return self._meetings[stage]

    def _hosts_lost(self, stage: int) -> None:
        before = self._executions.get(self._stages.get(stage, 0))
        if before is not None:
            before.fail(STALE.where, STALE.cause, may_retry=True)

    def _hosts_ready(self, stage: int, locations: tuple[str, ...]) -> Met | Refused:
        """Number the attempt. Spark tries a failed barrier stage again; an error of the flow would only come again."""
        with self._lock:
            self._note_failures()
            self._note_mixing(stage)
            failed = self._wishes.stopped or self._failures.get(stage)
            if failed is not None:
                return Refused(failed.where, failed.cause)
            self._last += 1
            before, self._lost = self._executions.get(self._stages.get(stage, 0), self._lost), None
            execution = self._execution(self._last, stage, locations)
            self._executions = {number: other for number, other in self._executions.items() if not other.over}
            self._stages = {at: number for at, number in self._stages.items() if number in self._executions}
            self._stages[stage] = self._last
            self._executions[self._last] = execution
            if self._wishes.paused:
                execution.pause()
        if before is not None and before.failure is not None:
            execution.take_over(before)
        if self._watch is not None:
            self._watch.begins(execution, stage)
        execution.start()
        return Met(execution.attempt, locations)

    def _note_failures(self) -> None:
        """Stages whose newest attempt failed by the flow's own fault; executions that are over are forgotten soon."""
        for stage, number in self._stages.items():
            execution = self._executions[number]
            if execution.failure is not None and not execution.may_retry:
                self._failures[stage] = execution.failure

    def _note_mixing(self, stage: int) -> None:
        """Which host gives a row differs from attempt to attempt: what Spark keeps of one cannot be made whole by
        another, as it would when an executor is lost."""
        self._complete = self._complete or any(execution.finished for execution in self._executions.values())
        kept = self._cluster.kept_rows(stage) if self._complete else None
        if kept is not None:
            cause = f"a part of it was lost, and the rest is kept in {kept}: unpersist it (a query: release it) first"
            self._failures[stage] = FlowFailed(f"the result of {self.name}", cause)
            self._cluster.cancel_hosts(stage, str(self._failures[stage]))

    def _execution(self, attempt: int, stage: int, locations: tuple[str, ...]) -> Execution:
        return self._make(attempt, stage, locations)


def unique_name(name: str, run: uuid.UUID | None = None) -> str:
    """The name of a run: that of its flow, and something that no other run has."""
    return f"{name}-{(run or uuid.uuid4()).hex[:12]}"
