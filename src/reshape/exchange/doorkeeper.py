"""Connections to a listener that bring much before a call of theirs was let in are cut.

Flight takes in the whole message of a call that is no stream before anybody can look at its headers, and has no limit
for it: refused or not, 400 MB that somebody sends take 860 MB here. What a connection has brought is known to the
system, so callers without the secret get no further than the limits below and what comes while they are looked at.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import select
import socket
import stat
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

LOG = logging.getLogger(__name__)

# A first call is a report or a poll of some kB. Whoever has more to say, or opens a stream, knocks before.
UNKNOWN_BYTES = 1 << 20
KNOCK_BYTES = UNKNOWN_BYTES // 4
# Of all connections without a call that was let in, together: many of them must not do what one cannot.
ALL_UNKNOWN_BYTES = 16 << 20
# A connection that the system has taken and gRPC has not yet accepted is looked for again after so long.
_ACCEPT_S = 0.002
_NEWS = select.EPOLLIN | select.EPOLLET
# `tcpi_bytes_received` in Linux's `struct tcp_info`.
_RECEIVED = struct.Struct("=Q")
_RECEIVED_AT = 128


@dataclass(frozen=True, slots=True)
class Connection:
    """A socket of this process that was accepted on some port. ``inode`` tells it from a later one with its number."""

    handle: int
    inode: int
    peer: str

    @contextlib.contextmanager
    def opened(self) -> Iterator[socket.socket]:
        """The socket; raises OSError when it is gone."""
        with socket.socket(fileno=os.dup(self.handle)) as own:
            if os.fstat(own.fileno()).st_ino != self.inode:
                raise ConnectionResetError(f"the connection of {self.peer} is gone")
            yield own

    def received(self) -> int:
        """Bytes that it has brought so far; 0 where the system does not say."""
        with self.opened() as own:
            facts = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED_AT + _RECEIVED.size)
        return int(_RECEIVED.unpack_from(facts, _RECEIVED_AT)[0]) if len(facts) >= _RECEIVED_AT + 8 else 0

    def cut(self) -> None:
        with contextlib.suppress(OSError), self.opened() as own:
            own.shutdown(socket.SHUT_RDWR)


def sockets_on(port: int, apart_from: frozenset[int] = frozenset()) -> tuple[list[Connection], list[Connection]]:
    """The listening sockets of this process on a port, and the connections accepted there; Flight does not tell.

    Those with an inode of ``apart_from`` are passed over: a driver has many sockets, and most are known.
    """
    listening, accepted = [], []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            facts = os.fstat(int(name))
            if not stat.S_ISSOCK(facts.st_mode) or facts.st_ino in apart_from:
                continue
            with socket.socket(fileno=os.dup(int(name))) as own:
                if own.family not in (socket.AF_INET, socket.AF_INET6) or own.getsockname()[1] != port:
                    continue
                if own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    listening.append(Connection(int(name), facts.st_ino, ""))
                else:
                    host, number = own.getpeername()[:2]
                    accepted.append(Connection(int(name), facts.st_ino, _plain(host, number)))
    return listening, accepted


class Doorkeeper:
    """Watches the connections of one listener in a thread of its own, which sleeps while there are no new ones."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening, _ = sockets_on(port)
        self._admitted: set[str] = set()
        self._unknown: dict[int, Connection] = {}  # by inode
        self._known: dict[int, Connection] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._epoll = select.epoll()
        self._wake = os.eventfd(0)
        for handle in (self._wake, *(door.handle for door in self._listening)):
            self._epoll.register(handle, _NEWS)
        self._thread = threading.Thread(target=self._watch, name="flight-door", daemon=True)
        self._thread.start()

    def admit(self, peer: str) -> None:
        """A call of this peer, as gRPC writes it, had the secret."""
        kind, _, address = unquote(peer).partition(":")
        if kind not in ("ipv4", "ipv6"):
            return
        host, _, port = address.rpartition(":")
        with self._lock:
            self._admitted.add(_plain(host.strip("[]"), int(port)))

    def close(self) -> None:
        """Stop watching; before the listener's sockets are closed, or others could have their numbers."""
        if not self._closing.is_set():
            self._closing.set()
            os.eventfd_write(self._wake, 1)
            self._thread.join()
            self._epoll.close()
            os.close(self._wake)

    def _watch(self) -> None:
        doors = {door.handle for door in self._listening}
        expecting = True
        while not self._closing.is_set():
            events = self._epoll.poll(_ACCEPT_S if expecting else None)
            if expecting or any(handle in doors for handle, _ in events):
                expecting = self._is_expecting()
                self._look_for_new_ones()
            self._check()

    def _is_expecting(self) -> bool:
        """Whether somebody waits at the door."""
        waiting = select.poll()
        for door in self._listening:
            waiting.register(door.handle, select.POLLIN)
        return any(event & select.POLLIN for _, event in waiting.poll(0))

    def _look_for_new_ones(self) -> None:
        present = _inodes()
        with self._lock:
            for gone in {*self._known, *self._unknown} - present:
                self._admitted.discard((self._known.pop(gone, None) or self._unknown.pop(gone)).peer)
        for connection in sockets_on(self._port, frozenset({*self._known, *self._unknown}))[1]:
            with contextlib.suppress(OSError):  # gone again
                self._epoll.register(connection.handle, _NEWS)
            self._unknown[connection.inode] = connection

    def _check(self) -> None:
        counts: dict[int, int] = {}
        for inode, connection in self._unknown.items():
            with contextlib.suppress(OSError):
                counts[inode] = connection.received()
        # Only now: who sends much was admitted before, but perhaps since the last look.
        self._pass_on_the_admitted()
        brought = {inode: count for inode, count in counts.items() if inode in self._unknown}
        total = sum(brought.values())
        for inode, count in sorted(brought.items(), key=lambda entry: -entry[1]):
            if count <= UNKNOWN_BYTES and total <= ALL_UNKNOWN_BYTES:
                break
            LOG.warning("%s sent %d bytes without the secret of a run: cut", self._unknown[inode].peer, count)
            self._unknown.pop(inode).cut()
            total -= count

    def _pass_on_the_admitted(self) -> None:
        with self._lock:
            admitted = [inode for inode, connection in self._unknown.items() if connection.peer in self._admitted]
        for inode in admitted:
            self._known[inode] = self._unknown.pop(inode)
            with contextlib.suppress(OSError):
                self._epoll.unregister(self._known[inode].handle)


def _inodes() -> set[int]:
    """Of everything that this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add(os.fstat(int(name)).st_ino)
    return found


def _plain(host: str, port: int) -> str:
    """One form for an address, which may be an IPv4 address within an IPv6 one."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return f"{mapped or address} {port}"
