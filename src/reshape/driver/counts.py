"""What the tasks of one input have counted, put together: rows sent to each worker, rows that it has processed."""

from __future__ import annotations

from collections import Counter
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

    routed: Counts | int  # 0 before its first report
    sent: Counts | int
    applied: int
    fenced: int


class _Versions:
    """How many routers are at each routing version. There are many routers and few versions, so the lowest of them is
    found without a look at every router."""

    def __init__(self) -> None:
        self._routers: Counter[int] = Counter()

    def move(self, before: int | None, after: int | None) -> None:
        """One router comes from a version to another; None: from, or to, nowhere."""
        if before is not None:
            self._routers[before] -= 1
            if not self._routers[before]:
                del self._routers[before]
        if after is not None:
            self._routers[after] += 1

    @property
    def lowest(self) -> int | None:
        return min(self._routers, default=None)


@dataclass(frozen=True, slots=True)
class _Followed:
    """How far all routers have followed routing tables."""

    applied: _Versions = field(default_factory=_Versions)
    fenced: _Versions = field(default_factory=_Versions)


@dataclass(slots=True)
class PortCounts:
    """Cumulative counts, so that a report that is lost costs accuracy only.

    Sums over all tasks are carried along: a report costs what it brings, however many other tasks there are.
    """

    workers: int
    routers: dict[str, _Router] = field(default_factory=dict)
    routed: Counts = field(init=False)  # rows bound for each owner, before redirection
    sent: Counts = field(init=False)  # rows that routers have sent to each worker
    processed: Counts = field(init=False)
    of_owner: Counts = field(init=False)  # processed rows of each owner's partition, by whichever worker
    state_bytes: Counts = field(init=False)
    busy_s: npt.NDArray[np.float64] = field(init=False)
    moved: Counts = field(init=False)  # rows that changed their worker after they were sent
    keys: dict[int, dict[int, int]] = field(default_factory=dict)
    buckets: dict[int, int] = field(default_factory=dict)
    _by_owner: dict[int, Counter[int]] = field(default_factory=dict)  # per host, what it adds to `of_owner`
    _followed: _Followed = field(default_factory=_Followed)
    _busy_before: npt.NDArray[np.float64] = field(init=False)
    _looked_at: float = 0.0

    def __post_init__(self) -> None:
        for name in ("processed", "of_owner", "state_bytes", "moved", "routed", "sent"):
            setattr(self, name, np.zeros(self.workers, dtype=np.int64))
        self.busy_s = np.zeros(self.workers)
        self._busy_before = np.zeros(self.workers)

    def router_started(self, name: str, version: int) -> None:
        before = self.routers.get(name)
        if before is not None:  # it has begun anew: what it had sent does not count
            self._replace(before, 0, 0)
            self._leave(before)
        self.routers[name] = _Router(0, 0, version, version)
        self._followed.applied.move(None, version)
        self._followed.fenced.move(None, version)

    def router_report(self, name: str, report: RouterCounts) -> None:
        router = self.routers.get(name)
        if router is None or not report.routed:  # it is gone, or waits for the bounds of a sort
            return
        routed = np.asarray(report.routed, dtype=np.int64)
        self._replace(router, routed, np.asarray(report.sent, dtype=np.int64))
        for owner, counts in report.keys.items():
            rows_of_key = self.keys.setdefault(owner, {})
            for key, rows in counts.items():
                rows_of_key[key] = rows_of_key.get(key, 0) + rows
        for bucket, rows in report.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + rows

    def applied(self, name: str, version: int) -> None:
        """A router uses the table of a version."""
        router = self.routers.get(name)
        if router is not None and version > router.applied:
            self._followed.applied.move(router.applied, version)
            router.applied = version

    def fenced(self, name: str, version: int) -> None:
        """Receivers have taken everything that a router sent before a version."""
        router = self.routers.get(name)
        if router is not None and version > router.fenced:
            self._followed.fenced.move(router.fenced, version)
            router.fenced = version

    def router_ended(self, name: str) -> None:
        """Its rows are all with the workers now."""
        router = self.routers.pop(name, None)
        if router is not None:
            self._leave(router)

    def host_report(self, host: int, port: int, workers: Sequence[WorkerCounts]) -> None:
        """Counts of this operator's workers on a host."""
        numbers = [worker.worker for worker in workers]
        self.processed[numbers] = [worker.processed[port] for worker in workers]
        self.state_bytes[numbers] = [worker.state_bytes for worker in workers]
        self.busy_s[numbers] = [worker.busy_s for worker in workers]
        by_owner: Counter[int] = Counter()
        for worker in workers:
            by_owner.update(worker.of_owner[port])
        before = self._by_owner.get(host, Counter())
        for owner in by_owner.keys() | before.keys():
            self.of_owner[owner] += by_owner[owner] - before[owner]
        self._by_owner[host] = by_owner

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
    def received(self) -> Counts:
        """Rows for each worker to process, wherever they are now."""
        return self.sent + self.moved

    @property
    def all_processed(self) -> bool:
        return bool(self.received.sum() == self.processed.sum())

    def applied_by_all(self) -> int | None:
        """The routing version that every router at work uses, None when there is none at work."""
        return self._followed.applied.lowest

    def fenced_by_all(self) -> int | None:
        """Rows sent before this version are all with their workers; None when no router is at work."""
        return self._followed.fenced.lowest

    def _replace(self, router: _Router, routed: Counts | int, sent: Counts | int) -> None:
        """These are a router's counts now."""
        self.routed += routed - router.routed
        self.sent += sent - router.sent
        router.routed, router.sent = routed, sent

    def _leave(self, router: _Router) -> None:
        self._followed.applied.move(router.applied, None)
        self._followed.fenced.move(router.fenced, None)
