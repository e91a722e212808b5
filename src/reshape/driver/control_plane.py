"""The control plane of one execution: a brain for every input of every operator, and what it is fed with."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from reshape.control.brain import Brain
from reshape.driver.pausable_clock import PausableClock
from reshape.driver.port_control import PortControl, Post
from reshape.kernels.hashing import hash_rows, owners
from reshape.observe.recording import Recorder
from reshape.observe.representativeness import Counts, Representativeness, completeness, similarity
from reshape.plan.balancing import brain_of
from reshape.plan.lineage import result_columns
from reshape.plan.physical import PhysicalOperator, PhysicalPlan, Port
from reshape.protocol.reports import Answer, NewestTable, OperatorDone, PortReport, Progress, WorkerCounts
from reshape.sender.edges import router_name

LOG = logging.getLogger(__name__)

JOIN_S = 5.0

PortId = tuple[int, int]  # operator, port
BuildBrain = Callable[[PhysicalPlan, PhysicalOperator, int], Brain]


@dataclass(frozen=True, slots=True)
class PortRows:
    """Rows of an input by the worker whose partition they belong to. ``drained``: all of them have been processed."""

    routed: Counts
    processed: Counts
    drained: bool


class ControlPlane:
    """Takes reports from any thread. ``close_port`` is called from a thread of its own, when an input is over."""

    def __init__(
        self,
        plan: PhysicalPlan,
        post: Post,
        close_port: Callable[[PortId], None],
        build_brain: BuildBrain = brain_of,
        log: Recorder | None = None,
        on_error: Callable[[str, Exception], None] = lambda _where, _error: None,
        pause_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``on_error`` is called when control itself fails, which a flow cannot do without; it can without a brain.

        ``pause_s``: how long tasks pause between two reports, where that is longer than the plan has it.
        """
        self._pause_s = pause_s
        self._on_error = on_error
        self._plan = plan
        self._log = log
        self._logged: dict[PortId, int] = {}  # decisions that are in the logs
        self._given_up: set[PortId] = set()  # whose brain failed, and the logs say so
        self._close_port = close_port
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._actions: deque[Callable[[], None]] = deque()
        self._stopped = False
        self._enough = False
        self._clock = PausableClock()
        self.ports: dict[PortId, PortControl] = {}
        for operator in plan.operators:
            for index, port in enumerate(operator.ports):
                self.ports[operator.id, index] = self._port_control(operator, index, port, build_brain, post)
        self._thread = threading.Thread(target=self._run, name="reshape-control", daemon=True)
        self._thread.start()

    def _port_control(
        self, operator: PhysicalOperator, index: int, port: Port, build_brain: BuildBrain, post: Post
    ) -> PortControl:
        number = (operator.id, index)
        control = PortControl(
            *number,
            build_brain(self._plan, operator, index),
            self._plan.host_of_workers(),
            post,
            partial(self._drained, number),
            delay_s=operator.mitigation.delay_s,
            log=partial(self._write, number),
        )
        for producer in port.operators:
            for host in range(self._plan.hosts):
                control.counts.router_started(router_name(producer, host), control.brain.table.version)
        if port.after is None:
            control.line.opened_at = 0.0
        return control

    def reported(self, report: PortReport) -> Answer | None:
        """What a task reports about one input; the answer is sent back to it."""
        with self._news:
            port = (report.operator, report.port)
            control = self.ports[port]
            control.line.clock(self.now)
            try:
                answer = control.reported(report)
                if not isinstance(answer, NewestTable):
                    return answer
                return replace(answer, paused=self.paused, enough=self._enough)
            except Exception as error:  # the task that reports has no part in it
                self._actions.append(self._failed(port, error))
                self._news.notify_all()
                return None

    def host_report(self, report: Progress) -> None:
        with self._news:
            for sender, counts in report.routers.items():
                target = self._plan.operators[sender].target
                if target is not None:
                    self.ports[target].counts.router_report(router_name(sender, report.host), counts)
            workers: dict[int, list[WorkerCounts]] = {}
            for worker in report.workers:
                workers.setdefault(worker.operator, []).append(worker)
            for (operator, port), control in self.ports.items():
                control.counts.host_report(report.host, port, workers.get(operator, []))
                control.host_reported()

    def operator_done(self, report: OperatorDone) -> None:
        """An operator's router on a host has sent its last row."""
        target = self._plan.operators[report.operator].target
        if target is None:
            return
        with self._news:
            control = self.ports[target]
            router = router_name(report.operator, report.host)
            if report.counts is not None:
                control.counts.router_report(router, report.counts)
            control.router_ended(router)

    def end_input(self, port: PortId) -> None:
        """All producers of an input have ended."""
        with self._news:
            self.ports[port].end_input()

    def stop(self) -> None:
        """The execution is over, one way or the other."""
        with self._news:
            self._stopped = True
            self._news.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN_S)
        with self._news:
            for port in self.ports:
                self._log_decisions(port)

    def waits_for(self) -> list[str]:
        """What the inputs that are not over wait for."""
        with self._news:
            return [
                f"{self._plan.port_label(*port)}: {cause}"
                for port, control in self.ports.items()
                for cause in control.waits_for()
            ]

    def story(self) -> list[str]:
        """Every decision about load, oldest first, with the operator that it is about."""
        with self._news:
            decisions = [
                (seconds + (control.line.opened_at or 0.0), self._plan.port_label(*port), text)
                for port, control in self.ports.items()
                for seconds, text in control.line.told()
            ]
        # By time alone: what an input's brain decides at one moment stays in its order.
        return [f"{seconds:.2f} s, {label}: {text}" for seconds, label, text in sorted(decisions, key=itemgetter(0))]

    def note(self, kind: str, **facts: Any) -> None:
        """Record something that is about no input."""
        if self._log is not None:
            self._log.write(kind, self.now, **facts)

    def representativeness(self) -> Representativeness:
        """How the proportions of what was processed compare with those of what has arrived, for each operator."""
        with self._news:
            similarities = {
                self._plan.port_label(*port): similarity(control.counts.routed, control.counts.of_owner)
                for port, control in self.ports.items()
                if control.line.opened_at is not None and not control.over
            }
        return Representativeness(min(similarities.values(), default=1.0), similarities)

    def rows_of(self, port: PortId) -> PortRows:
        """Rows of an input so far."""
        with self._news:
            control = self.ports[port]
            counts = control.counts
            return PortRows(counts.routed.copy(), counts.of_owner.copy(), drained=control.drained)

    def completeness(self, rows: pa.Table) -> tuple[float, ...] | None:
        """For each row of the running result, how much of its groups' input has been processed."""
        parts = []
        for (operator, port), control in self.ports.items():
            columns = result_columns(self._plan, operator, port)
            if columns is None or control.line.opened_at is None:
                continue
            with self._news:
                done = completeness(control.counts.routed, control.counts.of_owner)
            hashes = hash_rows([rows.column(column).combine_chunks() for column in columns])
            parts.append(done[owners(hashes, self._plan.workers)])
        return tuple(np.prod(parts, axis=0).tolist()) if parts else None

    def _write(self, port: PortId, facts: dict[str, Any]) -> None:
        if self._log is not None:
            self._log.write(facts.pop("kind", "command"), self.now, operator=port[0], port=port[1], **facts)

    def _log_decisions(self, port: PortId) -> None:
        decisions = self.ports[port].brain.decisions
        for decision in decisions[self._logged.get(port, 0) :]:
            LOG.info("flow %s, %s: %s", self._plan.name, self._plan.port_label(*port), decision.text)
            who = {"skewed": decision.skewed, "helpers": decision.helpers}
            self._write(port, {"kind": "decision", "what": decision.kind.value, **who, "text": decision.text})
        self._logged[port] = len(decisions)
        gave_up = self.ports[port].line.gave_up
        if gave_up is not None and port not in self._given_up:
            self._given_up.add(port)
            LOG.warning(
                "flow %s, %s: %s", self._plan.name, self._plan.port_label(*port), gave_up.text, exc_info=gave_up.error
            )

    @property
    def now(self) -> float:
        """Seconds since the hosts were ready, without pauses."""
        return self._clock.now

    @property
    def paused(self) -> bool:
        return self._clock.paused

    def enough(self) -> None:
        """Routers that start from now on have nothing to send."""
        with self._news:
            self._enough = True

    def pause(self) -> None:
        """Brains are not asked, and no time passes for them, until ``resume``."""
        with self._news:
            self._clock.pause()

    def resume(self) -> None:
        with self._news:
            self._clock.resume()
            self._news.notify_all()

    def _drained(self, port: PortId) -> None:
        self._actions.append(lambda: self._close(port))
        self._news.notify_all()

    def _close(self, port: PortId) -> None:
        self._close_port(port)
        with self._news:
            # The input that waited for this one is open now.
            for (operator, index), control in self.ports.items():
                if operator == port[0] and self._plan.operators[operator].ports[index].after == port[1]:
                    control.line.opened_at = self.now

    def _tick(self) -> list[Callable[[], None]]:
        for port, control in self.ports.items():
            try:
                control.tick(self.now)
                self._log_decisions(port)
            except Exception as error:
                return [self._failed(port, error)]
        return []

    def _failed(self, port: PortId, error: Exception) -> Callable[[], None]:
        return partial(self._on_error, f"the control of {self._plan.port_label(*port)}", error)

    def _run(self) -> None:
        due = 0.0
        while True:
            with self._news:
                while not self._stopped and not self._actions and (self.paused or self.now < due):
                    self._news.wait(None if self.paused else due - self.now)
                if self._stopped:
                    return
                actions, self._actions = self._actions, deque()
                if self.now >= due and not self.paused:
                    # A look between two reports of a task would take its rows for missing, and then for a burst.
                    due = self.now + max(self._plan.report_s, self._pause_s())
                    actions += self._tick()
            for action in actions:
                action()
