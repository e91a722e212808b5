"""What an admitted connection asks for: a call, a note, or a stream of rows, one after the other."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from reshape.exchange.errors import WireError
from reshape.exchange.transport import sockets
from reshape.exchange.transport.batches import BatchCodec, read_schema
from reshape.exchange.transport.frames import Cause, Frame, Kind, failed, read_frame, send_frame
from reshape.exchange.transport.pipes import Pipe
from reshape.exchange.wire import Envelope, StreamName
from reshape.exchange.wire import Kind as Message

LOG = logging.getLogger(__name__)

# A sender that is told why its stream has ended finds the cause when it has sent the message that it is at.
DRAIN_S = 2.0


class Receiver(Protocol):
    """Takes the messages of one stream in order; may block, which makes the sender wait."""

    def accept(self, batch: pa.RecordBatch, envelope: Envelope) -> None: ...

    def close(self) -> None:
        """The sender has closed the stream after its last message. Not called for a stream that broke off."""


class _BrokenOff(Exception):
    """The connection has ended, and nothing else: a stream's good end has a message of its own."""


@dataclass(slots=True)
class Services:
    """What a listener does for those who are let in. ``closing``: senders that are turned away from now on are told
    that nobody is here."""

    open_stream: Callable[[StreamName, pa.Schema], Receiver] | None = None
    actions: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    notes: Callable[[bytes], None] | None = None
    closing: bool = False

    def serve(self, pipe: Pipe, is_admitted: Callable[[], bool]) -> bool:
        """Serve the next request; False if it was the last one."""
        try:
            request = _read(pipe)
            if not is_admitted():
                _turn_away(pipe, Cause.NOT_ADMITTED, "this run's secret is missing or wrong")
                return False
            match request.kind:
                case Kind.CALL:
                    _send(pipe, self._call(request))
                case Kind.NOTE | Kind.NOTES_END:
                    self._note(pipe, request)
                case Kind.STREAM:
                    self._receive(pipe, request)
                case _:
                    raise WireError(f"{request.kind.name} is no request")
        except _BrokenOff:
            return False
        except Exception as error:
            # What goes wrong while this closes has its cause elsewhere.
            cause = Cause.CLOSING if self.closing else Cause.ERROR
            _turn_away(pipe, cause, f"the receiver is closing ({error})" if self.closing else _in_short(error))
            return False
        return True

    def _call(self, request: Frame) -> Frame:
        action = request.head.decode(errors="replace")
        handler = self.actions.get(action)
        if handler is None:
            LOG.warning("an action that nobody handles was dropped: %r", action)
            return failed(Cause.ERROR, f"unknown action {action!r}")
        try:
            return Frame(Kind.ANSWER, body=handler(bytes(request.body)))
        except Exception as error:
            return failed(Cause.ERROR, _in_short(error))

    def _note(self, pipe: Pipe, request: Frame) -> None:
        if self.notes is None:
            raise WireError("no notes are taken here")
        if request.kind == Kind.NOTES_END:
            _send(pipe, Frame(Kind.ANSWER))
        else:
            self.notes(bytes(request.body))

    def _receive(self, pipe: Pipe, request: Frame) -> None:
        if self.open_stream is None:
            raise WireError("no streams are taken here")
        name, schema = StreamName.unpack(request.head), read_schema(request.body)
        codec, receiver = BatchCodec(schema), self.open_stream(name, schema)
        taken = 0
        while True:
            frame, envelope = _next_message(pipe, taken)
            if envelope.kind == Message.END:
                receiver.close()
                _send(pipe, Frame(Kind.ANSWER))
                return
            if envelope.kind == Message.MARKER:  # everything before it has been taken
                _send(pipe, Frame(Kind.MARKED, frame.head))
                continue
            receiver.accept(_batch(codec, frame, envelope), envelope)
            del frame  # its rows belong to the receiver, while this waits for more
            taken += 1


def _read(pipe: Pipe) -> Frame:
    try:
        return read_frame(pipe)
    except OSError:
        raise _BrokenOff from None


def _send(pipe: Pipe, frame: Frame) -> None:
    try:
        send_frame(pipe, frame)
    except OSError:
        raise _BrokenOff from None


def _batch(codec: BatchCodec, frame: Frame, envelope: Envelope) -> pa.RecordBatch:
    batch = codec.decode(frame.body) if len(frame.body) else None
    if batch is None or batch.num_rows != envelope.rows:
        rows = 0 if batch is None else batch.num_rows
        raise WireError(f"an envelope for {envelope.rows} rows came with {rows} rows")
    return batch


def _next_message(pipe: Pipe, taken: int) -> tuple[Frame, Envelope]:
    """Of a stream of which so many messages with rows have been taken."""
    frame = _read(pipe)
    if frame.kind != Kind.ROWS:
        raise WireError(f"{frame.kind.name} is no message of a stream")
    if not frame.head:
        raise WireError("a message came without an envelope")
    envelope = Envelope.unpack(frame.head)
    if envelope.kind != Message.MARKER and envelope.sequence != taken:
        # Rows that nobody misses would make the flow wait for ever, or its result wrong.
        missing = envelope.sequence > taken
        raise WireError(
            f"message {taken if missing else envelope.sequence} of a stream "
            f"{'is missing' if missing else 'came twice'}: {taken} have been taken"
        )
    return frame, envelope


def _turn_away(pipe: Pipe, cause: Cause, text: str) -> None:
    """Say why a connection ends, and let its sender get as far as to see it: what it sends until then is dropped."""
    try:
        sockets.limit(pipe.connection, DRAIN_S)
        send_frame(pipe, failed(cause, text))
        pipe.connection.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + DRAIN_S
        dropped = bytearray(256 * 1024)
        while pipe.connection.recv_into(dropped) and time.monotonic() < deadline:
            pass
    except OSError:  # it has given up by itself
        pass


def _in_short(error: Exception) -> str:
    return str(error) or type(error).__name__
