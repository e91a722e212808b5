"""A paused flow reads, sends and processes nothing, and goes on as if nothing had been."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from reshape.driver.execution import Execution
from reshape.errors import FlowFailed
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.group_by import GroupBySpec
from reshape.plan.physical import PhysicalOperator, PhysicalPlan, Port
from reshape.testing import ThreadCluster, ThreadedFlow, scan_of, write_files

ROWS = 60_000
TABLE = pa.table({"k": pa.array([i % 7 for i in range(ROWS)], pa.int64())})
LIMIT_S = 60.0
# Longer than several reports and looks of the brain: a flow that did not stop would show it.
QUIET_S = 0.6


def plan() -> PhysicalPlan:
    spec = GroupBySpec(TABLE.schema, (0,), (CountAll("n"),))
    port = Port(TABLE.schema, keys=(0,), sources=(0,))
    operator = PhysicalOperator(0, "group by", spec, (port,), spec.output_schema, cost_s_per_row=0.0001)
    return PhysicalPlan("paused", (operator,), 2, 4)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.01)


def processed(execution: Execution) -> int:
    return sum(sum(counts.processed) for _, counts in execution.result.workers())


def counts(table: pa.Table) -> dict[int, int]:
    return dict(zip(table["k"].to_pylist(), table["n"].to_pylist(), strict=True))


class Paused:
    """A flow over files that hosts read, or over batches of source tasks, run in a thread of its own."""

    def __init__(self, folder: Path | None) -> None:
        self.executions: list[Execution] = []
        scans, sources = {}, [[TABLE.slice(i, 500).to_batches() for i in range(0, ROWS, 500)]]
        if folder is not None:
            scans = {0: scan_of(TABLE.schema, write_files(TABLE, folder))}
            sources = [[]]
        self.flow = ThreadedFlow(plan(), sources, self.executions.append, scans=scans)
        self.result: pa.Table | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.result = self.flow.run()
        except BaseException as error:
            self.error = error

    @property
    def execution(self) -> Execution:
        return self.executions[0]


@pytest.fixture(params=["hosts", "tasks"])
def paused(request: pytest.FixtureRequest, tmp_path: Path) -> Paused:
    """One that has begun and is paused."""
    run = Paused(tmp_path if request.param == "hosts" else None)
    run.thread.start()
    until(lambda: bool(run.executions) and processed(run.execution) > 0, "the first rows")
    run.flow.attempts.pause()
    return run


def test_nothing_moves_and_no_time_passes_until_it_goes_on(paused: Paused) -> None:
    execution = paused.execution
    before: list[int] = []

    def stands_still() -> bool:
        before.append(processed(execution))
        time.sleep(QUIET_S)
        return processed(execution) == before[-1]

    until(stands_still, "workers to stop")
    assert before[-1] < ROWS
    assert execution.control.paused
    now = execution.control.now
    time.sleep(QUIET_S)
    assert execution.control.now == now
    paused.flow.attempts.resume()
    paused.thread.join(LIMIT_S)
    assert paused.error is None
    assert paused.result is not None
    assert counts(paused.result) == {k: len(range(k, ROWS, 7)) for k in range(7)}


def test_it_can_be_stopped_while_it_is_paused(paused: Paused) -> None:
    paused.flow.attempts.stop("the driver", "stopped")
    paused.thread.join(LIMIT_S)
    assert not paused.thread.is_alive()
    assert isinstance(paused.error, FlowFailed)


@pytest.mark.parametrize("by", ["hosts", "tasks"])
def test_an_attempt_of_a_paused_flow_begins_paused(tmp_path: Path, by: str) -> None:
    run = Paused(tmp_path if by == "hosts" else None)
    run.flow.attempts.pause()
    run.thread.start()
    until(lambda: bool(run.executions) and len(run.execution.result.workers()) == 4, "the hosts")
    time.sleep(QUIET_S)
    assert processed(run.execution) == 0
    assert sum(run.execution.sources.rows().values()) == 0
    run.flow.attempts.resume()
    run.thread.join(LIMIT_S)
    assert run.result is not None
    assert sum(counts(run.result).values()) == ROWS


class HeldCluster(ThreadCluster):
    """The first partition is sent, and others when they may."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.may_send = threading.Event()

    def batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        assert partition == 0 or self.may_send.wait(LIMIT_S)
        yield from super().batches(source, partition)


def test_what_was_not_read_before_a_stop_does_not_count_as_read() -> None:
    executions: list[Execution] = []
    sources = [[TABLE.slice(at * 500, 500).to_batches() for at in range(4)]]
    flow = ThreadedFlow(plan(), sources, executions.append, cluster=HeldCluster)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            flow.run()
        except FlowFailed as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until(lambda: bool(executions) and executions[0].sources.parts() == {0: 0.25}, "the first of four tasks")
    flow.attempts.stop("the driver", "stopped")
    assert isinstance(flow.cluster, HeldCluster)
    flow.cluster.may_send.set()
    thread.join(LIMIT_S)
    assert len(errors) == 1
    assert executions[0].sources.parts() == {0: 0.25}
