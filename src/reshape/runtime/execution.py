"""One run of a flow, seen from the driver: starts sources when hosts are there, ends inputs when they have ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from reshape.plan.physical import PhysicalPlan
from reshape.runtime.board import Board
from reshape.runtime.errors import FlowFailed
from reshape.runtime.link import from_text, to_text
from reshape.runtime.ranges import agree

# Routers that start within this time of the first one have a say in the bounds of a sort.
GATHER_S = 0.3

RunSource = Callable[[int, int, tuple[str, ...]], int]  # (source, attempt, hosts) -> rows; returns when it is done


class Execution:
    """One attempt: a set of hosts and the sources that feed them."""

    def __init__(
        self,
        plan: PhysicalPlan,
        attempt: int,
        locations: tuple[str, ...],
        run_source: RunSource,
        cancel_sources: Callable[[int], None],
    ) -> None:
        self.attempt = attempt
        self.board = Board()
        self.failure: FlowFailed | None = None
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
        self._cells: dict[int, list[dict[str, Any]]] = {}
        self._previews: dict[tuple[int, int], pa.RecordBatch] = {}
        self.source_rows: dict[int, int] = {}

    def start(self) -> None:
        with self._lock:
            self._end_empty_ports()
            self._start_ready_sources()

    def operator_done(self, operator: int, host: int) -> None:
        """All workers of an operator on one host have finished and sent everything."""
        with self._lock:
            self._done_hosts[operator].add(host)
            target = self._plan.operators[operator].target
            if target is not None and len(self._done_hosts[operator]) == self._plan.hosts:
                self._producer_ended(target)

    def progress_of(self, host: int, cells: list[dict[str, Any]], previews: list[dict[str, Any]]) -> None:
        """A host's report; the newest one counts."""
        shown = {(p["operator"], p["worker"]): from_text(p["rows"]) for p in previews}
        with self._lock:
            self._cells[host] = cells
            self._previews.update(shown)

    def progress(self) -> list[dict[str, Any]]:
        with self._lock:
            return [cell for host in sorted(self._cells) for cell in self._cells[host]]

    def partial(self) -> pa.Table | None:
        with self._lock:
            batches = [self._previews[key] for key in sorted(self._previews)]
        return pa.Table.from_batches(batches) if batches else None

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

    def fail(self, where: str, cause: str) -> None:
        """The first failure counts; everything that still runs is told to stop."""
        with self._lock:
            if self.failure is not None:
                return
            self.failure = FlowFailed(where, cause)
            self._waiting.clear()
        self.board.post("all", "abort", where=where, cause=cause)
        self._cancel_sources(self.attempt)

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
            self.fail(f"source {source}", f"{type(error).__name__}: {_first_line(error)}")
            return
        with self._lock:
            self.source_rows[source] = rows
            self._producer_ended(self._plan.source_target(source))

    def _producer_ended(self, port: tuple[int, int]) -> None:
        self._open_producers[port] -= 1
        if self._open_producers[port] == 0:
            self._end_port(port)
            self._start_ready_sources()

    def _end_empty_ports(self) -> None:
        for port, producers in self._open_producers.items():
            if producers == 0:
                self._end_port(port)

    def _end_port(self, port: tuple[int, int]) -> None:
        self._ended_ports.add(port)
        self.board.post("hosts", "end", operator=port[0], port=port[1])

    def join(self, timeout_s: float) -> bool:
        """Wait for the source threads; False if one is still there."""
        for thread in self._threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def answer(execution: Execution, message: dict[str, Any]) -> None:
    """Book what a task of this attempt reports."""
    match message["kind"]:
        case "operator_done":
            execution.operator_done(int(message["operator"]), int(message["host"]))
        case "progress":
            execution.progress_of(int(message["host"]), message["cells"], message["previews"])
        case "sample":
            execution.sample((int(message["operator"]), int(message["port"])), from_text(message["rows"]))
        case "leaving":
            execution.board.leave(str(message["who"]))
        case "failed":
            execution.fail(str(message["where"]), str(message["cause"]))
