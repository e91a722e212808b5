"""Bytes over a socket, plain or encrypted: all of them or an error, and a word when nothing moves.

One thread may send while another one reads.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

# What is encrypted or read at a time.
CHUNK = 256 * 1024
# The system takes at most 1,024 pieces in one call.
MOST_PIECES = 512


def give_up() -> None:
    raise TimeoutError("nothing moved for too long")


class Pipe(Protocol):
    """``stalled`` is called when nothing has moved for as long as the socket's limit; what it raises ends the wait."""

    connection: socket.socket
    stalled: Callable[[], None]

    def shake_hands(self) -> None:
        """What has to be done first."""

    def send(self, pieces: Sequence[Any]) -> None:
        """Send buffers one behind the other."""

    def read_into(self, view: memoryview) -> None:
        """Fill it."""

    def has_news(self) -> bool:
        """Whether there is something to read."""


class _Socket:
    """What the two kinds of pipes share: whole transfers over a socket that may stall."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.stalled: Callable[[], None] = give_up
        self._news = select.poll()
        self._news.register(connection, select.POLLIN)
        # Not closed before nobody can use it: the number of a closed socket is soon another one's.
        weakref.finalize(self, connection.close).atexit = False

    def _send(self, pieces: Sequence[Any]) -> None:
        left = [memoryview(piece).cast("B") for piece in pieces]
        while left:
            try:
                sent = self.connection.sendmsg(left[:MOST_PIECES])
            except BlockingIOError:
                self.stalled()
                continue
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    def _read_some(self, view: memoryview, flags: int) -> int:
        while True:
            try:
                count = self.connection.recv_into(view, len(view), flags)
            except BlockingIOError:
                self.stalled()
                continue
            if count == 0:
                raise ConnectionError("the other side has ended the connection")
            return count


class PlainPipe(_Socket):
    def shake_hands(self) -> None:
        pass

    def send(self, pieces: Sequence[Any]) -> None:
        self._send([piece for piece in pieces if len(piece)])

    def read_into(self, view: memoryview) -> None:
        while len(view):
            view = view[self._read_some(view, socket.MSG_WAITALL) :]

    def has_news(self) -> bool:
        return bool(self._news.poll(0))


class EncryptedPipe(_Socket):
    """Encrypts in memory: a socket of the ssl module cannot be read by one thread while another one sends."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, name: str | None = None) -> None:
        """``name`` is what the certificate of a listener must have; None at the listener."""
        super().__init__(connection)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: Any = context.wrap_bio(self._incoming, self._outgoing, name is None, name)
        self._lock = threading.Lock()
        self._chunk = memoryview(bytearray(CHUNK))

    def shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._fetch()
            except ssl.SSLError:  # the other side hears why
                self._flush()
                raise
            else:
                self._flush()
                return

    def send(self, pieces: Sequence[Any]) -> None:
        for chunk in _chunks(pieces):
            with self._lock:
                self._tls.write(chunk)
                encrypted = self._outgoing.read()
            self._send([encrypted])

    def read_into(self, view: memoryview) -> None:
        while len(view):
            try:
                with self._lock:
                    count = self._tls.read(len(view), view)
            except ssl.SSLWantReadError:
                self._fetch()
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                count = 0
            if not count:
                raise ConnectionError("the other side has ended the connection")
            view = view[count:]

    def has_news(self) -> bool:
        with self._lock:
            waiting = self._tls.pending() or self._incoming.pending
        return bool(waiting or self._news.poll(0))

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._send([self._outgoing.read()])

    def _fetch(self) -> None:
        count = self._read_some(self._chunk, 0)
        with self._lock:
            self._incoming.write(self._chunk[:count])


def _chunks(pieces: Sequence[Any]) -> list[Any]:
    """Small pieces together, large ones in parts."""
    chunks: list[Any] = [bytearray()]
    for piece in pieces:
        view = memoryview(piece).cast("B")
        if len(view) <= CHUNK // 8 and isinstance(chunks[-1], bytearray):
            chunks[-1] += view
            continue
        chunks.extend(view[start : start + CHUNK] for start in range(0, len(view), CHUNK))
        chunks.append(bytearray())
    return [chunk for chunk in chunks if len(chunk)]
