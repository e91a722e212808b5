"""Threads in the place of Spark: barrier tasks, source tasks in waves, and a job that fails as a whole."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import count
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from reshape.driver.attempts import Attempts, unique_name
from reshape.driver.cluster import TaskFate
from reshape.driver.execution import Execution
from reshape.driver.service import DriverService
from reshape.errors import ReshapeError
from reshape.host.host import Host, HostSettings
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.link import FlowAddress
from reshape.protocol.reports import SourceBegins
from reshape.scan.scan import Scan
from reshape.sender.source import SourceTask
from reshape.testing.cutting import Cut, Partitions, cut_up

# Source tasks of one source that run at the same time: fewer than most flows have partitions, so that there are waves.
WAVE = 3
# Only what hangs takes as long as this; a flow of some thousand rows takes a fraction of a second.
LIMIT_S = 90.0
TEARDOWN_S = 60.0

OnExecution = Callable[[Execution], None]


class SourcesCancelled(ReshapeError):
    """The flow has ended while this source had rows left."""


class ThreadCluster:
    """A :class:`reshape.driver.cluster.Cluster` of threads. ``at`` tells where the flow's driver listens."""

    def __init__(self, plan: PhysicalPlan, sources: Sequence[Partitions], at: Callable[[], FlowAddress]) -> None:
        self.cancelled = threading.Event()
        self._plan = plan
        self._sources = sources
        self._at = at
        self._tasks = count(1)  # each has a number to itself

    def batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        """The batches of one source task; a test may override this to send them in its own time."""
        yield from self._sources[source][partition]

    def run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        edge = self._plan.edge(*self._plan.source_target(source))

        def run_task(partition: int) -> int:
            task = SourceTask(edge, self._at(), attempt, locations, f"source-{source}-{partition}")
            task.begin(SourceBegins(source, partition, source, next(self._tasks)))
            return task.run(self._until_cancelled(source, partition))

        with ThreadPoolExecutor(WAVE, thread_name_prefix=f"reshape-wave-{source}") as pool:
            tasks = [pool.submit(run_task, partition) for partition in range(len(self._sources[source]))]
            try:
                return sum(done.result() for done in as_completed(tasks))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def cancel_sources(self, attempt: int) -> None:
        self.cancelled.set()

    def cancel_hosts(self, stage: int, reason: str) -> None:
        """Threads cannot be killed; they end because they are told to."""

    def kept_rows(self, stage: int) -> str | None:
        return None

    def task_count(self, stage: int) -> int | None:
        return len(self._sources[stage])  # the stage of a source has its number

    def unsuccessful(self, stage: int) -> Sequence[TaskFate]:
        """Threads are not tried again."""
        return ()

    def _until_cancelled(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        for batch in self.batches(source, partition):
            if self.cancelled.is_set():
                raise SourcesCancelled(f"source {source}, partition {partition}")
            yield batch


MakeCluster = Callable[[PhysicalPlan, Sequence[Partitions], Callable[[], FlowAddress]], ThreadCluster]


class _WatchedAttempts(Attempts):
    """Shows every execution before its sources start."""

    def __init__(
        self,
        name: str,
        plan: PhysicalPlan,
        cluster: ThreadCluster,
        scans: Mapping[int, Scan],
        on_execution: OnExecution,
    ) -> None:
        super().__init__(name, plan, cluster, scans)
        self._on_execution = on_execution

    def _execution(self, attempt: int, stage: int, locations: tuple[str, ...]) -> Execution:
        execution = super()._execution(attempt, stage, locations)
        self._on_execution(execution)
        return execution


class ThreadedFlow:
    """A plan whose sources are Arrow batches, run once. Those in ``scans``, by their number, are read by the hosts
    instead. ``on_execution`` gets the execution before its sources start, to watch it or to meddle with it while the
    flow runs."""

    def __init__(
        self,
        plan: PhysicalPlan,
        sources: Sequence[Partitions],
        on_execution: OnExecution = lambda _: None,
        cluster: MakeCluster = ThreadCluster,
        scans: Mapping[int, Scan] = MappingProxyType({}),
    ) -> None:
        self._plan = plan
        self._scans = scans
        self.cluster = cluster(plan, sources, self._address)
        self.attempts = _WatchedAttempts(unique_name(plan.name), plan, self.cluster, scans, on_execution)
        self._location = ""
        self._outputs: list[list[pa.RecordBatch]] = [[] for _ in range(plan.hosts)]
        self._errors: list[BaseException] = []

    def run(
        self,
        settings: HostSettings = HostSettings(),  # noqa: B008 - frozen
        limit_s: float = LIMIT_S,
    ) -> pa.Table:
        """The rows of the result in the order of hosts, as partitions of a DataFrame are; raises what the flow failed
        with, and leaves nothing behind."""
        service = DriverService("127.0.0.1")
        self._location = service.register(self.attempts.name, self.attempts)
        hosts = [
            threading.Thread(target=self._host, args=(index, settings), name=f"reshape-task-{index}", daemon=True)
            for index in range(self._plan.hosts)
        ]
        try:
            for host in hosts:
                host.start()
            self._await(hosts, limit_s)
            self.attempts.join(TEARDOWN_S)
        finally:
            service.unregister(self.attempts.name)
        if self.attempts.failure is not None:
            raise self.attempts.failure from (self._errors[0] if self._errors else None)
        if self._errors:
            raise self._errors[0]
        return pa.Table.from_batches([batch for output in self._outputs for batch in output], self._plan.output)

    def _await(self, hosts: Sequence[threading.Thread], limit_s: float) -> None:
        late = _join(hosts, limit_s)
        if not late:
            return
        stuck = "\n".join([*self._waits_for(), _stacks()])
        late_hosts = f"{', '.join(late)} did not end within {limit_s:.1f} s"
        self.attempts.fail("the threads", late_hosts)
        _join(hosts, TEARDOWN_S)
        raise TimeoutError(f"{late_hosts}; {self.attempts.failure}\n{stuck}")

    def _waits_for(self) -> list[str]:
        execution = self.attempts.newest
        return ["no attempt has begun"] if execution is None else execution.control.waits_for()

    def _host(self, index: int, settings: HostSettings) -> None:
        try:
            host = Host(self._plan, index, self._address(), settings, "127.0.0.1", scans=self._scans)
            for batch in host.results():
                self._outputs[index].append(batch)
        except BaseException as error:
            self._errors.append(error)

    def _address(self) -> FlowAddress:
        return FlowAddress(self.attempts.name, self._location, self.attempts.access)


def run_flow(
    plan: PhysicalPlan,
    tables: Sequence[pa.Table],
    cut: Cut = Cut(),  # noqa: B008 - frozen
    *,
    settings: HostSettings = HostSettings(),  # noqa: B008 - frozen
    on_execution: OnExecution = lambda _: None,
    limit_s: float = LIMIT_S,
    scans: Mapping[int, Scan] = MappingProxyType({}),
) -> pa.Table:
    """Run a plan over these tables, one for each of its sources. Hosts read the sources in ``scans`` by themselves; the
    tables of those are not looked at."""
    sources = [cut_up(table, np.random.default_rng([cut.seed, number]), cut) for number, table in enumerate(tables)]
    return ThreadedFlow(plan, sources, on_execution, scans=scans).run(settings, limit_s)


def _join(threads: Sequence[threading.Thread], limit_s: float) -> list[str]:
    """Wait for threads; the names of those that are still there."""
    deadline = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread.name for thread in threads if thread.is_alive()]


def _stacks() -> str:
    """Where the threads of a flow that hangs are."""
    frames = sys._current_frames()
    return "\n".join(
        f"{thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident], 6))}"
        for thread in threading.enumerate()
        if thread.name.startswith("reshape") and thread.ident in frames
    )
