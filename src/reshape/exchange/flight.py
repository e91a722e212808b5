"""Arrow Flight between tasks: one listener per host, one stream per sender and input.

Flight was chosen over plain sockets for its flow control, TLS and wire format. Every call carries
the secret of its run; a call without it is refused before anybody here looks at what it brings.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import socket
import stat
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import flight

from reshape.exchange.addresses import AS_NEEDED, Listening, location
from reshape.exchange.errors import ExchangeError, PeerLost, PortsTaken, WireError
from reshape.exchange.wire import Envelope, Kind, StreamName

LOG = logging.getLogger(__name__)

_HEADER = "authorization"
_NO_COLUMNS = pa.schema([])
_NOTES = flight.FlightDescriptor.for_path("notes")
# What Flight raises when a stream breaks: its own errors, Arrow's, and plain OSErrors for lost connections.
_BROKEN = (pa.ArrowException, flight.FlightError, OSError)
# A sender that still holds its stream open when the listener closes gets this long to end it by itself.
GRACE_S = 0.5
# An error's text; gRPC allows 16 KiB, and each character may take four bytes.
MESSAGE_CHARS = 2_000
# Calls end at once when their connection is cut; this only bounds the wait for a receiver that is stuck.
SHUTDOWN_S = 10.0
# A machine that vanishes closes no connection. Rows that nobody has acknowledged for LOST_MS end the stream (gRPC takes
# the keepalive's limit for that too); one that only waits is asked for a sign of life. Flight's servers put up with
# such a question once in five minutes and hang up on whoever asks more often.
LOST_MS = 20_000
_KEEPALIVE = [("grpc.keepalive_time_ms", 330_000), ("grpc.keepalive_timeout_ms", LOST_MS)]


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM texts. All listeners of a run share one certificate, whose name the clients expect. ``mutual``: clients show
    it as well."""

    certificate: str
    key: str = field(repr=False)
    authority: str
    name: str
    mutual: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """What it takes to talk to the tasks of a run."""

    secret: str
    tls: Tls | None = None

    def __repr__(self) -> str:
        return f"Access(secret=..., tls={'on' if self.tls else 'off'})"


class _Gate(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses calls without the secret of a run that is known here."""

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        self._secrets = secrets

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> None:
        given = headers.get(_HEADER, [""])[0].encode()
        if not any([hmac.compare_digest(given, f"Bearer {secret}".encode()) for secret in self._secrets()]):  # noqa: C419
            LOG.warning("a call without the secret of a run that is known here was refused")
            raise flight.FlightUnauthenticatedError("this run's secret is missing or wrong")


class _Bearer(flight.ClientMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, secret: str) -> None:
        self._secret = secret

    def start_call(self, info: Any) -> flight.ClientMiddleware:
        return _BearerHeader(self._secret)


class _BearerHeader(flight.ClientMiddleware):  # type: ignore[misc]
    def __init__(self, secret: str) -> None:
        self._secret = secret

    def sending_headers(self) -> dict[str, str]:
        return {_HEADER: f"Bearer {self._secret}"}


class Receiver(Protocol):
    """Takes the messages of one stream in order; may block, which makes the sender wait."""

    def accept(self, batch: pa.RecordBatch, envelope: Envelope) -> None: ...

    def close(self) -> None:
        """The sender has closed the stream after its last message. Not called for a stream that broke off."""


class Listener(flight.FlightServerBase):  # type: ignore[misc]
    """Listens on one address for streams of rows and for control actions."""

    def __init__(
        self,
        address: str,
        secrets: Callable[[], Iterable[str]],
        tls: Tls | None = None,
        open_stream: Callable[[StreamName, pa.Schema], Receiver] | None = None,
        actions: Mapping[str, Callable[[bytes], bytes]] | None = None,
        notes: Callable[[bytes], None] | None = None,
        listening: Listening = AS_NEEDED,
    ) -> None:
        """``notes`` takes the messages of :class:`NoteLine`, in any thread, those of one line in order."""
        self._open_stream = open_stream
        self._actions = dict(actions or {})
        self._notes = notes
        self._scheme = "grpc+tls" if tls else "grpc"
        self._address = address
        self.closing = False  # senders that are turned away from now on are told that nobody is here
        self._open(listening, tls, _Gate(secrets))

    def _open(self, listening: Listening, tls: Tls | None, gate: _Gate) -> None:
        options: dict[str, Any] = {"middleware": {"gate": gate}}
        if tls:
            options["tls_certificates"] = [(tls.certificate.encode(), tls.key.encode())]
        if tls and tls.mutual:
            options |= {"verify_client": True, "root_certificates": tls.authority.encode()}
        bind = listening.bind or self._address
        for port in range(listening.first, listening.last + 1):
            place = location(self._scheme, bind, port)
            try:
                super().__init__(place, **options)
            except pa.ArrowException as error:
                failure = error
            else:
                return
        raise PortsTaken(bind, listening.first, listening.last, str(failure)) from failure

    @property
    def location(self) -> str:
        return location(self._scheme, self._address, self.port)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        try:
            if descriptor == _NOTES:
                self._take_notes(reader)
            else:
                self._receive(descriptor, reader, writer)
        except Exception as error:
            if self.closing:  # what goes wrong now has its cause elsewhere
                raise flight.FlightUnavailableError(f"the receiver is closing ({error})"[:MESSAGE_CHARS]) from None
            raise _in_short(error) from None

    def _receive(self, descriptor: Any, reader: Any, writer: Any) -> None:
        if self._open_stream is None:
            raise flight.FlightServerError("no streams are taken here")
        receiver = self._open_stream(StreamName.unpack(descriptor.command), reader.schema)
        taken = 0
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:  # the sender was killed or gave up: a good end has a message of its own
                return
            if chunk.app_metadata is None:
                raise WireError("a message came without an envelope")
            envelope = Envelope.unpack(chunk.app_metadata.to_pybytes())
            if envelope.kind != Kind.MARKER and envelope.sequence != taken:
                # Rows that nobody misses would make the flow wait for ever, or its result wrong.
                missing = envelope.sequence > taken
                raise WireError(
                    f"message {taken if missing else envelope.sequence} of a stream "
                    f"{'is missing' if missing else 'came twice'}: {taken} have been taken"
                )
            if envelope.kind == Kind.END:
                receiver.close()
                return
            if envelope.kind == Kind.MARKER:  # everything before it has been taken
                writer.write(chunk.app_metadata)
                continue
            rows = -1 if chunk.data is None else chunk.data.num_rows
            if rows != envelope.rows:
                raise WireError(f"an envelope for {envelope.rows} rows came with {max(rows, 0)} rows")
            receiver.accept(chunk.data, envelope)
            taken += 1

    def _take_notes(self, reader: Any) -> None:
        if self._notes is None:
            raise flight.FlightServerError("no notes are taken here")
        for chunk in reader:
            self._notes(chunk.app_metadata.to_pybytes())

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        handler = self._actions.get(action.type)
        LOG.debug("action %s at %s", action.type, self.location)
        if handler is None:
            LOG.warning("an action that nobody handles was dropped: %r", action.type)
            raise flight.FlightServerError(f"unknown action {action.type!r}")
        try:
            return [handler(action.body.to_pybytes())]
        except Exception as error:
            raise _in_short(error) from None

    def shutdown(self) -> None:
        """Stop listening and end all calls. Flight itself waits for ever for a sender that keeps its stream open."""
        ending = threading.Thread(target=super().shutdown, name="reshape-shutdown", daemon=True)
        port = self.port
        ending.start()
        ending.join(GRACE_S)
        if ending.is_alive():
            _cut_connections(port)
            ending.join(SHUTDOWN_S)
        if ending.is_alive():
            warnings.warn(
                f"a call to {self.location} has not ended {SHUTDOWN_S:.0f} s after its connection was cut",
                ResourceWarning,
                stacklevel=2,
            )


def _in_short(error: Exception) -> flight.FlightServerError:
    """Flight sends tracebacks along, and gRPC drops the whole message when it gets longer than its headers may be."""
    return flight.FlightServerError((str(error) or type(error).__name__)[:MESSAGE_CHARS])


def _cut_connections(port: int) -> None:
    """Cut the connections that this process has accepted on a port; Flight has no call for that."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.stat(f"/proc/self/fd/{name}").st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.getsockname()[1] == port:
                    connection.getpeername()  # raises for the listening socket
                    connection.shutdown(socket.SHUT_RDWR)


def connect(location: str, access: Access) -> flight.FlightClient:
    options: dict[str, Any] = {"middleware": [_Bearer(access.secret)], "generic_options": _KEEPALIVE}
    if access.tls:
        options |= {"tls_root_certs": access.tls.authority.encode(), "override_hostname": access.tls.name}
        if access.tls.mutual:
            options |= {"cert_chain": access.tls.certificate.encode(), "private_key": access.tls.key.encode()}
    return flight.connect(location, **options)


def call(client: flight.FlightClient, action: str, body: bytes, timeout_s: float) -> bytes:
    """One control action and its answer."""
    options = flight.FlightCallOptions(timeout=timeout_s)
    results = list(client.do_action(flight.Action(action, body), options))
    return bytes(results[0].body.to_pybytes()) if results else b""


class NoteLine:
    """Many small messages that nobody answers: one call for all of them, where an action is a call for each.

    What is sent may be lost with the line, so it is for what the next message replaces. ``close`` returns when all
    have been taken.
    """

    def __init__(self, client: flight.FlightClient) -> None:
        self._writer, _ = client.do_put(_NOTES, _NO_COLUMNS)

    def send(self, body: bytes) -> None:
        self._writer.write_metadata(body)

    def close(self) -> None:
        self._writer.close()


class Outlet:
    """The sending end of one stream. ``close`` returns when the receiver has taken the last message."""

    def __init__(self, client: flight.FlightClient, name: StreamName, schema: pa.Schema, peer: str = "") -> None:
        self._name = name
        self._sent = 0
        self._peer = peer or f"the receiver of operator {name.operator}"
        try:
            descriptor = flight.FlightDescriptor.for_command(name.pack())
            self._writer, self._reader = client.do_put(descriptor, schema)
        except _BROKEN as error:
            raise self._broken(error, f"router {name.router} cannot open a stream") from error

    def send(self, batch: pa.RecordBatch, envelope: Envelope) -> None:
        self._sent = envelope.sequence + 1
        try:
            self._writer.write_with_metadata(batch, envelope.pack())
        except _BROKEN as error:
            raise self._broken(error, f"the stream from router {self._name.router}") from error

    def mark(self, version: int) -> None:
        """Say that all that follows is sent under this routing version."""
        try:
            self._writer.write_metadata(Envelope(Kind.MARKER, version, 0).pack())
        except _BROKEN as error:
            raise self._broken(error, f"the stream from router {self._name.router}") from error

    def await_mark(self, version: int) -> None:
        """Return when the receiver has taken everything that was sent before the mark of this version."""
        while True:
            try:
                answer = self._reader.read()
            except _BROKEN as error:
                raise self._broken(error, f"the stream from router {self._name.router}") from error
            if answer is None:
                raise PeerLost(self._peer, "it ended the stream while a mark was under way")
            if Envelope.unpack(answer.to_pybytes()).version >= version:
                return

    def close(self) -> None:
        try:
            with contextlib.suppress(*_BROKEN):  # closing tells the cause, writing only that there is one
                self._writer.write_metadata(Envelope(Kind.END, 0, self._sent).pack())
            self._writer.close()
        except _BROKEN as error:
            raise self._broken(error, f"the stream from router {self._name.router}") from error

    def _broken(self, error: Exception, what: str) -> ExchangeError:
        message = f"{what} to operator {self._name.operator} broke: {error}"
        # A receiver that raises is there to say so; only one that is not there is unavailable.
        return (
            PeerLost(self._peer, message)
            if isinstance(error, flight.FlightUnavailableError)
            else ExchangeError(message)
        )
