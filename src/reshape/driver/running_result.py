"""What is known of a running result: the newest counts of all workers and what they show."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from reshape.errors import ReshapeError
from reshape.host.previews import PREVIEW_ROWS
from reshape.plan.nodes import RowFunction
from reshape.plan.physical import ArrowFunction, PhysicalPlan
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
        self._previews: dict[tuple[int, int], pa.RecordBatch] = {}  # by operator and worker
        self._ready_at = time.monotonic()  # an attempt begins when all its hosts are there
        self.first_partial: FirstPartial | None = None

    def book(self, report: Progress) -> None:
        with self._lock:
            self._workers[report.host] = report.workers
            if report.previews is None:
                return
            # A helper's part that is with its owner now would be counted twice if it stayed.
            for worker in report.workers:
                self._previews.pop((worker.operator, worker.worker), None)
            self._previews.update({(shown.operator, shown.worker): shown.rows for shown in report.previews})
            if report.previews and self.first_partial is None:
                processed = sum(sum(worker.processed) for worker in self._all())
                self.first_partial = FirstPartial(time.monotonic() - self._ready_at, processed)

    def progress(self) -> list[dict[str, Any]]:
        """Counts of every worker of every operator."""
        with self._lock:
            return [asdict(worker) for worker in self._all()]

    def table(self) -> pa.Table | None:
        """The running result: groups with all their parts put together, or a sample of rows."""
        with self._lock:
            previews = dict(sorted(self._previews.items()))
        batches: list[pa.RecordBatch] = []
        for operator in {operator for operator, _ in previews}:
            parts = [batch for (shown_by, _), batch in previews.items() if shown_by == operator]
            shown_by_it = self._plan.operators[operator]
            whole = shown_by_it.logic.merged_preview(parts, len(parts) * PREVIEW_ROWS)
            batches += _through(shown_by_it.functions, whole)
        return pa.Table.from_batches(batches) if batches else None

    @property
    def all_done(self) -> bool:
        """Have all hosts reported all of their workers as done? They show their last groups before that."""
        with self._lock:
            return len(self._workers) == self._plan.hosts and all(worker.done for worker in self._all())

    def _all(self) -> list[WorkerCounts]:
        return [worker for host in sorted(self._workers) for worker in self._workers[host]]


def _through(functions: Sequence[ArrowFunction], batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Rows as functions make them that are known by their columns; users' own may cost anything, and are not run."""
    for function in functions:
        if not isinstance(function, RowFunction):
            break
        try:
            batches = list(function(iter(batches)))
        except ReshapeError:  # a value that is not there yet, as it were a division by a count of zero
            return []
    return batches
