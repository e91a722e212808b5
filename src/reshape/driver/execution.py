"""One run of a flow, seen from the driver: starts sources when hosts are there, ends inputs when they have ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from reshape.driver.board import Board
from reshape.driver.control_plane import BuildBrain, ControlPlane
from reshape.driver.task_errors import in_short
from reshape.errors import FlowFailed
from reshape.host.loop import PREVIEW_ROWS
from reshape.host.worker import CellCounts
from reshape.observe.event_log import EventLog
from reshape.observe.representativeness import Shown
from reshape.plan.balancing import brain_of
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.link import from_text, to_text
from reshape.sender.ranges import agree

# Routers that start within this time of the first one have a say in the bounds of a sort.
GATHER_S = 0.3

# Hosts leave between two batches; one whose batch takes longer is not waited for.
LEAVE_S = 2.0

RunSource = Callable[[int, int, tuple[str, ...]], int]  # (source, attempt, hosts) -> rows; returns when it is done


@dataclass(frozen=True, slots=True)
class FirstPartial:
    """When there was something to show: seconds since the hosts were ready, and rows processed until then."""

    seconds: float
    processed: int


class Execution:
    """One attempt: a set of hosts and the sources that feed them."""

    def __init__(
        self,
        plan: PhysicalPlan,
        attempt: int,
        locations: tuple[str, ...],
        run_source: RunSource,
        cancel_sources: Callable[[int], None],
        build_brain: BuildBrain = brain_of,
        log: EventLog | None = None,
    ) -> None:
        self.attempt = attempt
        self.board = Board()
        self.failure: FlowFailed | None = None
        self.may_retry = False  # a failure of the cluster, not of the flow: another attempt may do better
        self.finished = False
        self.cancel_hosts: Callable[[str], None] = lambda _: None
        self._plan = plan
        self._locations = locations
        self._run_source = run_source
        self._cancel_sources = cancel_sources
        self._lock = threading.Lock()
        self._ended_ports: set[tuple[int, int]] = set()
        self._done_hosts: dict[int, set[int]] = {operator.id: set() for operator in plan.operators}
        self._open_producers = {
            (operator.id, index): len(port.sources) + len(port.operators)
            for operator in plan.operators
            for index, port in enumerate(operator.ports)
        }
        self._waiting = [source for operator in plan.operators for port in operator.ports for source in port.sources]
        self._threads: list[threading.Thread] = []
        self._samples: dict[tuple[int, int], list[pa.RecordBatch]] = {}
        self._cells: dict[int, list[CellCounts]] = {}
        self._previews: dict[tuple[int, int], pa.RecordBatch] = {}
        self._ready_at = time.monotonic()  # an execution begins when all its hosts are there
        self.first_partial: FirstPartial | None = None
        self.source_rows: dict[int, int] = {}
        self.control = ControlPlane(plan, self.board.post, self._close_port, build_brain, log, self._brain_failed)

    def start(self) -> None:
        with self._lock:
            self._end_empty_ports()
            self._start_ready_sources()

    def operator_done(self, operator: int, host: int, counts: dict[str, Any] | None) -> None:
        """All workers of an operator on one host have finished and sent everything."""
        self.control.operator_done(operator, host, counts)
        with self._lock:
            self._done_hosts[operator].add(host)
            target = self._plan.operators[operator].target
            if len(self._done_hosts[operator]) < self._plan.hosts:
                return
            if target is not None:
                self._producer_ended(target)
                return
            # The result of a union comes from several operators.
            last = [known.id for known in self._plan.operators if known.target is None]
            if any(len(self._done_hosts[number]) < self._plan.hosts for number in last):
                return
            self.finished = True
        self.board.close()
        self.control.stop()

    @property
    def over(self) -> bool:
        return self.finished or self.failure is not None

    def progress_of(
        self,
        host: int,
        cells: list[CellCounts],
        previews: list[dict[str, Any]] | None,
        routers: dict[str, dict[str, Any]],
    ) -> None:
        """A host's report; the newest one counts."""
        self.control.host_report(host, cells, routers)
        shown = {(p["operator"], p["worker"]): from_text(p["rows"]) for p in previews or ()}
        with self._lock:
            self._cells[host] = cells
            if previews is not None:
                # A helper's part that is with its owner now would be counted twice if it stayed.
                for cell in cells:
                    self._previews.pop((cell.operator, cell.worker), None)
                self._previews.update(shown)
            if shown and self.first_partial is None:
                processed = sum(sum(cell.processed) for known in self._cells.values() for cell in known)
                self.first_partial = FirstPartial(time.monotonic() - self._ready_at, processed)

    def progress(self) -> list[dict[str, Any]]:
        with self._lock:
            return [cell._asdict() for host in sorted(self._cells) for cell in self._cells[host]]

    def partial(self) -> pa.Table | None:
        """The running result: groups with all their parts put together, or a sample of rows."""
        with self._lock:
            previews = dict(sorted(self._previews.items()))
        batches: list[pa.RecordBatch] = []
        for operator in {operator for operator, _ in previews}:
            parts = [batch for (of, _), batch in previews.items() if of == operator]
            batches += self._plan.operators[operator].logic.merged_preview(parts, len(parts) * PREVIEW_ROWS)
        return pa.Table.from_batches(batches) if batches else None

    def shown(self) -> Shown | None:
        """The running result and how far to trust it."""
        table = self.partial()
        if table is None:
            return None
        trust = self.control.representativeness()
        return Shown(table, self.control.completeness(table), trust, self.control.now, self._all_shown)

    @property
    def _all_shown(self) -> bool:
        """Hosts show their last groups before they report all of their workers as done."""
        with self._lock:
            reported = len(self._cells) == self._plan.hosts
            return self.finished and reported and all(cell.done for known in self._cells.values() for cell in known)

    def sample(self, port: tuple[int, int], rows: pa.RecordBatch) -> None:
        """A router has rows for a sort; soon after the first one, bounds are made of all samples."""
        with self._lock:
            samples = self._samples.setdefault(port, [])
            samples.append(rows)
            if len(samples) > 1:
                return
        timer = threading.Timer(GATHER_S, self._agree, (port,))
        timer.daemon = True
        timer.start()

    def _agree(self, port: tuple[int, int]) -> None:
        ordering = self._plan.operators[port[0]].ports[port[1]].ordering
        assert ordering is not None
        with self._lock:
            samples = list(self._samples[port])
        try:
            bounds = agree(samples, ordering, self._plan.workers)
        except Exception as error:
            self.fail(self._plan.operators[port[0]].label, f"{type(error).__name__}: {error}")
            return
        self.board.post("all", "bounds", operator=port[0], port=port[1], rows=to_text(bounds))

    def fail(self, where: str, cause: str, *, may_retry: bool = False) -> None:
        """The first failure counts; everything that still runs is told to stop.

        Spark would start the hosts again, four times in all. That is welcome when a part of the cluster was lost; an
        error of the flow itself would only come again, so its hosts are cancelled.
        """
        with self._lock:
            if self.over:
                return
            self.failure = failure = FlowFailed(where, cause)
            self.may_retry = may_retry
            self._waiting.clear()
        self.board.post("all", "abort", where=where, cause=cause)
        self.control.stop()
        if not may_retry:
            ending = threading.Thread(target=self._end_hosts, args=(failure,), name="reshape-ending", daemon=True)
            ending.start()
            with self._lock:
                self._threads.append(ending)
        self._cancel_sources(self.attempt)

    def let_others_leave(self, who: str) -> None:
        """When the task of one host has failed, Spark kills the others at once: it had better fail last."""
        if who.startswith("host"):
            self.board.wait_until_left({f"host-{host}" for host in range(self._plan.hosts)} - {who}, LEAVE_S)

    def _end_hosts(self, failure: FlowFailed) -> None:
        """Spark kills the processes of cancelled tasks, so hosts get a moment to put everything away by themselves."""
        self.board.wait_until_left([f"host-{host}" for host in range(self._plan.hosts)], LEAVE_S)
        self.cancel_hosts(str(failure))

    def _brain_failed(self, where: str, error: Exception) -> None:
        self.fail(where, f"{type(error).__name__}: {error}")

    def _start_ready_sources(self) -> None:
        """A side that has to wait for another one starts after it: its rows would only lie in queues."""
        for source in list(self._waiting):
            operator, index = self._plan.source_target(source)
            after = self._plan.operators[operator].ports[index].after
            if after is None or (operator, after) in self._ended_ports:
                self._waiting.remove(source)
                thread = threading.Thread(
                    target=self._source, args=(source,), name=f"reshape-source-{source}", daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def _source(self, source: int) -> None:
        try:
            rows = self._run_source(source, self.attempt, self._locations)
        except Exception as error:
            self.fail(f"source {source}", f"{type(error).__name__}: {in_short(error)}")
            return
        with self._lock:
            self.source_rows[source] = rows
            self._producer_ended(self._plan.source_target(source))

    def _producer_ended(self, port: tuple[int, int]) -> None:
        self._open_producers[port] -= 1
        if self._open_producers[port] == 0:
            self.control.end_input(port)

    def _end_empty_ports(self) -> None:
        for port, producers in self._open_producers.items():
            if producers == 0:
                self.control.end_input(port)

    def _close_port(self, port: tuple[int, int]) -> None:
        """Every row of an input has been processed and all of its state is where it belongs."""
        with self._lock:
            self._end_port(port)
            self._start_ready_sources()

    def _end_port(self, port: tuple[int, int]) -> None:
        self._ended_ports.add(port)
        self.board.post("hosts", "end", operator=port[0], port=port[1])

    def join(self, timeout_s: float) -> bool:
        """Wait for the source threads; False if one is still there."""
        for thread in list(self._threads):
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)


def answer(execution: Execution, message: dict[str, Any]) -> Any:
    """Book what a task of this attempt reports; what to answer it."""
    match message["kind"]:
        case "several":
            for each in message["messages"]:
                answer(execution, {**message, **each})
        case "operator_done":
            execution.operator_done(int(message["operator"]), int(message["host"]), message["router"])
        case "progress":
            cells = [CellCounts(*cell) for cell in message["cells"]]
            execution.progress_of(int(message["host"]), cells, message["previews"], message["routers"])
        case "sample":
            execution.sample((int(message["operator"]), int(message["port"])), from_text(message["rows"]))
        case "leaving":
            execution.board.leave(str(message["who"]))
        case "failed":
            lost = bool(message.get("lost"))
            execution.fail(str(message["where"]), str(message["cause"]), may_retry=lost)
            execution.let_others_leave(str(message["who"]))
        case _:
            return execution.control.told(message)
    return None
