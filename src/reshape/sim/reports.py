"""Reports of a simulated operator: what its brain may know about workers and routers, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest

from reshape.control.events import MetricsCollected
from reshape.control.routing import Key
from reshape.sim.brain_link import MakeEvent
from reshape.sim.router import SimulatedRouter
from reshape.sim.scenario import Stage
from reshape.sim.worker import Worker


class Reports:
    def __init__(
        self, stage: Stage, total: int, workers: Sequence[Worker], router: SimulatedRouter, period_s: float
    ) -> None:
        self._stage = stage
        self._total = total
        self._workers = workers
        self._router = router
        self._period_s = period_s
        self._before = [0] * len(workers)  # processed at the last report

    def next(self) -> MakeEvent:
        """What is true now; the event gets its number and its time when the brain hears it."""
        router = self._router
        processed = [worker.processed for worker in self._workers]
        received, routed = list(router.received), list(router.routed)
        workload = [r - p for r, p in zip(received, processed, strict=True)]
        busy = [
            (now - before) / (worker.speed * self._period_s)
            for now, before, worker in zip(processed, self._before, self._workers, strict=True)
        ]
        state_bytes = [self._stage.state_bytes] * len(processed)
        remaining = self._total - sum(routed)
        keys, buckets = self._heavy_keys(), self._buckets()
        self._before = processed
        router.since_report.clear()
        return lambda event, time: MetricsCollected(
            event, time, workload, processed, routed, received, state_bytes, remaining, keys, buckets, busy
        )

    def _heavy_keys(self) -> dict[int, dict[Key, int]]:
        """Per owner its most frequent keys since the last report, at most as many as the brain wants."""
        count, limit = len(self._workers), self._stage.settings.heavy_keys
        owners: dict[int, dict[Key, int]] = {}
        for key, rows in self._router.since_report.items():
            owners.setdefault(key % count, {})[key] = rows
        for owner, keys in owners.items():
            if len(keys) > limit:
                owners[owner] = dict(nlargest(limit, keys.items(), key=lambda item: item[1]))
        return owners

    def _buckets(self) -> dict[int, int]:
        buckets: dict[int, int] = {}
        for key, rows in self._router.since_report.items():
            bucket = self._router.bucket_of(key)
            buckets[bucket] = buckets.get(bucket, 0) + rows
        return buckets
