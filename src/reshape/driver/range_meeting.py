"""Ranges of an order: their bounds, and, where workers must know of each other, what is beside each when all of one
partition are sorted."""

from __future__ import annotations

import threading

from reshape.driver.bounds import SortBounds
from reshape.driver.port_control import Post
from reshape.operators.ranged import Edges, beside_each
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.orders import GoOn, MeetRanges
from reshape.protocol.reports import RangeComputed, RangeSorted


class RangeMeeting:
    """Of all operators of one attempt."""

    def __init__(self, plan: PhysicalPlan, post: Post, bounds: SortBounds) -> None:
        self.bounds = bounds
        self._plan = plan
        self._post = post
        self._lock = threading.Lock()
        self._sorted: dict[tuple[int, int], dict[int, Edges]] = {}  # by operator and partition

    def sorted(self, report: RangeSorted) -> None:
        """A worker has all of its range."""
        with self._lock:
            of_workers = self._sorted.setdefault((report.operator, report.partition), {})
            of_workers[report.worker] = Edges(report.rows, report.first, report.last)
            if len(of_workers) < self._plan.workers:
                return
        reach = self._plan.operators[report.operator].logic.looks_beyond
        assert reach is not None
        ranges = beside_each([of_workers[worker] for worker in range(self._plan.workers)], reach)
        for worker, (host, beside) in enumerate(zip(self._plan.host_of_workers(), ranges, strict=True)):
            where = (beside.start, beside.total, beside.ahead, beside.behind)
            self._post(host, MeetRanges(report.operator, 0, worker, report.partition, *where))

    def computed(self, report: RangeComputed) -> None:
        """The next worker goes on from what this one has left."""
        worker = report.worker + 1
        if worker < self._plan.workers:
            self._post(
                self._plan.host_of_workers()[worker], GoOn(report.operator, 0, worker, report.partition, report.carried)
            )
