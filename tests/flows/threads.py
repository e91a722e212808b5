"""A body without Spark jobs: real hosts, sources, exchange and driver's service, as threads of this process.

What Spark does for a flow is done here by threads: barrier tasks, source tasks in waves, and a
job that fails as a whole. Everything else is the code that runs on Spark.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa

from reshape.driver.execution import Execution
from reshape.driver.launch import LaunchedFlow
from reshape.driver.service import DriverService
from reshape.host.host import Host, HostSettings
from reshape.plan.physical import PhysicalPlan
from reshape.sender.source import SourceTask

# Source tasks of one source that run at the same time: fewer than most flows have partitions, so that there are waves.
WAVE = 3
# Only what hangs takes as long as this; a flow of some thousand rows takes a fraction of a second.
LIMIT_S = 90.0
TEARDOWN_S = 60.0

Partitions = Sequence[Sequence[pa.RecordBatch]]
OnExecution = Callable[[Execution], None]


@dataclass(frozen=True, slots=True)
class Cut:
    """How the rows of every source are cut: partitions of random length, batches of up to so many rows."""

    seed: int = 0
    partitions: int = 4
    batch_rows: int = 500


class SourcesCancelled(Exception):
    """The flow has ended while this source had rows left."""


class ThreadedFlow(LaunchedFlow):
    """A flow whose sources are Arrow batches, run once."""

    def __init__(
        self, plan: PhysicalPlan, sources: Sequence[Partitions], on_execution: OnExecution = lambda _: None
    ) -> None:
        super().__init__(cast(Any, None), plan, ())
        self._partitions = sources
        self._on_execution = on_execution
        self._cancelled = threading.Event()
        self._news = threading.Condition()  # a host has ended, or nobody waits for it any more
        self._given_up = False
        self._ended = 0
        self._outputs: list[list[pa.RecordBatch]] = [[] for _ in range(plan.hosts)]
        self._errors: list[BaseException] = []

    def run(
        self,
        settings: HostSettings = HostSettings(),  # noqa: B008 - frozen
        limit_s: float = LIMIT_S,
    ) -> list[list[pa.RecordBatch]]:
        """The output of each host; raises what the flow failed with, and leaves nothing behind."""
        service = DriverService("127.0.0.1")
        self.location = service.register(self.name, self)
        hosts = [
            threading.Thread(target=self._host, args=(index, settings), name=f"reshape-task-{index}", daemon=True)
            for index in range(self._plan.hosts)
        ]
        try:
            for host in hosts:
                host.start()
            with self._news:
                self._news.wait_for(lambda: self._given_up or self._ended == len(hosts), limit_s)
            if self._ended < len(hosts):
                stuck = _stacks()
                late = [host.name for host in hosts if host.is_alive()]
                late_hosts = f"{', '.join(late)} did not end within {limit_s:.1f} s"
                self.fail("the threads", late_hosts)
                for host in hosts:
                    host.join(TEARDOWN_S)
                raise TimeoutError(f"{late_hosts}; {self.failure}\n{stuck}")
            self.join(TEARDOWN_S)
        finally:
            service.unregister(self.name)
        if self.failure is not None:
            raise self.failure from (self._errors[0] if self._errors else None)
        if self._errors:
            raise self._errors[0]
        return self._outputs

    def give_up(self) -> None:
        """Wait no longer: the flow hangs."""
        with self._news:
            self._given_up = True
            self._news.notify_all()

    def _host(self, index: int, settings: HostSettings) -> None:
        try:
            host = Host(self._plan, index, self._address(), settings, "127.0.0.1")
            for batch in host.results():
                self._outputs[index].append(batch)
        except BaseException as error:
            self._errors.append(error)
        finally:
            with self._news:
                self._ended += 1
                self._news.notify_all()

    def _execution(self, attempt: int, locations: tuple[str, ...]) -> Execution:
        execution = super()._execution(attempt, locations)
        self._on_execution(execution)
        return execution

    def _run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        edge = self._plan.edge(*self._plan.source_target(source))

        def task(partition: int) -> int:
            batches = self._batches(source, partition)
            made = SourceTask(edge, source, self._address(), attempt, locations, partition, 0).run(batches)
            return sum(batch.column(0)[0].as_py() for batch in made)

        with ThreadPoolExecutor(WAVE, thread_name_prefix=f"reshape-wave-{source}") as pool:
            tasks = [pool.submit(task, partition) for partition in range(len(self._partitions[source]))]
            try:
                return sum(done.result() for done in as_completed(tasks))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _cancel_sources(self, attempt: int) -> None:
        self._cancelled.set()

    def _cancel_hosts(self, stage: int, reason: str) -> None:
        """Threads cannot be killed; they end because they are told to."""

    def _batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        for batch in self._partitions[source][partition]:
            if self._cancelled.is_set():
                raise SourcesCancelled(f"source {source}, partition {partition}")
            yield batch


def run_flow(
    plan: PhysicalPlan,
    tables: Sequence[pa.Table],
    cut: Cut = Cut(),  # noqa: B008 - frozen
    *,
    settings: HostSettings = HostSettings(),  # noqa: B008 - frozen
    on_execution: OnExecution = lambda _: None,
) -> pa.Table:
    """Run a plan over these sources; the rows of the result in the order of hosts, as partitions of a DataFrame are.

    ``on_execution`` gets the execution before its sources start, to meddle with it while the flow runs.
    """
    sources = [cut_up(table, np.random.default_rng([cut.seed, number]), cut) for number, table in enumerate(tables)]
    return table_of(plan, ThreadedFlow(plan, sources, on_execution).run(settings))


def table_of(plan: PhysicalPlan, outputs: Sequence[Sequence[pa.RecordBatch]]) -> pa.Table:
    """What hosts gave, in their order."""
    schema = next(operator.output for operator in plan.operators if operator.target is None)
    return pa.Table.from_batches([batch for output in outputs for batch in output], schema)


def cut_up(table: pa.Table, rng: np.random.Generator, cut: Cut) -> Partitions:
    """Partitions of random lengths, some empty or of empty batches; all batches are slices of one block."""
    block = (table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)])[0]
    edges = np.sort(rng.integers(0, block.num_rows + 1, cut.partitions - 1))
    bounds = [0, *edges.tolist(), block.num_rows]
    partitions: list[list[pa.RecordBatch]] = []
    for start, end in pairwise(bounds):
        batches: list[pa.RecordBatch] = []
        at = start
        while at < end:
            rows = min(int(rng.integers(0, cut.batch_rows + 1)), end - at)
            batches.append(block.slice(at, rows))
            at += rows
        if rng.random() < 0.3:
            batches.append(block.slice(end, 0))
        partitions.append(batches)
    return partitions


def _stacks() -> str:
    """Where the threads of a flow that hangs are."""
    frames = sys._current_frames()
    return "\n".join(
        f"{thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident], 6))}"
        for thread in threading.enumerate()
        if thread.name.startswith("reshape") and thread.ident in frames
    )
