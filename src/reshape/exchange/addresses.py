"""Where listeners are: the address that others use, and where and on which ports a listener is opened."""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace

LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Listening:
    """``bind``: the address to listen at, where it is not the one that others use. ``first`` to ``last``: the ports
    to try, 0 for one that the system chooses."""

    bind: str | None = None
    first: int = 0
    last: int = 0

    def on_loopback(self) -> Listening:
        """For a session in one process: nobody else has to reach it, wherever listeners would be opened otherwise."""
        return replace(self, bind=None)


# At the address that others use, on a port that the system chooses.
AS_NEEDED = Listening()


def resolved(name: str) -> str:
    """The address of a host by its name, or the address itself, IPv6 in brackets or not. Raises OSError."""
    found = socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    return next((address for address in addresses if ":" not in address), addresses[0])


def location(scheme: str, address: str, port: int) -> str:
    return f"{scheme}://{f'[{address}]' if ':' in address else address}:{port}"
