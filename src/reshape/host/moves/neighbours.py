"""Workers that share partitions hear of each other before they finish: where the range of each stands, and what the one
before has left to go on from. They hear it from the driver: it is little, and calls to and from it are made exactly
once, also when a host ends right after its own."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from reshape.host.worker import Worker
from reshape.operators.heavy_keys import HeavyKeys
from reshape.operators.ranged import Beside, RangedOperator
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.orders import GoOn, MeetRanges, UseBounds
from reshape.protocol.reports import RangeComputed, RangeSorted, Report

WorkerId = tuple[int, int]  # operator, worker
RangeId = tuple[int, int, int]  # operator, worker, partition


class Neighbours:
    """Used by the working thread. ``report`` tells the driver what must not be lost, without waiting."""

    def __init__(self, plan: PhysicalPlan, report: Callable[[Report], None]) -> None:
        self._plan = plan
        self._report = report
        self._heavy: dict[int, pa.RecordBatch] = {}  # the keys of partitions that workers share, by operator
        self._shared: dict[WorkerId, int] = {}  # partitions whose edges here the driver knows
        self._beside: dict[RangeId, Beside] = {}
        self._left: dict[RangeId, pa.RecordBatch] = {}  # by the range before
        self._ready: set[RangeId] = set()

    def set_bounds(self, order: UseBounds) -> None:
        """Bounds come before the first row of their input."""
        port = self._plan.operators[order.operator].ports[order.port]
        if port.keys and port.ordering is not None:
            self._heavy[order.operator] = HeavyKeys(port.ordering, len(port.keys), order.rows).keys

    def meet(self, order: MeetRanges) -> None:
        beside = Beside(order.start, order.total, order.ahead, order.behind)
        self._beside[order.operator, order.worker, order.partition] = beside

    def go_on(self, order: GoOn) -> None:
        self._left[order.operator, order.worker, order.partition] = order.carried

    def may_finish(self, worker: Worker) -> bool:
        """Does a worker whose input has ended know all that it needs of the others? Asks for it, if it does not."""
        if worker.operator.logic.looks_beyond is None:
            return True
        key = (worker.operator.id, worker.number)
        if key not in self._shared:
            self._shared[key] = self._share(worker)
        # Each partition as soon as it can be: the next workers go on from there.
        waiting = [n for n in range(self._shared[key]) if not self._goes_on(worker, (*key, n))]
        return not waiting

    def _share(self, worker: Worker) -> int:
        """Tell the driver of the ranges that a worker has of shared partitions; how many these are."""
        logic = worker.own
        assert isinstance(logic, RangedOperator)
        keys = None
        if worker.operator.ports[0].keys:
            keys = self._heavy.get(worker.operator.id)
            if keys is None or not keys.num_rows:
                return 0
        partitions = logic.share(keys)
        for partition in range(partitions):
            edges = logic.edges(partition)
            report = RangeSorted(worker.operator.id, worker.number, partition, edges.rows, edges.first, edges.last)
            self._report(report)
        return partitions

    def _goes_on(self, worker: Worker, key: RangeId) -> bool:
        if key in self._ready:
            return True
        logic, carries = worker.own, worker.operator.logic.carries
        assert isinstance(logic, RangedOperator)
        beside, left = self._beside.get(key), self._left.get(key)
        if beside is None or (carries and worker.number and left is None):
            return False
        partition = key[-1]
        logic.meet(partition, beside)
        if carries:
            self._report(RangeComputed(*key, logic.carry(partition, left)))
        self._ready.add(key)
        return True
