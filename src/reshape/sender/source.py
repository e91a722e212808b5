"""A source: ordinary Spark tasks over any DataFrame, whose rows go to the hosts instead of a shuffle."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow.flight import FlightClient

from reshape.errors import FlowFailed
from reshape.exchange.errors import ExchangeError
from reshape.exchange.flight import Outlet, connect
from reshape.exchange.wire import Envelope, StreamName
from reshape.plan.physical import Edge
from reshape.protocol.errors import DriverLost, TaskLost
from reshape.protocol.link import ControlLink, Order, from_text, to_text
from reshape.protocol.tables import unpack_table
from reshape.sender.edges import AnyRouter, FlowAddress, make_router
from reshape.sender.flushing import TimedFlush
from reshape.sender.ranges import RangeRouter

COUNT_SCHEMA = pa.schema([("rows", pa.int64())])


class _InputFailed(Exception):
    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def _guarded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches; an error in making them is told from one in sending them."""
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except Exception as error:
            raise _InputFailed(error) from error
        yield batch


class SourceTask:
    """Routes the rows of one partition. It ends when every host has taken the last of its rows."""

    def __init__(
        self,
        edge: Edge,
        source: int,
        flow: FlowAddress,
        attempt: int,
        locations: tuple[str, ...],
        partition: int,
        retry: int,
        stage: int = 0,
    ) -> None:
        self._edge = edge
        self._flow = flow
        self._attempt = attempt
        self._locations = locations
        self._name = f"source-{source}-{partition}"
        self._retry = retry
        self._stage = stage
        self._link: ControlLink | None = None
        self._router: AnyRouter | None = None
        self._outlets: dict[tuple[int, bool], Outlet] = {}  # by host, and whether rows are combined
        self._clients: list[FlightClient] = []
        self._aborted: str | None = None
        self._clock: TimedFlush | None = None
        self._schema = edge.input.schema

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        link = self._link = ControlLink(
            self._flow.location, self._flow.access, self._flow.name, self._attempt, self._name, self._obey
        )
        try:
            # Rows of the attempt before may be with the hosts already; sending them again would double them.
            if self._retry > 0:
                link.tell("retried", where=self._name, stage=self._stage)
                raise TaskLost(self._name, "Spark retried a source task whose rows may have been sent already")
            yield self._route(_guarded(batches), link)
        except _InputFailed as error:
            # Not ours: what the task sees of it is a broken pipe. Spark knows the cause, and fails the source's job.
            raise error.error from None
        except Exception as error:
            if self._aborted is None:
                with contextlib.suppress(pa.ArrowException, DriverLost):  # the task fails with the error itself
                    link.tell_failure(error, self._name)
            raise
        finally:
            link.close()
            for client in self._clients:
                with contextlib.suppress(pa.ArrowException):
                    client.close()

    def _route(self, batches: Iterator[pa.RecordBatch], link: ControlLink) -> pa.RecordBatch:
        router = self._router = make_router(self._edge, self._send, self._offer)
        facts: dict[str, Any] = {"operator": self._edge.operator, "port": self._edge.port, "router": self._name}
        # Before its first row a router is known to the driver and has the newest table.
        table = link.tell("router_started", **facts)
        if table is not None:
            router.use(unpack_table(table))
        rows = 0
        clock = self._clock = TimedFlush(router, lambda: self._report(router, link), self._edge.report_s)
        link.start()
        try:
            for batch in batches:
                if self._aborted is not None:
                    raise FlowFailed("another task", self._aborted)
                rows += batch.num_rows
                clock.route(batch if batch.schema.equals(self._schema) else _fitted(batch, self._schema))
        finally:
            clock.close()
        if isinstance(router, RangeRouter):
            router.await_bounds()
        with clock.between_batches():  # a table that comes later finds no stream to mark, and all rows taken
            router.flush()
            outlets, self._outlets = list(self._outlets.values()), {}
            for outlet in outlets:
                outlet.close()
        link.tell("router_ended", **facts, counts=router.report())
        return pa.record_batch({"rows": pa.array([rows], pa.int64())}, COUNT_SCHEMA)

    def _send(self, host: int, batch: pa.RecordBatch, envelope: Envelope) -> None:
        key = (host, envelope.combined)
        outlet = self._outlets.get(key)
        if outlet is None:
            name = StreamName(self._flow.name, self._attempt, self._name, self._edge.operator, self._edge.port)
            client = connect(self._locations[host], self._flow.access)
            self._clients.append(client)
            outlet = self._outlets[key] = Outlet(client, name, batch.schema, peer=f"host {host}")
        outlet.send(batch, envelope)

    def _report(self, router: AnyRouter, link: ControlLink) -> None:
        """Tell what has been sent so far; one that is lost is followed by the next."""
        facts: dict[str, Any] = {"operator": self._edge.operator, "port": self._edge.port, "router": self._name}
        with contextlib.suppress(pa.ArrowException, DriverLost):
            link.note("router_report", **facts, counts=router.report())

    def _use_table(self, order: Order) -> None:
        """Between two batches; with a fence, also say when all that was sent before has been taken."""
        router, clock, link = self._router, self._clock, self._link
        if router is None or clock is None or link is None:
            return
        version = order["table"]["version"]
        facts: dict[str, Any] = {
            "operator": order["operator"],
            "port": order["port"],
            "router": self._name,
            "version": version,
        }
        with clock.between_batches():
            router.use(unpack_table(order["table"]))
            marked = list(self._outlets.values()) if order["fence"] else []
            for outlet in marked:
                outlet.mark(version)
        link.tell("applied", **facts)
        if order["fence"]:
            for outlet in marked:
                outlet.await_mark(version)
            link.tell("fenced", **facts)

    def _offer(self, sample: pa.RecordBatch) -> None:
        assert self._link is not None
        self._link.tell("sample", operator=self._edge.operator, port=self._edge.port, rows=to_text(sample))

    def _obey(self, order: Order) -> None:
        if order["kind"] == "bounds":
            mine = (self._edge.operator, self._edge.port) == (order["operator"], order["port"])
            if mine and isinstance(self._router, RangeRouter):
                self._router.set_bounds(from_text(order["rows"]))
        elif order["kind"] == "routing":
            if (self._edge.operator, self._edge.port) == (order["operator"], order["port"]):
                with contextlib.suppress(ExchangeError):  # the routing thread meets it too, and tells
                    self._use_table(order)
        elif order["kind"] == "abort":
            self._aborted = order["cause"]
            if isinstance(self._router, RangeRouter):
                self._router.give_up(order["cause"])


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of Spark as the operator knows them: Spark's job may have other names and another time zone."""
    return batch.rename_columns(schema.names).cast(schema)
