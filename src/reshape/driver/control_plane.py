"""The control plane of one execution: a brain for every input of every operator, and what it is fed with."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from reshape.control.brain import Brain
from reshape.driver.port_control import PortControl, Post
from reshape.host.host import router_name
from reshape.host.worker import CellCounts
from reshape.kernels.hashing import hash_rows, owners
from reshape.observe.event_log import EventLog
from reshape.observe.representativeness import Representativeness, completeness, similarity
from reshape.plan.balancing import brain_of
from reshape.plan.lineage import result_columns
from reshape.plan.physical import PhysicalOperator, PhysicalPlan

JOIN_S = 5.0

PortId = tuple[int, int]  # operator, port
BuildBrain = Callable[[PhysicalPlan, PhysicalOperator, int], Brain]


class ControlPlane:
    """Takes reports from any thread. ``close_port`` is called from a thread of its own, when an input is over."""

    def __init__(
        self,
        plan: PhysicalPlan,
        post: Post,
        close_port: Callable[[PortId], None],
        build_brain: BuildBrain = brain_of,
        log: EventLog | None = None,
        on_error: Callable[[str, Exception], None] = lambda _where, _error: None,
    ) -> None:
        """``on_error`` is called when a brain fails: the flow must not wait for what it would have said."""
        self._on_error = on_error
        self._plan = plan
        self._log = log
        self._told: dict[PortId, int] = {}  # decisions that are in the log
        self._close_port = close_port
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._actions: deque[Callable[[], None]] = deque()
        self._stopped = False
        self.started_at = time.monotonic()
        self.ports: dict[PortId, PortControl] = {}
        for operator in plan.operators:
            for index, port in enumerate(operator.ports):
                known = (operator.id, index)
                control = PortControl(
                    operator.id,
                    index,
                    build_brain(plan, operator, index),
                    plan.host_of_workers(),
                    post,
                    lambda known=known: self._drained(known),  # type: ignore[misc]
                    delay_s=operator.mitigation.delay_s,
                )
                for producer in port.operators:
                    for host in range(plan.hosts):
                        control.counts.router_started(router_name(producer, host), control.brain.table.version)
                if log is not None:
                    control.log = partial(self._write, known)
                if port.after is None:
                    control.opened_at = 0.0
                self.ports[known] = control
        self._thread = threading.Thread(target=self._run, name="reshape-control", daemon=True)
        self._thread.start()

    def told(self, message: dict[str, Any]) -> Any:
        """What a task reports; the answer is sent back to it."""
        with self._news:
            control = self.ports[int(message["operator"]), int(message["port"])]
            control.clock(self.now)
            match message["kind"]:
                case "router_started":
                    return control.router_started(str(message["router"]))
                case "router_report":
                    control.counts.router_report(str(message["router"]), message["counts"])
                case "router_ended":
                    control.counts.router_report(str(message["router"]), message["counts"])
                    control.router_ended(str(message["router"]))
                case "applied":
                    control.applied(str(message["router"]), int(message["version"]))
                case "fenced":
                    control.fenced(str(message["router"]), int(message["version"]))
                case "holding":
                    control.holding(int(message["transfer"]))
                case "state_done":
                    facts = (int(message["helper"]), int(message["bytes"]), float(message["seconds"]))
                    control.state_done(int(message["transfer"]), *facts)
                case "state_failed":
                    control.state_failed(int(message["transfer"]), int(message["helper"]), str(message["reason"]))
                case "withdrawn":
                    control.withdrawn(int(message["transfer"]))
                case "backlog_moved":
                    control.backlog_moved(int(message["transfer"]), int(message["rows"]))
                case "backlog_failed":
                    control.backlog_failed(int(message["transfer"]), int(message["target"]), str(message["reason"]))
                case "scattered_sent":
                    control.scattered_sent(int(message["host"]))
            return None

    def host_report(self, host: int, cells: list[CellCounts], routers: dict[str, dict[str, Any]]) -> None:
        with self._news:
            for sender, counts in routers.items():
                target = self._plan.operators[int(sender)].target
                if target is not None:
                    self.ports[target].counts.router_report(router_name(int(sender), host), counts)
            for (operator, port), control in self.ports.items():
                control.counts.host_report(host, port, [cell for cell in cells if cell.operator == operator])
                control.host_reported()

    def operator_done(self, operator: int, host: int, counts: dict[str, Any] | None) -> None:
        """An operator's router on a host has sent its last row."""
        target = self._plan.operators[operator].target
        if target is None:
            return
        with self._news:
            control = self.ports[target]
            if counts is not None:
                control.counts.router_report(router_name(operator, host), counts)
            control.router_ended(router_name(operator, host))

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
        if self._log is not None:
            with self._news:
                for port in self.ports:
                    self._log_decisions(port)
            self._log.close()

    def story(self) -> list[str]:
        """Every decision about load, oldest first, with the operator that it is about."""
        with self._news:
            told = [
                (decision.time + (control.opened_at or 0.0), self._label(port), decision.text)
                for port, control in self.ports.items()
                for decision in control.brain.decisions
            ]
        return [f"{seconds:.2f} s, {label}: {text}" for seconds, label, text in sorted(told)]

    def _label(self, port: PortId) -> str:
        operator = self._plan.operators[port[0]]
        if len(operator.ports) == 1:
            return operator.label
        return f"{operator.label}, {'build' if operator.ports[port[1]].after is None else 'probe'} side"

    def representativeness(self) -> Representativeness:
        """How the proportions of what was processed compare with those of what has arrived, for each operator."""
        with self._news:
            found = {
                self._label(port): similarity(control.counts.routed, control.counts.of_owner)
                for port, control in self.ports.items()
                if control.opened_at is not None and not control.over
            }
        return Representativeness(min(found.values(), default=1.0), found)

    def completeness(self, rows: pa.Table) -> tuple[float, ...] | None:
        """For each row of the running result, how much of its groups' input has been processed."""
        parts = []
        for (operator, port), control in self.ports.items():
            columns = result_columns(self._plan, operator, port)
            if columns is None or control.opened_at is None:
                continue
            with self._news:
                done = completeness(control.counts.routed, control.counts.of_owner)
            hashes = hash_rows([rows.column(column).combine_chunks() for column in columns])
            parts.append(done[owners(hashes, self._plan.workers)])
        return tuple(np.prod(parts, axis=0).tolist()) if parts else None

    def _write(self, port: PortId, facts: dict[str, Any]) -> None:
        assert self._log is not None
        self._log.write(facts.pop("kind", "command"), self.now, operator=port[0], port=port[1], **facts)

    def _log_decisions(self, port: PortId) -> None:
        if self._log is None:
            return
        decisions = self.ports[port].brain.decisions
        for decision in decisions[self._told.get(port, 0) :]:
            who = {"skewed": decision.skewed, "helpers": decision.helpers}
            self._write(port, {"kind": "decision", "what": decision.kind.value, **who, "text": decision.text})
        self._told[port] = len(decisions)

    @property
    def now(self) -> float:
        """Seconds since the hosts were ready."""
        return time.monotonic() - self.started_at

    def _drained(self, port: PortId) -> None:
        self._actions.append(lambda: self._close(port))
        self._news.notify_all()

    def _close(self, port: PortId) -> None:
        self._close_port(port)
        with self._news:
            # The input that waited for this one is open now.
            for (operator, index), control in self.ports.items():
                if operator == port[0] and self._plan.operators[operator].ports[index].after == port[1]:
                    control.opened_at = self.now

    def _tick(self) -> list[Callable[[], None]]:
        for port, control in self.ports.items():
            try:
                control.tick(self.now)
                self._log_decisions(port)
            except Exception as error:
                where = f"the brain of {self._label(port)}"
                return [partial(self._on_error, where, error)]
        return []

    def _run(self) -> None:
        due = 0.0
        while True:
            with self._news:
                while not self._stopped and not self._actions and self.now < due:
                    self._news.wait(due - self.now)
                if self._stopped:
                    return
                actions, self._actions = self._actions, deque()
                if self.now >= due:
                    due = self.now + self._plan.report_s
                    actions += self._tick()
            for action in actions:
                action()
