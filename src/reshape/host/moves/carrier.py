"""Brings state and rows to a worker, be it here or on another host, and says what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reshape.exchange.errors import PeerLost
from reshape.exchange.wire import Purpose, StreamName
from reshape.host.inbox import Inbox
from reshape.host.moves.intake import Arrival, Intake, Label, Then
from reshape.host.moves.peers import Parcel, Peers
from reshape.protocol.orders import InputOrder, TransferOrder
from reshape.protocol.reports import Report

# What has no other place to be is sent so often before the flow fails.
TRIES = 5

NO_LABEL = Label()


class Carrier:
    """Used by the working thread. ``report`` tells the driver what must not be lost, without waiting."""

    def __init__(
        self,
        host: int,
        host_of_workers: tuple[int, ...],
        stream: StreamName,
        peers: Peers,
        intake: Intake,
        inbox: Inbox,
        report: Callable[[Report], None],
    ) -> None:
        self.host = host
        self.report = report
        self._host_of = host_of_workers
        self._stream = stream
        self._peers = peers
        self._intake = intake
        self._inbox = inbox

    def send(
        self,
        purpose: Purpose,
        order: InputOrder,
        worker: int,
        parcel: Parcel,
        then: Then,
        label: Label = NO_LABEL,
    ) -> None:
        """Parts to a worker. ``then`` is called in the working thread, with what went wrong or None."""
        name = replace(
            self._stream,
            operator=order.operator,
            port=order.port,
            purpose=purpose,
            transfer=order.transfer if isinstance(order, TransferOrder) else 0,
            worker=worker,
        )
        later = self._later(then)
        host = self._host_of[worker]
        if host != self.host:
            self._peers.send(host, name, replace(parcel, metadata=label.pack()), later)
            return
        self._intake.arrive(
            Arrival(name, label, list(parcel.parts), version=parcel.version, combined=parcel.combined, then=later)
        )
        self._inbox.soon(lambda: None)

    def send_surely(
        self,
        purpose: Purpose,
        order: InputOrder,
        worker: int,
        parcel: Parcel,
        then: Then,
        label: Label = NO_LABEL,
    ) -> None:
        """Send what has no other place to be; several times if need be."""
        tries = 0

        def done(failure: Exception | None) -> None:
            nonlocal tries
            tries += 1
            if failure is None or isinstance(failure, PeerLost) or tries == TRIES:
                then(failure)
            else:
                self.send(purpose, order, worker, parcel, done, label)

        self.send(purpose, order, worker, parcel, done, label)

    def _later(self, then: Then) -> Then:
        """The same, called in the working thread."""
        return lambda failure: self._inbox.soon(lambda: then(failure))


def reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
