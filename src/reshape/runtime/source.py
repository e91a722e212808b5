"""A source: ordinary Spark tasks over any DataFrame, whose rows go to the hosts instead of a shuffle."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from reshape.exchange.flight import Outlet, connect
from reshape.exchange.router import Router
from reshape.exchange.wire import Envelope, StreamName
from reshape.plan.physical import Edge
from reshape.runtime.edges import FlowAddress, make_router
from reshape.runtime.errors import FlowFailed
from reshape.runtime.flushing import TimedFlush
from reshape.runtime.link import ControlLink, Order, from_text, to_text
from reshape.runtime.ranges import RangeRouter

COUNT_SCHEMA = pa.schema([("rows", pa.int64())])


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
    ) -> None:
        self._edge = edge
        self._flow = flow
        self._attempt = attempt
        self._locations = locations
        self._name = f"source-{source}-{partition}"
        self._retry = retry
        self._link: ControlLink | None = None
        self._router: Router | RangeRouter | None = None
        self._outlets: dict[int, Outlet] = {}
        self._aborted: str | None = None
        self._schema = edge.input.schema

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        link = self._link = ControlLink(
            self._flow.location, self._flow.access, self._flow.name, self._attempt, self._name, self._obey
        )
        try:
            # Rows of the attempt before may be with the hosts already; sending them again would double them.
            if self._retry > 0:
                raise FlowFailed(self._name, "Spark retried a source task whose rows may have been sent already")
            yield self._route(batches, link)
        except FlowFailed as error:
            link.tell("failed", where=error.where, cause=error.cause)
            raise
        except Exception as error:
            cause = self._aborted or f"{type(error).__name__}: {error}"
            link.tell("failed", where=self._name, cause=cause)
            raise
        finally:
            link.close()

    def _route(self, batches: Iterator[pa.RecordBatch], link: ControlLink) -> pa.RecordBatch:
        router = self._router = make_router(self._edge, self._send, self._offer)
        link.start()
        rows = 0
        clock = TimedFlush(router)
        try:
            for batch in batches:
                if self._aborted is not None:
                    raise FlowFailed("another task", self._aborted)
                rows += batch.num_rows
                clock.route(batch if batch.schema.equals(self._schema) else batch.cast(self._schema))
        finally:
            clock.close()
        if isinstance(router, RangeRouter):
            router.finish()
        else:
            router.flush()
        for outlet in self._outlets.values():
            outlet.close()
        return pa.record_batch({"rows": pa.array([rows], pa.int64())}, COUNT_SCHEMA)

    def _send(self, host: int, batch: pa.RecordBatch, envelope: Envelope) -> None:
        outlet = self._outlets.get(host)
        if outlet is None:
            name = StreamName(self._flow.name, self._attempt, self._name, self._edge.operator, self._edge.port)
            client = connect(self._locations[host], self._flow.access)
            outlet = self._outlets[host] = Outlet(client, name, self._schema)
        outlet.send(batch, envelope)

    def _offer(self, sample: pa.RecordBatch) -> None:
        assert self._link is not None
        self._link.tell("sample", operator=self._edge.operator, port=self._edge.port, rows=to_text(sample))

    def _obey(self, order: Order) -> None:
        if order["kind"] == "bounds":
            mine = (self._edge.operator, self._edge.port) == (order["operator"], order["port"])
            if mine and isinstance(self._router, RangeRouter):
                self._router.set_bounds(from_text(order["rows"]))
        elif order["kind"] == "abort":
            self._aborted = order["cause"]
