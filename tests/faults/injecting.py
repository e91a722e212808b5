"""Puts one fault into a run: looks at every message where it is sent, and strikes at the right one.

Everything is done where a process meets the network or the disk: below that it is the code that runs on Spark.
"""

from __future__ import annotations

import errno
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from reshape.driver.service import DriverService
from reshape.exchange.errors import Unreachable
from reshape.exchange.spill import Segment
from reshape.exchange.transport import client
from reshape.exchange.transport.listener import Listener
from reshape.exchange.transport.streams import NoteLine, Outlet
from reshape.exchange.wire import Envelope
from reshape.protocol import link
from reshape.protocol.codec import decode_orders, decode_poll, decode_reports
from reshape.protocol.reports import Leaving

from .plan import Channel, Fault, Kind, Place

# What is late waits for so many other reports, or for so long when there are none to come.
OVERTAKEN_BY = 5
LATE_S = 0.2

_HOST = re.compile(r"host-?(\d+)$")


def killed(side: str) -> SystemExit:
    """A process ends without a word, and so do threads that end with this."""
    return SystemExit(f"{side} was killed")


def side_of(task: str) -> str:
    """The process that a task, a router or a reader runs in: "host-1", or "source-0-1" for a source task."""
    host = _HOST.search(task)
    return f"host-{host[1]}" if host else task


class Injector:
    """One fault in one run. ``kill`` ends the process of a side, ``kill_driver`` the driver's; ``cut`` resets the
    connections to a location."""

    def __init__(self, fault: Fault | None) -> None:
        self.fault = fault
        self.struck = threading.Event()
        self.seen: Counter[Place] = Counter()
        self.dead: set[str] = set()
        self.on_strike: Callable[[], None] = lambda: None
        self.kill: Callable[[str], None] = lambda side: None
        self.kill_driver: Callable[[], None] = lambda: None
        self.cut: Callable[[str], None] = lambda location: None
        self.cut_after: bytes | None = None  # connections to the driver are reset when it has booked this
        self._lock = threading.Lock()
        self._news = threading.Condition()
        self._heard = 0
        self._echo: tuple[int, bytes] | None = None

    @property
    def holds_sources(self) -> bool:
        """How many counts are told follows from the time alone: sources have rows until it has struck."""
        return self.fault is not None and self.fault.place.channel is Channel.NOTE and not self.struck.is_set()

    def strikes(self, channel: Channel, names: Collection[str]) -> Kind | None:
        """A message of these records passes by."""
        with self._lock:
            for name in names:
                place = Place(channel, name)
                self.seen[place] += 1
                if self.fault is not None and (place, self.seen[place]) == (self.fault.place, self.fault.nth):
                    self.struck.set()
                    self.on_strike()
                    return self.fault.kind
        return None

    def check_alive(self, side: str) -> None:
        if side in self.dead:
            raise killed(side)

    def strike_side(self, kind: Kind, side: str) -> None:
        if kind is Kind.GONE:
            self.kill(side)
            self.check_alive(side)
        elif kind is Kind.DRIVER_GONE:
            self.kill_driver()

    def heard(self) -> bytes | None:
        """The driver has got a report of any kind; the one that comes to it once more now."""
        with self._news:
            self._heard += 1
            self._news.notify_all()
            if self._echo is None or self._heard < self._echo[0]:
                return None
            again, self._echo = self._echo[1], None
            return again

    def wait_until_late(self) -> None:
        with self._news:
            until = self._heard + OVERTAKEN_BY
            self._news.wait_for(lambda: self._heard >= until, LATE_S)

    def echo(self, body: bytes) -> None:
        """This comes once more when others have been heard."""
        with self._news:
            self._echo = (self._heard + OVERTAKEN_BY, body)

    @contextmanager
    def built_in(self) -> Iterator[None]:
        with ExitStack() as stack:
            for make in (_in_calls, _in_notes, _at_the_driver, _in_streams, _on_disk):
                stack.enter_context(make(self))
            yield


def _broke() -> Unreachable:
    return Unreachable("the connection broke (a fault of this test)")


def _in_calls(injector: Injector) -> Any:
    """Reports and polls of tasks."""
    call = client.call

    def reporting(body: bytes, send: Callable[[], bytes]) -> bytes:
        message = decode_reports(body)
        side = side_of(message.sender.task)
        if side in injector.dead and isinstance(message.reports[0], Leaving):
            raise _broke()
        injector.check_alive(side)
        kind = injector.strikes(Channel.REPORT, [type(report).__name__ for report in message.reports])
        if kind is None:
            return send()
        injector.strike_side(kind, side)
        if kind is Kind.LATE:
            injector.wait_until_late()
        elif kind is Kind.CUT:
            injector.cut_after = body
        elif kind is Kind.ECHOED:
            injector.echo(body)
        if kind is Kind.LOST:
            raise _broke()
        answer = send()
        if kind is Kind.UNANSWERED:
            raise _broke()
        return send() if kind is Kind.DOUBLED else answer

    last_orders: dict[str, bytes] = {}

    def polling(body: bytes, send: Callable[[], bytes]) -> bytes:
        task = decode_poll(body).sender.task
        injector.check_alive(side_of(task))
        if task in last_orders:
            return last_orders.pop(task)
        answer = send()
        injector.check_alive(side_of(task))
        kind = injector.strikes(Channel.ORDER, [type(order).__name__ for order in decode_orders(answer).orders])
        if kind is not None:
            injector.strike_side(kind, side_of(task))
        if kind is Kind.LOST:
            raise _broke()
        if kind is Kind.LATE:
            injector.wait_until_late()
        if kind is Kind.DOUBLED:
            last_orders[task] = answer
        return answer

    def faulty(to: client.Client, action: str, body: bytes, timeout_s: float) -> bytes:
        def send() -> bytes:
            return call(to, action, body, timeout_s)

        return reporting(body, send) if action == "report" else polling(body, send)

    return patch.object(link, "call", faulty)


def _in_notes(injector: Injector) -> Any:
    """Counts of tasks."""
    send = NoteLine.send

    def faulty(line: NoteLine, body: bytes) -> None:
        message = decode_reports(body)
        side = side_of(message.sender.task)
        injector.check_alive(side)
        kind = injector.strikes(Channel.NOTE, [type(message.reports[0]).__name__])
        if kind is not None:
            injector.strike_side(kind, side)
        if kind is Kind.LOST:
            raise _broke()
        if kind is Kind.LATE:
            injector.wait_until_late()
        send(line, body)
        if kind is Kind.DOUBLED:
            send(line, body)
        elif kind is Kind.ECHOED:
            injector.echo(body)

    return patch.object(NoteLine, "send", faulty)


def _at_the_driver(injector: Injector) -> Any:
    book = DriverService._book

    def counting(service: DriverService, body: bytes) -> Any:
        answer = book(service, body)
        if body == injector.cut_after:
            injector.cut_after = None
            injector.cut("driver")
        again = injector.heard()
        if again is not None:
            book(service, again)
        return answer

    return patch.object(DriverService, "_book", counting)


@contextmanager
def _in_streams(injector: Injector) -> Iterator[None]:
    send, close = Outlet.send, Outlet.close

    def faulty(outlet: Outlet, batch: pa.RecordBatch, envelope: Envelope) -> None:
        side = side_of(outlet._name.router)
        injector.check_alive(side)
        kind = injector.strikes(Channel.STREAM, [outlet._name.purpose])
        if kind is not None:
            injector.strike_side(kind, side)
        if kind is Kind.LOST:
            outlet._sent += 1
            return
        if kind is Kind.LATE:
            injector.wait_until_late()
        elif kind is Kind.CUT:
            injector.cut(outlet._peer)
        send(outlet, batch, envelope)
        if kind is Kind.DOUBLED:
            send(outlet, batch, envelope)

    def closing(outlet: Outlet) -> None:
        injector.check_alive(side_of(outlet._name.router))
        close(outlet)

    with patch.object(Outlet, "send", faulty), patch.object(Outlet, "close", closing):
        yield


def _on_disk(injector: Injector) -> Any:
    write = Segment._write_stream

    def faulty(segment: Segment, batch: pa.RecordBatch) -> None:
        kind = injector.strikes(Channel.SPILL, ["write"])
        if kind is Kind.DISK_FULL:
            raise OSError(errno.ENOSPC, "No space left on device")
        if kind is Kind.GONE:
            injector.kill("host-0")
        write(segment, batch)

    return patch.object(Segment, "_write_stream", faulty)


def cut_connections(listener: Listener) -> None:
    """Reset all that it has accepted."""
    with listener._changed:
        listener._cut()
