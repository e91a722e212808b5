"""Rows that must wait for state: a worker is about to get keys, and some of their rows are there before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from reshape.exchange.worker_queue import WorkerQueue
from reshape.kernels.hashing import Mask

# Tells which rows wait: rows, and whether they were combined.
Among = Callable[[pa.RecordBatch, bool], Mask]


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """Rows that wait for one transfer: those sent under this routing version or later whose keys are ``among``.

    Keys that come back to a worker have several holds there; rows wait in the newest one that they are not too old for.
    """

    worker: int
    port: int
    transfer: int
    version: int
    among: Among
    waiting: WorkerQueue = field(default_factory=lambda: WorkerQueue(1))


class Holds:
    """All holds of a host. Used by `HostQueues` under its lock."""

    def __init__(self) -> None:
        self._holds: dict[tuple[int, int, int], Hold] = {}  # by worker, port and transfer

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        return iter(self._holds.values())

    def __contains__(self, hold: Hold) -> bool:
        return self._holds.get((hold.worker, hold.port, hold.transfer)) is hold

    def add(self, hold: Hold) -> None:
        self._holds[hold.worker, hold.port, hold.transfer] = hold

    def end(self, worker: int, port: int, transfer: int) -> Hold | None:
        """Rows that come from now on do not wait for this transfer; the hold, if there was one."""
        return self._holds.pop((worker, port, transfer), None)

    def at(self, worker: int, port: int) -> list[Hold]:
        """The newest first."""
        here = [hold for hold in self if hold.worker == worker and hold.port == port]
        return sorted(here, key=lambda hold: -hold.version)
