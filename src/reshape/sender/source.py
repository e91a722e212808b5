"""A source's rows on their way to the hosts, in the place of a shuffle: read by ordinary Spark tasks over any
DataFrame, or by the hosts themselves."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from reshape.errors import FlowFailed
from reshape.exchange.errors import CallError, ExchangeError, HostClosed
from reshape.exchange.transport.streams import Outlet
from reshape.exchange.wire import Envelope, StreamName
from reshape.plan.physical import Edge
from reshape.protocol.errors import Aborted, DriverLost
from reshape.protocol.link import ControlLink, FlowAddress
from reshape.protocol.orders import Abort, Enough, InputOrder, Order, Pause, ReadSource, Resume, UseBounds, UseTable
from reshape.protocol.reports import (
    Fenced,
    MayBegin,
    NewestTable,
    Report,
    RouterCounted,
    RouterEnded,
    RouterStarted,
    Sampled,
    SourceBegins,
    TableApplied,
)
from reshape.sender.edges import make_router
from reshape.sender.flushing import TimedFlush
from reshape.sender.outlets import Outlets
from reshape.sender.ranges import RangeRouter


@dataclass(frozen=True, slots=True)
class HereToo:
    """The host that a sender runs in: rows for its workers need no stream."""

    host: int
    put: Callable[[pa.RecordBatch, Envelope], None]


class InputFailed(Exception):
    """Spark could not make a batch. It knows the cause, and fails the source's job with it: nothing to report."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class SourceTask:
    """Routes rows of a source. It ends when every host has taken the last of them."""

    def __init__(
        self,
        edge: Edge,
        flow: FlowAddress,
        attempt: int,
        locations: tuple[str, ...],
        name: str,
        here: HereToo | None = None,
    ) -> None:
        self._here = here
        self._edge = edge
        self._name = name
        self._target = (edge.operator, edge.port)
        self._stream = StreamName(flow.name, attempt, name, edge.operator, edge.port)
        self._outlets = Outlets(locations, flow.access)
        self._streams: dict[tuple[int, bool], Outlet] = {}  # by host, and whether rows are combined
        self._aborted: str | None = None
        self._enough = False  # rows that were not sent yet are not wanted any more
        self._may_send = threading.Event()  # unless the flow is paused
        self._may_send.set()
        self._router = make_router(edge, self._send, self._offer_sample)
        self.link = ControlLink(flow, attempt, name, self._obey)
        self._read: Callable[[], int] | None = None
        self._clock = TimedFlush(self._router, self._report_counts, edge.report_s, self._broke_early)

    def begin(self, task: SourceBegins) -> None:
        """Return when this task, and no other run of it, is the one that sends its partition; raise when none is. A
        copy that Spark has started beside it waits here until Spark ends it."""
        try:
            while True:
                answer = self.link.ask(task)
                if not isinstance(answer, MayBegin):
                    raise Aborted(self._name, "the driver wants no more rows of it in this attempt")
                if answer.now:
                    return
        except BaseException:
            self._close()
            raise

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        last_word: Callable[[int], Report] | None = None,
        read: Callable[[], int] | None = None,
    ) -> int:
        """Send all rows; their number. ``last_word`` makes a report of it, told when hosts have taken them all.

        ``read`` tells how many rows of the source were read for the batches so far, where those are not all of them.
        """
        self._read = read
        try:
            rows = self._route(batches)
            whole = rows if read is None else read()
            ended = RouterEnded(*self._target, self._name, self._router.counts(), whole)
            self.link.report(ended, *([] if last_word is None else [last_word(rows)]))
            return rows
        except InputFailed as error:
            raise error.error from None
        except HostClosed:  # the one that this runs in, whose own failure it would hide
            raise
        except Exception as error:
            self._tell(error)
            raise
        finally:
            self._close()

    @property
    def sampled_columns(self) -> tuple[int, ...] | None:
        """The columns that a sort wants a sample of, before the first rows; None where nothing is sorted."""
        ordering = self._edge.input.ordering
        return None if ordering is None else ordering.columns

    def offer(self, keys: pa.RecordBatch) -> None:
        """A sample of those columns from all that will be routed here."""
        if isinstance(self._router, RangeRouter) and self.sampled_columns is not None:
            schema = pa.schema([self._edge.input.schema.field(column) for column in self.sampled_columns])
            self._router.offer(_fitted(keys, schema))

    def abandon(self, cause: str) -> None:
        """Send no more; for another thread to say."""
        self._abort(cause)

    def _close(self) -> None:
        self._clock.stop()
        self.link.close()
        self._outlets.close()

    def _route(self, batches: Iterator[pa.RecordBatch]) -> int:
        router, clock, schema = self._router, self._clock, self._edge.input.schema
        # Before its first row a router is known to the driver and has the newest table.
        answer = self.link.ask(RouterStarted(*self._target, self._name))
        if isinstance(answer, NewestTable):
            router.use(answer.table)
            self._enough = answer.enough
            if answer.paused:
                self._may_send.clear()
        rows = 0
        clock.start()
        self.link.start()
        for batch in () if self._enough else batches:
            self._may_send.wait()  # the end of the attempt ends it too
            if self._enough:
                break
            if self._aborted is not None:
                raise FlowFailed("another task", self._aborted)
            rows += batch.num_rows
            read = rows if self._read is None else self._read()
            clock.route(batch if batch.schema.equals(schema) else _fitted(batch, schema), read)
        clock.close()
        if isinstance(router, RangeRouter):
            router.await_bounds()
        with clock.between_batches():  # a table that comes later finds no stream to mark, and all rows taken
            router.flush()
            streams, self._streams = list(self._streams.values()), {}
            for stream in streams:
                stream.close()
        return rows

    def _send(self, host: int, batch: pa.RecordBatch, envelope: Envelope) -> None:
        if self._here is not None and host == self._here.host:
            self._here.put(batch, envelope)
            return
        key = (host, envelope.combined)
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = self._outlets.open(host, self._stream, batch.schema)
        stream.send(batch, envelope)

    def _report_counts(self) -> None:
        """Tell what has been sent so far; one that is lost is followed by the next."""
        with self._clock.between_batches():
            counts, read = self._router.counts(), self._clock.settled
        with contextlib.suppress(CallError, DriverLost):
            self.link.note(RouterCounted(*self._target, self._name, counts, read))

    def _offer_sample(self, sample: pa.RecordBatch) -> None:
        self.link.report(Sampled(*self._target, sample))

    def _obey(self, order: Order) -> None:
        match order:
            case UseBounds():
                if (order.operator, order.port) == self._target and isinstance(self._router, RangeRouter):
                    self._router.set_bounds(order.rows)
            case UseTable():
                if (order.operator, order.port) == self._target:
                    self._try_table(order)
            case Abort():
                self._abort(order.cause)
            case Enough():
                self._enough = True
                self._may_send.set()
            case Pause():
                self._may_send.clear()
            case Resume():
                self._may_send.set()
            case InputOrder() | ReadSource():
                pass  # for the working thread of a host

    def _tell(self, error: Exception) -> None:
        if self._aborted is None:
            with contextlib.suppress(CallError, DriverLost):  # the task fails with the error itself
                self.link.report_failure(error, self._name)

    def _broke_early(self, error: Exception) -> None:
        """A stream broke while no batch was routed. The routing thread meets it with its next batch, which may be long
        in coming."""
        if not isinstance(error, HostClosed):
            self._tell(error)

    def _abort(self, cause: str) -> None:
        self._aborted = cause
        self._may_send.set()
        if isinstance(self._router, RangeRouter):
            self._router.give_up(cause)

    def _try_table(self, order: UseTable) -> None:
        """What goes wrong here must not end the thread that hears orders."""
        try:
            self._use_table(order)
        except ExchangeError as error:
            with self._clock.between_batches():
                at_work = bool(self._streams)
            if at_work:  # a router that closes its streams ends the wait for a mark without harm
                self._broke_early(error)
        except (CallError, DriverLost) as error:
            self._abort(f"the driver did not listen: {error}")

    def _use_table(self, order: UseTable) -> None:
        """Between two batches; with a fence, also say when all that was sent before has been taken."""
        version = order.table.version
        with self._clock.between_batches():
            self._router.use(order.table)
            marked = list(self._streams.values()) if order.fence else []
            for stream in marked:
                stream.mark(version)
        self.link.report(TableApplied(*self._target, self._name, version))
        if order.fence:
            for stream in marked:
                stream.await_mark(version)
            self.link.report(Fenced(*self._target, self._name, version))


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of Spark as the operator knows them: Spark's job may have other names and another time zone."""
    return batch.rename_columns(schema.names).cast(schema)
