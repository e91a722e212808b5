"""Sockets with the options that all connections have.

A machine that vanishes closes no connection. One that only waits is asked for a sign of life by TCP itself. Where
something is under way, whoever waits looks whether anybody listens there (``client.py``): TCP's own limit for that
(TCP_USER_TIMEOUT) would also end streams whose receiver makes the sender wait, which is no fault.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from urllib.parse import urlsplit

from reshape.exchange.addresses import Listening, resolved
from reshape.exchange.errors import PortsTaken

# A peer that has said nothing for LOST_S is asked, twice; without an answer it is gone after as long again.
LOST_S = 20
# Connections that the system keeps for a listener that is busy: as many tasks may come at once.
BACKLOG = 4096
_TIMEVAL = struct.Struct("ll")
_NO_LINGERING = struct.pack("ii", 1, 0)


def configure(connection: socket.socket) -> None:
    """What connections have at both ends."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, LOST_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, LOST_S // 2)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)


def limit(connection: socket.socket, seconds: float) -> None:
    """How long a call of the system may wait; 0 for ever. The socket stays a blocking one: a read of many bytes is one
    call, where Python's own time-outs make it many."""
    whole = int(seconds)
    value = _TIMEVAL.pack(whole, max(int((seconds - whole) * 1e6), 1 if seconds > 0 else 0))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


def cut(connection: socket.socket) -> None:
    """End a connection that threads may be using: they see its end at once."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def reset(connection: socket.socket) -> None:
    """The same, and nothing more goes either way: a sender that has no room at the other side sees it at once too.

    To such a sender the end of the other direction says nothing, and what it tries from time to time carries no byte
    that could be refused. It sees the system's reset, which comes with the last use of the connection. So another
    socket, whose other end is gone, takes its place under the same number: threads may still use that.
    """
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
        connection.shutdown(socket.SHUT_RDWR)
        dead, other_end = socket.socketpair()
        with dead, other_end:
            os.dup2(dead.fileno(), connection.fileno(), inheritable=False)


def place(location: str) -> tuple[str, int]:
    """Host and port of a location."""
    parts = urlsplit(location)
    return str(parts.hostname), int(parts.port or 0)


def open_connection(location: str, within_s: float) -> socket.socket:
    connection = socket.create_connection(place(location), within_s)
    connection.settimeout(None)
    configure(connection)
    return connection


def open_listener(address: str, listening: Listening) -> socket.socket:
    """On the first port of its range that is free."""
    bind = listening.bind or address
    failure: OSError | None = None
    try:
        at = resolved(bind)
        for port in range(listening.first, listening.last + 1):
            try:
                return _listen(at, port)
            except OSError as error:
                failure = error
    except OSError as error:  # a name without an address
        failure = error
    raise PortsTaken(bind, listening.first, listening.last, str(failure)) from failure


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    everywhere = address == "::" and socket.has_dualstack_ipv6()
    listener = socket.create_server((address, port), family=family, backlog=BACKLOG, dualstack_ipv6=everywhere)
    listener.setblocking(False)
    return listener
