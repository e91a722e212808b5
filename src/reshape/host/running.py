"""A host of one attempt: everything that works together in it, from its queues to the thread that does the work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import partial

import pyarrow as pa

from reshape.errors import FlowFailed
from reshape.exchange.errors import HostClosed
from reshape.exchange.queues import HostQueues
from reshape.exchange.transport.receiving import Receiver
from reshape.exchange.transport.streams import Outlet
from reshape.exchange.wire import Envelope, Purpose, StreamName
from reshape.host.inbound import RowsIn, TransferIn, put_rows
from reshape.host.inbox import Inbox
from reshape.host.loop import HostLoop
from reshape.host.moves.intake import Arrival
from reshape.host.moves.moves import HostMoves
from reshape.host.moves.peers import Peers
from reshape.host.outbound import Outbound
from reshape.host.outputs import Outputs
from reshape.host.previews import Previews
from reshape.host.reading import Readers
from reshape.host.reporter import Reporter
from reshape.host.results import Results
from reshape.host.worker import Workers
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.link import ControlLink, FlowAddress
from reshape.protocol.orders import Abort
from reshape.protocol.reports import Met, Sampled
from reshape.scan.scan import Scan
from reshape.sender.edges import AnyRouter, make_router, router_name
from reshape.sender.outlets import Outlets

LOG = logging.getLogger(__name__)

JOIN_S = 10.0
# Rows that a host reads ahead of its workers: a few batches, so that neither waits for the other.
READ_AHEAD_ROWS = 4 * 65_536


class RunningHost:
    """Rows come in by streams, go through the workers, and leave as ``results`` or to other hosts."""

    def __init__(
        self,
        plan: PhysicalPlan,
        host: int,
        flow: FlowAddress,
        met: Met,
        queues: HostQueues,
        scans: Mapping[int, Scan],
        *,
        previews: bool,
    ) -> None:
        self._plan = plan
        self._host = host
        self._name = StreamName(flow.name, met.attempt, f"host{host}", 0, 0)
        self._queues = queues
        self._workers = Workers(plan, host)
        self._inbox = Inbox(queues.wake)
        self._link = ControlLink(flow, met.attempt, f"host-{host}", self._inbox.obey)
        self._reporter = Reporter(self._link, host, self._driver_lost)
        self._outlets = Outlets(met.locations, flow.access)
        self._outbound = Outbound(self._open_outlet, queues.wake)
        self.results = Results(queues.wake)
        self._moves = HostMoves(
            plan, host, self._workers, queues, self._inbox, Peers(self._outlets), self._name, self._reporter.report
        )
        put = partial(self._put_here, may_wait=True)
        self._readers = Readers(plan, host, scans, flow, met, put, self._wait_for_room, self._reading_failed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(previews,), name=f"reshape-host-{host}", daemon=True)

    def start(self) -> None:
        """Listen to the driver and work."""
        self._link.start()
        self._thread.start()

    def open_stream(self, name: StreamName, schema: pa.Schema) -> Receiver:
        """Somebody has rows, or state, for workers here."""
        if (name.run, name.attempt) != (self._name.run, self._name.attempt):
            raise FlowFailed("an exchange", f"a stream of attempt {name.attempt} came to attempt {self._name.attempt}")
        if name.purpose == Purpose.ROWS:
            return RowsIn(self._queues, self._workers, name)
        return TransferIn(self._arrive, name, schema)

    def stop(self) -> None:
        """End the working thread, if it is still at work."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def close(self) -> None:
        """Let go of everything. The working thread has been stopped."""
        closing = FlowFailed(f"host {self._host}", "the host is closing")
        self._moves.intake.close(closing)
        self._readers.close()
        self._outlets.close()
        self._moves.close()
        self._outbound.close()
        self._reporter.close()
        self._link.close()

    def _work(self, previews: bool) -> None:
        failure: BaseException | None = None
        try:
            self._loop(previews).run(self._stop)
        except HostClosed as error:  # Spark ends this host, and no fault of the flow: that it leaves is said
            failure = error
        except BaseException as error:
            failure = error
            self._report_failure(error)  # before senders hear of it, who would report it as theirs
            self._queues.fail(error)
        self.results.close(failure)

    def _report_failure(self, error: BaseException) -> None:
        try:
            self._link.report_failure(error, f"host {self._host}")
        except Exception as unheard:  # the driver is gone; the task fails with the error itself
            LOG.warning("host %d could not tell the driver why it failed: %s", self._host, unheard)

    def _loop(self, previews: bool) -> HostLoop:
        plan, host, workers = self._plan, self._host, self._workers
        routers = {op.id: self._router(op.id, *op.target) for op in plan.operators if op.target is not None}
        outputs = Outputs(plan, host, workers, routers, self._outbound, self.results, self._reporter.report)
        shown = Previews(workers, wanted=previews)
        queues, inbox = self._queues, self._inbox
        read = self._readers.start
        return HostLoop(plan, host, workers, queues, inbox, outputs, self._moves, shown, read, self._reporter.show)

    def _router(self, sender: int, operator: int, port: int) -> AnyRouter:
        def send(host: int, batch: pa.RecordBatch, envelope: Envelope) -> None:
            if host != self._host:
                self._outbound.send(sender, host, batch, envelope)
                return
            self._put_here((operator, port), batch, envelope, may_wait=False)

        def offer(sample: pa.RecordBatch) -> None:
            self._link.report(Sampled(operator, port, sample))

        return make_router(self._plan.edge(operator, port), send, offer)

    def _put_here(self, target: tuple[int, int], batch: pa.RecordBatch, envelope: Envelope, *, may_wait: bool) -> None:
        put_rows(self._queues, self._workers, target, batch, envelope, may_wait=may_wait)

    def _wait_for_room(self, target: tuple[int, int]) -> None:
        operator, port = target
        workers = [worker.index for worker in self._workers.of(operator)]
        self._queues.wait_for_room(workers, port, READ_AHEAD_ROWS)

    def _open_outlet(self, sender: int, host: int, schema: pa.Schema) -> Outlet:
        target = self._plan.operators[sender].target
        assert target is not None
        name = StreamName(self._name.run, self._name.attempt, router_name(sender, self._host), *target)
        return self._outlets.open(host, name, schema)

    def _arrive(self, arrival: Arrival) -> None:
        self._moves.intake.arrive(arrival)
        self._queues.wake()

    def _reading_failed(self, name: str, error: Exception) -> None:
        """The driver may not have heard of it, and would wait for the rows: end this host at any rate."""
        self._inbox.obey(Abort(name, f"{type(error).__name__}: {error}"))

    def _driver_lost(self, error: Exception) -> None:
        """No :class:`Abort`: where only this report was refused, the driver hears of it."""

        def fail() -> None:
            raise FlowFailed(f"host {self._host}", f"the driver did not listen: {error}")

        self._inbox.soon(fail)
