"""The driver's end of the control lines: one listener per Spark application, there while a flow may need it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from reshape.driver.once import Once
from reshape.errors import ReshapeError
from reshape.exchange.addresses import AS_NEEDED, Listening
from reshape.exchange.transport.access import Access, Tls
from reshape.exchange.transport.listener import Listener
from reshape.protocol.codec import decode_poll, decode_reports, encode_answer, encode_orders
from reshape.protocol.link import POLL_S
from reshape.protocol.orders import Orders
from reshape.protocol.reports import Answer, Report, Sender


class UnknownFlow(ReshapeError):
    """A task talks about a flow that is not registered here, or not any more."""


class ControlledFlow(Protocol):
    """A flow as its tasks see it."""

    access: Access

    def reported(self, sender: Sender, report: Report) -> Answer | None:
        """A task reports something; the answer is sent back."""

    def orders(self, sender: Sender, after: int, wait_s: float) -> Orders:
        """Orders for a task beyond the number that it knows."""

    def fail(self, where: str, cause: str) -> None:
        """Stop it."""


class DriverService:
    """Listens while at least one flow is registered. Flows are told apart by name, admitted by secret."""

    def __init__(self, address: str, tls: Tls | None = None, listening: Listening = AS_NEEDED) -> None:
        self._address = address
        self._listening = listening
        self._tls = tls
        self._flows: dict[str, ControlledFlow] = {}
        self._needed: dict[str, Callable[[], bool]] = {}
        self._dropped: dict[str, Callable[[], None]] = {}
        self._listener: Listener | None = None
        self._lock = threading.Lock()
        self._once = Once()

    def register(self, name: str, flow: ControlledFlow) -> str:
        """Add a flow; the location that its tasks talk to."""
        with self._lock:
            self._flows[name] = flow
            if self._listener is None:
                self._listener = Listener(
                    self._address,
                    lambda: [registered.access.secret for registered in list(self._flows.values())],
                    self._tls,
                    actions={"report": self._report, "orders": self._orders},
                    notes=self._note,
                    listening=self._listening,
                )
            return self._listener.location

    def keep_while(self, name: str, needed: Callable[[], bool], dropped: Callable[[], None]) -> None:
        """Let a flow go once this says that nobody can run it any more; asked when the next one comes. Then what it
        has left is put away by ``dropped``."""
        self._needed[name] = needed
        self._dropped[name] = dropped

    def drop_unneeded(self) -> None:
        for name, needed in list(self._needed.items()):
            if not needed():
                self.unregister(name)

    def interrupt(self, cause: str) -> None:
        """Stop whatever runs."""
        for flow in list(self._flows.values()):
            flow.fail("the driver", cause)

    def close(self) -> None:
        """Nobody can run any of the flows any more."""
        for name in list(self._flows):
            self.unregister(name)

    def unregister(self, name: str) -> None:
        """Remove a flow; with the last one the listener goes."""
        with self._lock:
            self._flows.pop(name, None)
            self._needed.pop(name, None)
            self._once.forget(name)
            dropped = self._dropped.pop(name, None)
            listener = None if self._flows else self._listener
            self._listener = self._listener if self._flows else None
        if dropped is not None:
            dropped()
        if listener is not None:
            listener.shutdown()

    def _report(self, body: bytes) -> bytes:
        return encode_answer(self._book(body))

    def _note(self, body: bytes) -> None:
        self._book(body)

    def _book(self, body: bytes) -> Answer | None:
        """Book what a call brings; the answer to the last of its reports."""
        message = decode_reports(body)
        flow = self._flow(message.sender)

        def book() -> Answer | None:
            answer: Answer | None = None
            for report in message.reports:
                answer = flow.reported(message.sender, report)
            return answer

        if message.number == 0:
            return book()
        return self._once.book(message.sender, message.line, message.number, message.oldest, book)

    def _orders(self, body: bytes) -> bytes:
        poll = decode_poll(body)
        flow = self._flow(poll.sender)
        for counts in poll.counts:
            flow.reported(poll.sender, counts)
        return encode_orders(flow.orders(poll.sender, poll.after, POLL_S))

    def _flow(self, sender: Sender) -> ControlledFlow:
        try:
            return self._flows[sender.run]
        except KeyError:
            raise UnknownFlow(f"no flow {sender.run!r} here") from None
