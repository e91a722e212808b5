"""The sending ends: a stream of rows, and a line for notes. Each has a connection of its own while it is open."""

from __future__ import annotations

import contextlib
import threading
import time

import pyarrow as pa

from reshape.exchange.errors import CallError, ExchangeError, PeerLost, Unreachable, WireError
from reshape.exchange.transport import sockets
from reshape.exchange.transport.batches import BatchCodec
from reshape.exchange.transport.client import ADMITTED_WITHIN_S, STALL_S, Client, failure_of
from reshape.exchange.transport.frames import Frame, Kind, read_frame, send_frame
from reshape.exchange.wire import Envelope, StreamName
from reshape.exchange.wire import Kind as Message

# How often a sender looks whether the receiver has said something.
LOOK_S = 0.01


class _Line:
    """A connection that frames go up."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pipe = client.take()
        self._pipe.stalled = client.patience()
        sockets.limit(self._pipe.connection, STALL_S)
        self.has_news = self._pipe.has_news

    def send(self, frame: Frame) -> None:
        try:
            send_frame(self._pipe, frame)
        except OSError as error:
            raise self._broke(error) from error

    def read(self) -> Frame:
        """Raises what the listener says has gone wrong."""
        try:
            frame = read_frame(self._pipe)
        except OSError as error:
            raise self._broke(error) from error
        if frame.kind == Kind.FAILED:
            raise failure_of(frame)
        return frame

    def limit(self, seconds: float) -> None:
        self._pipe.stalled = self._client.patience(time.monotonic() + seconds)

    def end(self) -> None:
        """All has been answered."""
        self._client.give_back(self._pipe)

    def cut(self) -> None:
        """What has come already can be read all the same."""
        sockets.cut(self._pipe.connection)

    def _broke(self, error: OSError) -> Unreachable:
        return Unreachable(f"the connection to {self._client.location} broke ({error})")


class NoteLine:
    """Many small messages that nobody answers.

    What is sent may be lost with the line, so it is for what the next message replaces. ``close`` returns when all
    have been taken.
    """

    def __init__(self, client: Client) -> None:
        self._line = _Line(client)

    def send(self, body: bytes) -> None:
        try:
            if self._line.has_news():  # nothing comes but the word that something failed
                self._line.read()
            self._line.send(Frame(Kind.NOTE, body=body))
        except BaseException:
            self._line.cut()
            raise

    def close(self) -> None:
        try:
            self._line.limit(ADMITTED_WITHIN_S)
            with contextlib.suppress(Unreachable):  # reading tells the cause, sending only that there is one
                self._line.send(Frame(Kind.NOTES_END))
            self._line.read()
        except BaseException:
            self._line.cut()
            raise
        self._line.end()


class Outlet:
    """The sending end of one stream. ``close`` returns when the receiver has taken the last message.

    One thread sends; another one may wait for a mark meanwhile.
    """

    def __init__(self, client: Client, name: StreamName, schema: pa.Schema, peer: str = "") -> None:
        self._name = name
        self._sent = 0
        self._marked = -1  # the newest version of which the receiver has taken the mark
        self._ended = False  # the receiver has taken the last message
        self._failure: CallError | None = None
        self._look_at = 0.0
        self._reading = threading.Lock()
        self._peer = peer or f"the receiver of operator {name.operator}"
        self._codec = BatchCodec(schema)
        try:
            self._line = _Line(client)
            self._line.send(Frame(Kind.STREAM, name.pack(), schema.serialize()))
        except CallError as error:
            raise self._told(error, f"router {name.router} cannot open a stream") from error

    def send(self, batch: pa.RecordBatch, envelope: Envelope) -> None:
        self._sent = envelope.sequence + 1
        try:
            self._send(envelope, self._codec.encode(batch))
        except (CallError, WireError, pa.ArrowException) as error:
            raise self._broken(error) from error

    def mark(self, version: int) -> None:
        """Say that all that follows is sent under this routing version."""
        try:
            self._send(Envelope(Message.MARKER, version, 0))
        except CallError as error:
            raise self._broken(error) from error

    def await_mark(self, version: int) -> None:
        """Return when the receiver has taken everything that was sent before the mark of this version."""
        try:
            with self._reading:
                while self._marked < version:
                    if self._ended:
                        raise PeerLost(self._peer, "it ended the stream while a mark was under way")
                    self._read()
        except CallError as error:
            raise self._broken(error) from error

    def close(self) -> None:
        try:
            self._send(Envelope(Message.END, 0, self._sent))
            with self._reading:
                while not self._ended:
                    self._read()
        except CallError as error:
            raise self._broken(error) from error
        self._line.end()

    def _send(self, envelope: Envelope, rows: pa.Buffer | bytes = b"") -> None:
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_S
            if self._reading.acquire(blocking=False):  # else a thread that waits for a mark takes it in
                try:
                    self._take_in()
                finally:
                    self._reading.release()
        if self._failure is not None:
            raise self._failure
        try:
            self._line.send(Frame(Kind.ROWS, envelope.pack(), rows))
        except Unreachable:
            self._line.cut()
            with self._reading:
                self._take_in()  # the cause, if the receiver has said it
            raise

    def _take_in(self) -> None:
        while self._line.has_news():
            self._read()

    def _read(self) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            frame = self._line.read()
            if frame.kind == Kind.MARKED:
                self._marked = max(self._marked, Envelope.unpack(frame.head).version)
            elif frame.kind == Kind.ANSWER:
                self._ended = True
            else:
                raise Unreachable(f"an answer of kind {frame.kind.name} came to a stream")
        except (CallError, WireError) as error:
            self._failure = error if isinstance(error, CallError) else Unreachable(str(error))
            raise self._failure from error

    def _broken(self, error: Exception) -> ExchangeError:
        if not self._ended:
            self._line.cut()
        return self._told(error, f"the stream from router {self._name.router}")

    def _told(self, error: Exception, what: str) -> ExchangeError:
        message = f"{what} to operator {self._name.operator} broke: {error}"
        # A receiver that raises is there to say so; only one that is not there is lost.
        return PeerLost(self._peer, message) if isinstance(error, Unreachable) else ExchangeError(message)
