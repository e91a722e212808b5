"""What a Python process does before the first rows of a task. Spark keeps these processes for later tasks."""

from __future__ import annotations

import gc
import os
import socket
import stat
from contextlib import suppress
from functools import cache

import numpy as np


def prepare() -> None:
    """At the begin of every task."""
    _prepare_process()
    _acknowledge()


@cache
def _prepare_process() -> None:
    _keep_freed_memory()
    # The imports have left some hundred thousand objects that stay. Looking through them at every collection took 7 %
    # of the time of a task that moves rows.
    gc.freeze()


def _keep_freed_memory() -> None:
    """Let this process reuse the memory of temporaries; page faults would take a quarter of a router's time.

    glibc gives the memory of large arrays back to the system as soon as they are freed. Freeing a larger one, that was
    never touched, raises both of its thresholds for good (mallopt(3), M_MMAP_THRESHOLD).
    """
    np.empty(31 * 1024 * 1024, dtype=np.uint8)


def _acknowledge() -> None:
    """Let Spark send the first rows at once.

    It sends a task's function in small pieces (Nagle's algorithm) and so does not send the rows behind it before that
    has been acknowledged, which the system does 40 ms later to a peer that it has nothing else to say to (tcp(7),
    TCP_QUICKACK). The option holds for what has come until now, so each task sets it anew. Which connection is Spark's
    is known to Spark alone; on all others it does no harm.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return  # not on Linux
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the list itself is gone
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as connection:
                    if connection.family in (socket.AF_INET, socket.AF_INET6):
                        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
