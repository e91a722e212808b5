"""Workers with ranges of one order hear of each other before they finish: where each stands, and what the one before
has left to go on from. They hear it from the driver: it is little, and calls to and from it are made exactly once,
also when a host ends right after its own."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from reshape.host.worker import Worker
from reshape.operators.ranged import Beside, RangedOperator
from reshape.protocol.orders import GoOn, MeetRanges
from reshape.protocol.reports import RangeComputed, RangeSorted, Report

WorkerId = tuple[int, int]  # operator, worker


class Neighbours:
    """Used by the working thread. ``report`` tells the driver what must not be lost, without waiting."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._report = report
        self._told: set[WorkerId] = set()  # workers whose edges the driver knows
        self._beside: dict[WorkerId, Beside] = {}
        self._left: dict[WorkerId, pa.RecordBatch] = {}  # by the range before
        self._ready: set[WorkerId] = set()

    def meet(self, order: MeetRanges) -> None:
        beside = Beside(order.start, order.total, order.ahead, order.behind)
        self._beside[order.operator, order.worker] = beside

    def go_on(self, order: GoOn) -> None:
        self._left[order.operator, order.worker] = order.carried

    def may_finish(self, worker: Worker) -> bool:
        """Does a worker whose input has ended know all that it needs of the others? Asks for it, if it does not."""
        spec, key = worker.operator.logic, (worker.operator.id, worker.number)
        if spec.looks_beyond is None or key in self._ready:
            return True
        logic = worker.own
        assert isinstance(logic, RangedOperator)
        if key not in self._told:
            self._told.add(key)
            edges = logic.edges()
            self._report(RangeSorted(*key, edges.rows, edges.first, edges.last))
        beside, left = self._beside.get(key), self._left.get(key)
        if beside is None or (spec.carries and worker.number and left is None):
            return False
        logic.meet(beside)
        if spec.carries:
            self._report(RangeComputed(*key, logic.carry(left)))
        self._ready.add(key)
        return True
