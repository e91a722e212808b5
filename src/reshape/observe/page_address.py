"""Where the live page of this process is, if it is open: Spark's own page tells people, in the names of jobs."""

from __future__ import annotations

import threading

_LOCK = threading.Lock()
_open: list[str] = []


def announce(address: str) -> None:
    """The page is at this address, which holds no token: others may read the names of jobs."""
    with _LOCK:
        _open.append(address)


def withdraw(address: str) -> None:
    with _LOCK:
        if address in _open:
            _open.remove(address)


def with_page(description: str) -> str:
    """A job's description, with the address of the page if there is one."""
    with _LOCK:
        return f"{description} ({_open[-1]})" if _open else description
