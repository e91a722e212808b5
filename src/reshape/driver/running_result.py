"""What is known of a running result: the newest counts of all workers and what they show."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.driver.source_counts import SourceCounts
from reshape.errors import ReshapeError
from reshape.host.previews import PREVIEW_ROWS
from reshape.operators.spec import GroupSums
from reshape.plan.nodes import RowFunction
from reshape.plan.physical import ArrowFunction, PhysicalPlan
from reshape.protocol.reports import Preview, Progress, WorkerCounts


@dataclass(frozen=True, slots=True)
class FirstPartial:
    """When there was something to show: seconds since the hosts were ready, and rows processed until then."""

    seconds: float
    processed: int


@dataclass(frozen=True, slots=True)
class GroupsShown:
    """Groups that all workers show together, as sums. ``processed``: rows by the worker whose partition they belong to,
    just as many as the sums stand for. ``left_out``: how many more groups there are, at least."""

    groups: GroupSums
    processed: npt.NDArray[np.int64]
    left_out: int


class RunningResult:
    """Takes reports from any thread; the newest of a host counts. ``sources``: how much has been read for it."""

    def __init__(self, plan: PhysicalPlan, sources: SourceCounts) -> None:
        self.sources = sources
        self._plan = plan
        self._lock = threading.Lock()
        self._workers: dict[int, tuple[WorkerCounts, ...]] = {}  # by host
        self._memory: dict[int, tuple[int, int]] = {}  # bytes in queues and on disk, by host
        self._previews: dict[tuple[int, int], Preview] = {}  # by operator and worker
        self._unsent: dict[int, Mapping[int, int]] = {}  # by host, then by operator
        self._news = 0
        self._ready_at = time.monotonic()  # an attempt begins when all its hosts are there
        self.first_partial: FirstPartial | None = None

    def book(self, report: Progress) -> None:
        with self._lock:
            self._workers[report.host] = report.workers
            self._memory[report.host] = (report.queue_bytes, report.spilled_bytes)
            self._unsent[report.host] = report.unsent
            if report.previews is None:
                return
            self._news += 1
            # A helper's part that is with its owner now would be counted twice if it stayed.
            for worker in report.workers:
                self._previews.pop((worker.operator, worker.worker), None)
            self._previews.update({(shown.operator, shown.worker): shown for shown in report.previews})
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
        """The running result: groups with all their parts put together, the largest of many, or a sample of rows."""
        with self._lock:
            previews = dict(sorted(self._previews.items()))
        batches: list[pa.RecordBatch] = []
        for operator in {operator for operator, _ in previews}:
            parts = [shown.rows for (shown_by, _), shown in previews.items() if shown_by == operator]
            last = self._plan.operators[operator]
            batches += _through(last.functions, last.logic.merged_preview(parts, PREVIEW_ROWS))
        return pa.Table.from_batches(batches) if batches else None

    @property
    def news(self) -> int:
        """Grows with everything new that workers show."""
        return self._news

    def groups(self, operator: int) -> GroupsShown | str:
        """The same as sums; why there are none, if so."""
        with self._lock:
            shown = [preview for (shown_by, _), preview in sorted(self._previews.items()) if shown_by == operator]
        processed = np.zeros(self._plan.workers, dtype=np.int64)
        for preview in shown:
            for owner, rows in preview.of_owner.items():
                processed[owner] += rows
        left_out = [preview.left_out for preview in shown]
        if None in left_out:
            return "its groups are too many to be put together while it runs"
        groups = self._plan.operators[operator].logic.merged_sums([preview.rows for preview in shown], PREVIEW_ROWS)
        if groups is None:
            return "it has shown nothing yet"
        more = sum(count for count in left_out if count is not None)
        known = sum(preview.rows.num_rows for preview in shown)
        return GroupsShown(groups, processed, more + max(0, known - groups.rows.num_rows))

    def given(self) -> int:
        """Rows that hosts have given as the result."""
        with self._lock:
            return sum(each.emitted for each in self._all() if self._plan.operators[each.operator].target is None)

    def left_out(self) -> int:
        """How many more rows workers have than they show, as far as they say."""
        with self._lock:
            return sum(preview.left_out or 0 for preview in self._previews.values())

    def part_sent(self, operator: int) -> float:
        """The part of an operator's rows that the counts of its routers account for."""
        with self._lock:
            given = sum(worker.emitted for worker in self._all() if worker.operator == operator)
            unsent = sum(by_operator.get(operator, 0) for by_operator in self._unsent.values())
        return max(0.0, 1.0 - unsent / given) if given else 1.0

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
