"""What the tasks of one input have counted, put together: rows sent to each worker, rows that it has processed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from reshape.exchange.tally import RouterCounts
from reshape.protocol.reports import WorkerCounts

Counts = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Router:
    """The newest counts of one router that is at work, and how far it has followed routing tables."""

    routed: Counts
    sent: Counts
    applied: int
    fenced: int


@dataclass(slots=True)
class PortCounts:
    """Cumulative counts, so that a report that is lost costs accuracy only."""

    workers: int
    routers: dict[str, _Router] = field(default_factory=dict)
    processed: Counts = field(init=False)
    of_owner: Counts = field(init=False)  # processed rows of each owner's partition, by whichever worker
    state_bytes: Counts = field(init=False)
    busy_s: npt.NDArray[np.float64] = field(init=False)
    moved: Counts = field(init=False)  # rows that changed their worker after they were sent
    keys: dict[int, dict[int, int]] = field(default_factory=dict)
    buckets: dict[int, int] = field(default_factory=dict)
    _by_owner: dict[int, Counts] = field(default_factory=dict)  # per host
    _routed: Counts = field(init=False)  # by routers that are gone
    _sent: Counts = field(init=False)
    _busy_before: npt.NDArray[np.float64] = field(init=False)
    _looked_at: float = 0.0

    def __post_init__(self) -> None:
        for name in ("processed", "of_owner", "state_bytes", "moved", "_routed", "_sent"):
            setattr(self, name, np.zeros(self.workers, dtype=np.int64))
        self.busy_s = np.zeros(self.workers)
        self._busy_before = np.zeros(self.workers)

    def router_started(self, name: str, version: int) -> None:
        none = np.zeros(self.workers, dtype=np.int64)
        self.routers[name] = _Router(none, none, version, version)

    def router_report(self, name: str, report: RouterCounts) -> None:
        router = self.routers.get(name)
        if router is None or not report.routed:  # it is gone, or waits for the bounds of a sort
            return
        router.routed = np.asarray(report.routed, dtype=np.int64)
        router.sent = np.asarray(report.sent, dtype=np.int64)
        for owner, counts in report.keys.items():
            rows_of_key = self.keys.setdefault(owner, {})
            for key, rows in counts.items():
                rows_of_key[key] = rows_of_key.get(key, 0) + rows
        for bucket, rows in report.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + rows

    def applied(self, name: str, version: int) -> None:
        """A router uses the table of a version."""
        if router := self.routers.get(name):
            router.applied = max(router.applied, version)

    def fenced(self, name: str, version: int) -> None:
        """Receivers have taken everything that a router sent before a version."""
        if router := self.routers.get(name):
            router.fenced = max(router.fenced, version)

    def router_ended(self, name: str) -> None:
        """Its rows are all with the workers now."""
        router = self.routers.pop(name, None)
        if router is not None:
            self._routed = self._routed + router.routed
            self._sent = self._sent + router.sent

    def host_report(self, host: int, port: int, workers: Sequence[WorkerCounts]) -> None:
        """Counts of this operator's workers on a host."""
        numbers = [worker.worker for worker in workers]
        self.processed[numbers] = [worker.processed[port] for worker in workers]
        self.state_bytes[numbers] = [worker.state_bytes for worker in workers]
        self.busy_s[numbers] = [worker.busy_s for worker in workers]
        by_owner = [0] * self.workers
        for worker in workers:
            for owner, rows in worker.of_owner[port].items():
                by_owner[owner] += rows
        self._by_owner[host] = np.array(by_owner, dtype=np.int64)
        self.of_owner = np.sum(list(self._by_owner.values()), axis=0)

    def facts(self, now: float) -> dict[str, Any]:
        """What a brain is told at this time; keys and mini-partitions since the time before."""
        received = self.received
        elapsed = max(now - self._looked_at, 1e-6)
        busy = ((self.busy_s - self._busy_before) / elapsed).clip(0.0, 1.0)
        self._busy_before, self._looked_at = self.busy_s.copy(), now
        facts = {
            "workload": (received - self.processed).clip(0).tolist(),
            "processed": self.processed.tolist(),
            "routed": self.routed.tolist(),
            "received": received.tolist(),
            "state_bytes": self.state_bytes.tolist(),
            "keys": self.keys,
            "buckets": self.buckets,
            "busy": busy.tolist(),
        }
        self.keys, self.buckets = {}, {}
        return facts

    @property
    def routed(self) -> Counts:
        """Rows bound for each owner, before redirection."""
        return self._routed + sum((router.routed for router in self.routers.values()), self._zero)

    @property
    def received(self) -> Counts:
        """Rows for each worker to process, wherever they are now."""
        return self._sent + sum((router.sent for router in self.routers.values()), self._zero) + self.moved

    @property
    def _zero(self) -> Counts:
        return np.zeros(self.workers, dtype=np.int64)

    @property
    def all_processed(self) -> bool:
        return bool(self.received.sum() == self.processed.sum())

    def applied_by_all(self) -> int | None:
        """The routing version that every router at work uses, None when there is none at work."""
        return min((router.applied for router in self.routers.values()), default=None)

    def fenced_by_all(self) -> int | None:
        """Rows sent before this version are all with their workers; None when no router is at work."""
        return min((router.fenced for router in self.routers.values()), default=None)
