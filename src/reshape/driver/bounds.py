"""Bounds of sorts: made of the samples of all routers that have rows by then, and the same for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import pyarrow as pa

from reshape.driver.control_plane import PortId
from reshape.driver.port_control import Post
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.orders import UseBounds
from reshape.sender.ranges import agree

# Routers that start within this time of the first one have a say in the bounds of a sort, unless it is known who will.
GATHER_S = 0.3
# Hosts that read a source all sample it, in some tens of milliseconds. Those that are later than this are not waited
# for: uneven ranges are better than none.
SCANNED_S = 5.0


class _Samples:
    """Of one input, by the task that gave them. A task whose sample was empty gives another when it has rows."""

    def __init__(self, scanning_tasks: int, *, others: bool) -> None:
        self._scanning_tasks = scanning_tasks
        self._others = others
        self._by_task: dict[str, list[pa.RecordBatch]] = {}
        self.agreed = False
        self.timed = False

    def add(self, task: str, rows: pa.RecordBatch) -> bool:
        """Whether these are the last that there is to wait for."""
        first = task not in self._by_task
        self._by_task.setdefault(task, []).append(rows)
        return first and not self._others and len(self._by_task) >= self._scanning_tasks

    @property
    def rows(self) -> list[pa.RecordBatch]:
        return [rows for given in self._by_task.values() for rows in given if rows.num_rows]

    @property
    def limit_s(self) -> float:
        """How long the first rows wait for those of others. Nobody knows how many tasks Spark will start."""
        awaited = not self._others and len(self._by_task) < self._scanning_tasks
        return SCANNED_S if awaited else GATHER_S


class SortBounds:
    """``scanned`` are the sources that all hosts read; ``fail`` is called with where and why when no bounds can be
    made."""

    def __init__(
        self, plan: PhysicalPlan, post: Post, fail: Callable[[str, str], None], scanned: Collection[int] = ()
    ) -> None:
        self._plan = plan
        self._post = post
        self._fail = fail
        self._lock = threading.Lock()
        self._samples: dict[PortId, _Samples] = {}
        for operator in plan.operators:
            for number, port in enumerate(operator.ports):
                by_hosts = [source for source in port.sources if source in scanned]
                others = len(by_hosts) < len(port.sources) + len(port.operators)
                self._samples[operator.id, number] = _Samples(plan.hosts * len(by_hosts), others=others)

    def sampled(self, port: PortId, task: str, rows: pa.RecordBatch) -> None:
        """A task has rows for a sort, or none. Bounds are made when all have said so, or some time after the first."""
        with self._lock:
            samples = self._samples[port]
            is_last = samples.add(task, rows)
            if not samples.rows or samples.agreed:
                return
            is_first = not samples.timed
            samples.timed = True
            limit_s = samples.limit_s
        if is_last:
            self._agree(port)
        elif is_first:
            timer = threading.Timer(limit_s, self._agree, (port,))
            timer.daemon = True
            timer.start()

    def _agree(self, port: PortId) -> None:
        operator, number = port
        ordering = self._plan.operators[operator].ports[number].ordering
        assert ordering is not None
        with self._lock:
            samples = self._samples[port]
            if samples.agreed:
                return
            samples.agreed = True
            rows = samples.rows
        try:
            bounds = agree(rows, ordering, self._plan.workers)
        except Exception as error:
            self._fail(self._plan.operators[operator].label, f"{type(error).__name__}: {error}")
            return
        self._post("all", UseBounds(operator, number, bounds))
