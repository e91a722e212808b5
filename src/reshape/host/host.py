"""A host: one barrier task that runs workers of every operator. Its output is its part of the flow's result."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyarrow.flight import FlightClient

from reshape.errors import FlowFailed
from reshape.exchange.flight import Listener, Outlet, connect
from reshape.exchange.queues import HostQueues
from reshape.exchange.spill import SpillSpace, sweep
from reshape.exchange.wire import Envelope, Purpose, StreamName
from reshape.host.inbound import RowsIn, TransferIn, put_rows
from reshape.host.loop import HostLoop
from reshape.host.moves.intake import Arrival
from reshape.host.moves.moves import HostMoves
from reshape.host.moves.peers import Peers
from reshape.host.outbound import Outbound
from reshape.host.reporter import Reporter
from reshape.host.results import Results
from reshape.host.signals import ended_by_signals
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.link import LOST_AFTER_S, POLL_S, ControlLink, Order, to_text
from reshape.sender.edges import AnyRouter, FlowAddress, make_router

JOIN_S = 10.0
NUMBER_S = 30.0
# Spark starts all hosts at once; one that is not here after so long will not come.
MEET_S = 120.0
# Rows that may wait in the memory of one host before they go to disk.
QUEUE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HostSettings:
    queue_bytes: int = QUEUE_BYTES
    spill: bool = True
    spill_limit_bytes: int | None = None
    previews: bool = True  # is there anybody to show a running result to?


class Host:
    """Everything of one host task; ``results`` is its life."""

    def __init__(
        self,
        plan: PhysicalPlan,
        index: int,
        flow: FlowAddress,
        settings: HostSettings,
        address: str,
        stage: int = 0,
        task: int = 0,
    ) -> None:
        self._plan = plan
        self._index = index
        self._flow = flow
        self._stage = stage
        self._task = task
        spaces = [path for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if path]
        sweep(spaces)
        self._space = SpillSpace(spaces, settings.spill_limit_bytes) if settings.spill else None
        cells = [len(operator.ports) for operator in plan.operators for _ in plan.workers_of(index)]
        self._queues = HostQueues(cells, settings.queue_bytes, self._space)
        self._results = Results()
        self._outbound = Outbound(self._open_outlet)
        self._loop = HostLoop(plan, index, self._queues, self._outbound, self._results, previews=settings.previews)
        self._results.on_room = self._outbound.on_room = self._queues.wake
        self._stop = threading.Event()
        self._listener = Listener(address, lambda: [flow.access.secret], flow.access.tls, self._open_stream)
        self._locations: list[str] = []
        self._attempt = 0
        self._numbered = threading.Event()
        self._link: ControlLink | None = None
        self._peers: Peers | None = None
        self._clients: list[FlightClient] = []
        self._reporter: Reporter | None = None
        self._thread = threading.Thread(target=self._work, name=f"reshape-host-{index}", daemon=True)

    def results(self) -> Iterator[pa.RecordBatch]:
        """Meet the other hosts, work, and give the result; whatever happens, leave nothing behind."""
        with ended_by_signals():
            try:
                self._meet()
                self._join_in()
                self._thread.start()
                yield from self._results
            finally:
                self._close()

    def _meet(self) -> None:
        """Tell the driver that this host is here; it numbers the attempt when all of them are."""
        who = f"host-{self._index}"
        hello = ControlLink(self._flow.location, self._flow.access, self._flow.name, 0, who, lambda _: None)
        facts = {"host": self._index, "stage": self._stage, "task": self._task, "location": self._listener.location}
        deadline = time.monotonic() + MEET_S
        try:
            while (answer := hello.tell("host_ready", POLL_S + LOST_AFTER_S, **facts)) is None:
                if time.monotonic() > deadline:
                    raise FlowFailed(f"host {self._index}", f"the other hosts did not come within {MEET_S:.0f} s")
        finally:
            hello.close()
        if "failed" in answer:
            raise FlowFailed(*answer["failed"])
        self._attempt, self._locations = int(answer["attempt"]), answer["locations"]

    def _join_in(self) -> None:
        """Listen to the driver and let rows in."""
        self._link = ControlLink(
            self._flow.location,
            self._flow.access,
            self._flow.name,
            self._attempt,
            f"host-{self._index}",
            self._loop.obey,
        )
        self._loop.on_operator_done = self._operator_done
        self._reporter = Reporter(self._link, self._index, self._lost_driver)
        self._loop.on_report = self._reporter.leave
        self._loop.on_table = self._table_used
        self._peers = Peers(self._locations, self._flow.access)
        self._loop.transfers = HostMoves(
            self._plan,
            self._index,
            self._queues,
            self._loop.cell,
            self._peers,
            StreamName(self._flow.name, self._attempt, f"host{self._index}", 0, 0),
            self._reporter.tell,
            self._loop.soon,
        )
        self._numbered.set()
        for operator in self._plan.operators:
            if operator.target is not None:
                self._loop.add_router(operator.id, self._router(operator.id, *operator.target))
        self._link.start()

    def _router(self, sender: int, operator: int, port: int) -> AnyRouter:
        def send(host: int, batch: pa.RecordBatch, envelope: Envelope) -> None:
            if host != self._index:
                self._outbound.send(sender, host, batch, envelope)
                return
            put_rows(self._queues, self._loop.cell_index, (operator, port), batch, envelope, may_wait=False)

        def offer(sample: pa.RecordBatch) -> None:
            assert self._link is not None
            self._link.tell("sample", operator=operator, port=port, rows=to_text(sample))

        return make_router(self._plan.edge(operator, port), send, offer)

    def _open_outlet(self, sender: int, host: int, schema: pa.Schema) -> Outlet:
        target = self._plan.operators[sender].target
        assert target is not None
        operator, port = target
        name = StreamName(self._flow.name, self._attempt, self._router_name(sender), operator, port)
        client = connect(self._locations[host], self._flow.access)
        self._clients.append(client)
        return Outlet(client, name, schema, peer=f"host {host}")

    def _open_stream(self, name: StreamName, schema: pa.Schema) -> RowsIn | TransferIn:
        # A source may be here before this host has heard which attempt it is.
        if not self._numbered.wait(NUMBER_S):
            raise FlowFailed(f"host {self._index}", f"the driver did not number the attempt within {NUMBER_S:.0f} s")
        if name.run != self._flow.name or name.attempt != self._attempt:
            raise FlowFailed("an exchange", f"a stream of attempt {name.attempt} came to attempt {self._attempt}")
        if name.purpose == Purpose.ROWS:
            return RowsIn(self._queues, self._loop.cell_index, name)
        return TransferIn(self._arrive, name, schema)

    def _arrive(self, arrival: Arrival) -> None:
        transfers = self._loop.transfers
        assert transfers is not None
        transfers.intake.arrive(arrival)
        self._queues.wake()

    def _lost_driver(self, error: Exception) -> None:
        self._loop.obey(
            {"kind": "abort", "where": f"host {self._index}", "cause": f"the driver did not listen: {error}"}
        )

    def _table_used(self, sender: int, order: Order) -> None:
        """A router here uses a new table. With a fence, also say when all that it sent before has been taken."""
        assert self._reporter is not None
        tell = self._reporter.tell
        facts = {"operator": order["operator"], "port": order["port"], "router": self._router_name(sender)}
        version = order["table"]["version"]
        tell("applied", version=version, **facts)
        if order["fence"]:
            self._outbound.fence(sender, version, lambda: tell("fenced", version=version, **facts))

    def _router_name(self, sender: int) -> str:
        return router_name(sender, self._index)

    def _operator_done(self, operator: int) -> None:
        assert self._reporter is not None
        self._reporter.tell("operator_done", operator=operator, host=self._index, router=self._loop.sent(operator))

    def _work(self) -> None:
        failure: BaseException | None = None
        try:
            self._loop.run(self._stop)
        except BaseException as error:
            failure = error
            self._report_failure(error)  # before senders hear of it, who would report it as theirs
            self._queues.fail(error)
        self._results.close(failure)

    def _report_failure(self, error: BaseException) -> None:
        try:
            assert self._link is not None
            self._link.tell_failure(error, f"host {self._index}")
        except Exception:
            return  # the driver is gone; the task fails with the error itself

    def _close(self) -> None:
        self._listener.closing = True
        self._stop.set()
        self._queues.fail(FlowFailed(f"host {self._index}", "the host is closing"))
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        if self._space is not None:
            self._space.close()  # first: Spark may be about to kill this process
        if self._loop.transfers is not None:
            self._loop.transfers.intake.close(FlowFailed(f"host {self._index}", "the host is closing"))
        if self._peers is not None:
            self._peers.close()
        self._outbound.close()
        for client in self._clients:
            with contextlib.suppress(pa.ArrowException):
                client.close()
        if self._reporter is not None:
            self._reporter.close()
        if self._link is not None:
            self._link.close()
        self._listener.shutdown()


def router_name(sender: int, host: int) -> str:
    """What the router of an operator on a host is called."""
    return f"op{sender}-host{host}"


def own_address(task_address: str) -> str:
    """The address of this executor as the others see it, from Spark's own list of barrier tasks."""
    name = task_address.rsplit(":", 1)[0]
    try:
        return socket.gethostbyname(name)
    except OSError:
        return "127.0.0.1"
