"""What is known of a running result: the newest counts of all workers and what they show."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import pyarrow as pa

from reshape.host.previews import PREVIEW_ROWS
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.reports import Progress, WorkerCounts


@dataclass(frozen=True, slots=True)
class FirstPartial:
    """When there was something to show: seconds since the hosts were ready, and rows processed until then."""

    seconds: float
    processed: int


class RunningResult:
    """Takes reports from any thread; the newest of a host counts."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._workers: dict[int, tuple[WorkerCounts, ...]] = {}  # by host
        self._memory: dict[int, tuple[int, int]] = {}  # bytes in queues and on disk, by host
        self._previews: dict[tuple[int, int], pa.RecordBatch] = {}  # by operator and worker
        self._ready_at = time.monotonic()  # an attempt begins when all its hosts are there
        self.first_partial: FirstPartial | None = None

    def book(self, report: Progress) -> None:
        with self._lock:
            self._workers[report.host] = report.workers
            self._memory[report.host] = (report.queue_bytes, report.spilled_bytes)
            if report.previews is None:
                return
            # A helper's part that is with its owner now would be counted twice if it stayed.
            for worker in report.workers:
                self._previews.pop((worker.operator, worker.worker), None)
            self._previews.update({(shown.operator, shown.worker): shown.rows for shown in report.previews})
            if report.previews and self.first_partial is None:
                processed = sum(sum(worker.processed) for worker in self._all())
                self.first_partial = FirstPartial(time.monotonic() - self._ready_at, processed)

    def workers(self) -> list[tuple[int, WorkerCounts]]:
        """Counts of every worker of every operator, each with its host."""
        with self._lock:
            return [(host, worker) for host in sorted(self._workers) for worker in self._workers[host]]

    def memory(self) -> list[tuple[int, int, int]]:
        """For each host, bytes of rows that wait in memory and on disk."""
        with self._lock:
            return [(host, *self._memory[host]) for host in sorted(self._memory)]

    def table(self) -> pa.Table | None:
        """The running result: groups with all their parts put together, or a sample of rows."""
        with self._lock:
            previews = dict(sorted(self._previews.items()))
        batches: list[pa.RecordBatch] = []
        for operator in {operator for operator, _ in previews}:
            parts = [batch for (shown_by, _), batch in previews.items() if shown_by == operator]
            batches += self._plan.operators[operator].logic.merged_preview(parts, len(parts) * PREVIEW_ROWS)
        return pa.Table.from_batches(batches) if batches else None

    @property
    def all_done(self) -> bool:
        """Have all hosts reported all of their workers as done? They show their last groups before that."""
        with self._lock:
            return len(self._workers) == self._plan.hosts and all(worker.done for worker in self._all())

    def _all(self) -> list[WorkerCounts]:
        return [worker for host in sorted(self._workers) for worker in self._workers[host]]
