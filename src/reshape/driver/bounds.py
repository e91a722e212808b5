"""Bounds of sorts, and of the heavy keys of windows: made of the samples of all routers that have rows by then, and
the same for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import pyarrow as pa

from reshape.driver.control_plane import PortId
from reshape.driver.port_control import Post
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.orders import UseBounds
from reshape.sender.ranges import agree

# Routers that start within this time of the first one have a say in the bounds of a sort; it is not waited for when
# all that there will be have been heard.
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

    def add(self, task: str, rows: pa.RecordBatch | None) -> bool:
        """Whether a task is heard of for the first time. None: it has no rows for the sort and has ended."""
        first = task not in self._by_task
        self._by_task.setdefault(task, []).extend([] if rows is None else [rows])
        return first

    @property
    def tasks(self) -> int:
        """Of which it is known that they have rows, or none."""
        return len(self._by_task)

    @property
    def rows(self) -> list[pa.RecordBatch]:
        return [rows for given in self._by_task.values() for rows in given if rows.num_rows]

    @property
    def limit_s(self) -> float:
        """How long the first rows wait for those of others."""
        awaited = not self._others and self.tasks < self._scanning_tasks
        return SCANNED_S if awaited else GATHER_S


class SortBounds:
    """``scanned`` are the sources that all hosts read; ``task_count`` tells how many tasks read another one, if that is
    known; ``fail`` is called with where and why when no bounds can be made."""

    def __init__(
        self,
        plan: PhysicalPlan,
        post: Post,
        fail: Callable[[str, str], None],
        scanned: Collection[int],
        task_count: Callable[[int], int | None],
    ) -> None:
        self._scanned = scanned
        self._task_count = task_count
        self._plan = plan
        self._post = post
        self._fail = fail
        self._lock = threading.Lock()
        self._samples: dict[PortId, _Samples] = {}
        for operator in plan.operators:
            for number, port in enumerate(operator.ports):
                if port.ordering is None:
                    continue
                by_hosts = [source for source in port.sources if source in scanned]
                others = len(by_hosts) < len(port.sources) + len(port.operators)
                self._samples[operator.id, number] = _Samples(plan.hosts * len(by_hosts), others=others)

    def sampled(self, port: PortId, task: str, rows: pa.RecordBatch) -> None:
        """A task has rows for a sort, or none. Bounds are made when all have said so, or some time after the first."""
        self._heard(port, task, rows)

    def ended(self, port: PortId, task: str) -> None:
        """A task will send no more rows to an input; if that is a sort and it had none, nobody waits for it."""
        self._heard(port, task, None)

    def _heard(self, port: PortId, task: str, rows: pa.RecordBatch | None) -> None:
        samples = self._samples.get(port)
        if samples is None or samples.agreed:
            return
        expected = self._expected(port)
        with self._lock:
            is_new = samples.add(task, rows)
            if not samples.rows or samples.agreed:
                return
            is_last = is_new and expected is not None and samples.tasks >= expected
            is_first = not samples.timed
            samples.timed = True
            limit_s = samples.limit_s
        if is_last:
            self._agree(port)
        elif is_first:
            timer = threading.Timer(limit_s, self._agree, (port,))
            timer.daemon = True
            timer.start()

    def _expected(self, port: PortId) -> int | None:
        """How many tasks will be heard of, if that is known. What hosts send of two operators comes under one name."""
        of = self._plan.operators[port[0]].ports[port[1]]
        if len(of.operators) > 1:
            return None
        hosts = self._plan.hosts
        counts = [hosts if source in self._scanned else self._task_count(source) for source in of.sources]
        known = [count for count in counts if count is not None]
        return sum(known) + hosts * len(of.operators) if len(known) == len(counts) else None

    def _agree(self, port: PortId) -> None:
        operator, number = port
        input = self._plan.operators[operator].ports[number]
        assert input.ordering is not None
        with self._lock:
            samples = self._samples[port]
            if samples.agreed:
                return
            samples.agreed = True
            rows = samples.rows
        try:
            bounds = agree(rows, input.ordering, self._plan.workers, input.keys)
        except Exception as error:
            self._fail(self._plan.operators[operator].label, f"{type(error).__name__}: {error}")
            return
        self._post("all", UseBounds(operator, number, bounds))
