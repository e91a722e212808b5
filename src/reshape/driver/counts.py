"""What the tasks of one input have counted, put together: rows sent to each worker, rows that it has processed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from reshape.host.worker import CellCounts

Counts = npt.NDArray[np.int64]


@dataclass(slots=True)
class RouterCounts:
    """The newest counts of one router that is at work, and how far it has followed routing tables."""

    routed: Counts
    sent: Counts
    applied: int
    fenced: int


@dataclass(slots=True)
class PortCounts:
    """Cumulative counts, so that a report that is lost costs accuracy only."""

    workers: int
    routers: dict[str, RouterCounts] = field(default_factory=dict)
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

    def __post_init__(self) -> None:
        for name in ("processed", "of_owner", "state_bytes", "moved", "_routed", "_sent"):
            setattr(self, name, np.zeros(self.workers, dtype=np.int64))
        self.busy_s = np.zeros(self.workers)

    def router_started(self, name: str, version: int) -> None:
        none = np.zeros(self.workers, dtype=np.int64)
        self.routers[name] = RouterCounts(none, none, version, version)

    def router_report(self, name: str, report: Mapping[str, Any]) -> None:
        router = self.routers.get(name)
        if router is None or "routed" not in report:
            return
        router.routed = np.asarray(report["routed"], dtype=np.int64)
        router.sent = np.asarray(report["sent"], dtype=np.int64)
        for owner, counts in report.get("keys", {}).items():
            mine = self.keys.setdefault(int(owner), {})
            for key, rows in counts.items():
                mine[int(key)] = mine.get(int(key), 0) + int(rows)
        for bucket, rows in report.get("buckets", {}).items():
            self.buckets[int(bucket)] = self.buckets.get(int(bucket), 0) + int(rows)

    def router_ended(self, name: str) -> None:
        """Its rows are all with the workers now."""
        router = self.routers.pop(name, None)
        if router is not None:
            self._routed = self._routed + router.routed
            self._sent = self._sent + router.sent

    def host_report(self, host: int, port: int, cells: Sequence[CellCounts]) -> None:
        workers = [cell.worker for cell in cells]
        self.processed[workers] = [cell.processed[port] for cell in cells]
        self.state_bytes[workers] = [cell.state_bytes for cell in cells]
        self.busy_s[workers] = [cell.busy_s for cell in cells]
        by_owner = [0] * self.workers
        for cell in cells:
            for owner, rows in cell.of_owner[port].items():
                by_owner[int(owner)] += rows
        self._by_owner[host] = np.array(by_owner, dtype=np.int64)
        self.of_owner = np.sum(list(self._by_owner.values()), axis=0)

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
