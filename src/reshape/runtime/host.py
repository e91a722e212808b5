"""A host: one barrier task that runs workers of every operator. Its output is its part of the flow's result."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from reshape.exchange.flight import Listener, Outlet, connect
from reshape.exchange.queues import HostQueues
from reshape.exchange.router import Router
from reshape.exchange.spill import SpillSpace
from reshape.exchange.wire import Envelope, StreamName, offsets
from reshape.plan.physical import PhysicalPlan
from reshape.runtime.edges import FlowAddress, make_router
from reshape.runtime.errors import FlowFailed
from reshape.runtime.link import ControlLink, to_text
from reshape.runtime.loop import HostLoop
from reshape.runtime.outbound import Outbound
from reshape.runtime.ranges import RangeRouter
from reshape.runtime.reporter import Reporter
from reshape.runtime.results import Results

JOIN_S = 10.0
NUMBER_S = 30.0
# Rows that may wait in the memory of one host before they go to disk.
QUEUE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HostSettings:
    queue_bytes: int = QUEUE_BYTES
    spill: bool = True
    spill_limit_bytes: int | None = None


class _StreamIn:
    """Puts what a stream brings into the queues of this host's workers."""

    def __init__(self, loop: HostLoop, queues: HostQueues, name: StreamName) -> None:
        self._loop = loop
        self._queues = queues
        self._name = name

    def accept(self, batch: pa.RecordBatch, envelope: Envelope) -> None:
        for part, start in zip(envelope.slices, offsets(envelope.slices), strict=True):
            cell = self._loop.cell_index(self._name.operator, part.worker)
            rows = batch.slice(start, part.rows)
            self._queues.put(cell, self._name.port, part.owner, rows, combined=envelope.combined)

    def close(self) -> None:
        """Nothing to do: the driver says when an input has ended."""


class Host:
    """Everything of one host task; ``results`` is its life."""

    def __init__(
        self, plan: PhysicalPlan, index: int, flow: FlowAddress, settings: HostSettings, address: str, stage: int
    ) -> None:
        self._plan = plan
        self._index = index
        self._flow = flow
        self._stage = stage
        spaces = [path for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if path]
        self._space = SpillSpace(spaces, settings.spill_limit_bytes) if settings.spill else None
        cells = [len(operator.ports) for operator in plan.operators for _ in plan.workers_of(index)]
        self._queues = HostQueues(cells, settings.queue_bytes, self._space)
        self._results = Results()
        self._outbound = Outbound(self._open_outlet)
        self._loop = HostLoop(plan, index, self._queues, self._outbound, self._results)
        self._results.on_room = self._outbound.on_room = self._queues.wake
        self._stop = threading.Event()
        self._listener = Listener(address, lambda: [flow.access.secret], flow.access.tls, self._open_stream)
        self._locations: list[str] = []
        self._attempt = 0
        self._numbered = threading.Event()
        self._link: ControlLink | None = None
        self._reporter: Reporter | None = None
        self._thread = threading.Thread(target=self._work, name=f"reshape-host-{index}", daemon=True)

    def results(self, gather: Callable[[str], list[str]]) -> Iterator[pa.RecordBatch]:
        """Meet the other hosts, work, and give the result; whatever happens, leave nothing behind."""
        try:
            self._locations = gather(self._listener.location)
            self._meet_driver(gather)
            self._thread.start()
            yield from self._results
        finally:
            self._close()

    def _meet_driver(self, gather: Callable[[str], list[str]]) -> None:
        """The first host announces all of them; the driver numbers the attempt."""
        attempt = ""
        if self._index == 0:
            hello = ControlLink(self._flow.location, self._flow.access, self._flow.name, 0, "host-0", lambda _: None)
            try:
                attempt = json.dumps(hello.tell("hosts_ready", stage=self._stage, locations=self._locations))
            finally:
                hello.close()
        answer = json.loads(gather(attempt)[0])
        if "failed" in answer:
            raise FlowFailed(*answer["failed"])
        self._attempt = int(answer["attempt"])
        self._numbered.set()
        self._link = ControlLink(
            self._flow.location,
            self._flow.access,
            self._flow.name,
            self._attempt,
            f"host-{self._index}",
            self._loop.obey,
        )
        self._loop.on_operator_done = self._operator_done
        self._reporter = Reporter(self._link, self._index)
        self._loop.on_report = self._reporter.leave
        for operator in self._plan.operators:
            if operator.target is not None:
                self._loop.add_router(operator.id, self._router(operator.id, *operator.target))
        self._link.start()

    def _router(self, sender: int, operator: int, port: int) -> Router | RangeRouter:
        def send(host: int, batch: pa.RecordBatch, envelope: Envelope) -> None:
            if host != self._index:
                self._outbound.send(sender, host, batch, envelope)
                return
            for part, start in zip(envelope.slices, offsets(envelope.slices), strict=True):
                cell = self._loop.cell_index(operator, part.worker)
                rows = batch.slice(start, part.rows)
                self._queues.put(cell, port, part.owner, rows, combined=envelope.combined, may_wait=False)

        def offer(sample: pa.RecordBatch) -> None:
            assert self._link is not None
            self._link.tell("sample", operator=operator, port=port, rows=to_text(sample))

        return make_router(self._plan.edge(operator, port), send, offer)

    def _open_outlet(self, sender: int, host: int) -> Outlet:
        target = self._plan.operators[sender].target
        assert target is not None
        operator, port = target
        name = StreamName(self._flow.name, self._attempt, f"op{sender}-host{self._index}", operator, port)
        schema = self._plan.operators[sender].output
        return Outlet(connect(self._locations[host], self._flow.access), name, schema)

    def _open_stream(self, name: StreamName, schema: pa.Schema) -> _StreamIn:
        # A source may be here before this host has heard which attempt it is.
        if not self._numbered.wait(NUMBER_S):
            raise FlowFailed(f"host {self._index}", f"the driver did not number the attempt within {NUMBER_S:.0f} s")
        if name.run != self._flow.name or name.attempt != self._attempt:
            raise FlowFailed("an exchange", f"a stream of attempt {name.attempt} came to attempt {self._attempt}")
        return _StreamIn(self._loop, self._queues, name)

    def _operator_done(self, operator: int) -> None:
        assert self._link is not None
        self._link.tell("operator_done", operator=operator, host=self._index)

    def _work(self) -> None:
        failure: BaseException | None = None
        try:
            self._loop.run(self._stop)
        except BaseException as error:
            failure = error
            self._queues.fail(error)
            self._report_failure(error)
        self._results.close(failure)

    def _report_failure(self, error: BaseException) -> None:
        where = error.where if isinstance(error, FlowFailed) else f"host {self._index}"
        cause = error.cause if isinstance(error, FlowFailed) else f"{type(error).__name__}: {error}"
        try:
            assert self._link is not None
            self._link.tell("failed", where=where, cause=cause)
        except Exception:
            return  # the driver is gone; the task fails with the error itself

    def _close(self) -> None:
        self._stop.set()
        self._queues.fail(FlowFailed(f"host {self._index}", "the host is closing"))
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        self._outbound.close()
        if self._reporter is not None:
            self._reporter.close()
        if self._link is not None:
            self._link.close()
        self._listener.shutdown()
        if self._space is not None:
            self._space.close()


def own_address(task_address: str) -> str:
    """The address of this executor as the others see it, from Spark's own list of barrier tasks."""
    name = task_address.rsplit(":", 1)[0]
    try:
        return socket.gethostbyname(name)
    except OSError:
        return "127.0.0.1"
