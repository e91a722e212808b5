"""Sources that hosts read by themselves, by threads: all rows come once, failures end everything, nothing stays."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from reshape.driver import execution as driver_execution
from reshape.driver import splits
from reshape.driver.cluster import TaskFate
from reshape.driver.execution import Execution
from reshape.errors import FlowFailed
from reshape.exchange.errors import HostClosed, Unreachable
from reshape.expressions.tree import Call, ColumnRef, Literal
from reshape.host import reading
from reshape.host.host import HostSettings
from reshape.host.reading import Readers
from reshape.host.running import RunningHost
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.hash_join import JoinSpec, OutputColumn
from reshape.operators.relay import RelaySpec
from reshape.operators.sort import SortSpec
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.protocol.link import ControlLink
from reshape.protocol.reports import SourceRead, SplitGiven, SplitWanted
from reshape.scan.reading import read_split
from reshape.scan.scan import Keep, Scan
from reshape.sender.source import SourceTask
from reshape.testing import ThreadedFlow, run_flow, scan_of, write_files

ROWS = 12_000
TABLE = pa.table({"k": pa.array(np.arange(ROWS) % 13), "v": pa.array(np.arange(ROWS))})
SOURCE = SourceNode(0, TABLE.schema)
BY_KEY = OperatorNode((SOURCE,), RelaySpec(TABLE.schema, (0,)))
# Only what hangs takes as long.
LIMIT_S = 60.0


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, ...]:
    return write_files(TABLE, tmp_path / "table", files=4, group_rows=300)


@pytest.fixture
def scan(paths: tuple[Path, ...]) -> Scan:
    return scan_of(TABLE.schema, paths)


def run(node: Node, scan: Scan, **options: Any) -> pa.Table:
    return run_flow(Planner().plan(node, "scans", 2, 5), [TABLE.slice(0, 0)], scans={0: scan}, **options)


def until_nothing_is_left() -> None:
    deadline = time.monotonic() + LIMIT_S
    while left := [thread.name for thread in threading.enumerate() if thread.name.startswith("reshape")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def reads(made: Any) -> AbstractContextManager[Any]:
    """Splits are read by another function."""
    return patch.object(reading, "read_split", made)


class Reached:
    """Hosts read some splits; then those that read on wait until they may, or until their host closes."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._count = 0
        self._lock = threading.Lock()
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, scan: Scan, split: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        with self._lock:
            self._count += 1
            wait = self._count > self._free
        if wait:
            self.reached.set()
            assert self.go_on.wait(LIMIT_S)
        yield from read_split(scan, split, **options)


def test_all_rows_come_once_and_nothing_stays(scan: Scan) -> None:
    assert len(scan.splits) == 40
    got = run(BY_KEY, scan)
    assert sorted(got["v"].to_pylist()) == list(range(ROWS))
    until_nothing_is_left()


@pytest.mark.parametrize("spill", [True, False])
def test_little_memory(scan: Scan, spill: bool) -> None:
    got = run(BY_KEY, scan, settings=HostSettings(queue_bytes=4_000, spill=spill))
    assert sorted(got["v"].to_pylist()) == list(range(ROWS))


def test_a_host_reads_little_ahead_of_its_workers(scan: Scan) -> None:
    with patch("reshape.host.running.READ_AHEAD_ROWS", 200):
        assert sorted(run(BY_KEY, scan)["v"].to_pylist()) == list(range(ROWS))


def test_a_filter_and_a_sort(scan: Scan) -> None:
    small = Keep(Call("LessThan", (ColumnRef(1, pa.int64()), Literal(700, pa.int64())), pa.bool_()))
    node = OperatorNode((SOURCE,), SortSpec(TABLE.schema, Ordering((SortKey.descending(0), SortKey(1)))))
    kept = scan_of(TABLE.schema, [Path(path) for path in dict.fromkeys(s.path for s in scan.splits)], steps=(small,))
    assert run(node, kept).equals(TABLE.slice(0, 700).sort_by([("k", "descending"), ("v", "ascending")]))


def test_a_join_of_a_scanned_and_a_sent_source(scan: Scan) -> None:
    names = pa.table({"k": pa.array(range(0, 26, 2)), "name": [f"n{k}" for k in range(0, 26, 2)]})
    columns = (OutputColumn("v", left=1), OutputColumn("name", right=1))
    sides = (SourceNode(0, TABLE.schema), SourceNode(1, names.schema))
    node = OperatorNode(sides, JoinSpec(TABLE.schema, names.schema, (0,), (0,), "inner", columns))
    plan = Planner().plan(node, "scans", 2, 5)
    got = run_flow(plan, [TABLE.slice(0, 0), names], scans={0: scan})
    assert sorted(got["v"].to_pylist()) == [v for v in range(ROWS) if v % 13 % 2 == 0]


def test_a_table_without_rows(tmp_path: Path) -> None:
    nothing = scan_of(TABLE.schema, write_files(TABLE.slice(0, 0), tmp_path / "empty"))
    assert run(BY_KEY, nothing).num_rows == 0
    assert run(BY_KEY, scan_of(TABLE.schema, [])).num_rows == 0


def test_more_hosts_than_splits(tmp_path: Path) -> None:
    one = scan_of(TABLE.schema, write_files(TABLE, tmp_path / "one", files=1, group_rows=ROWS))
    got = run_flow(Planner().plan(BY_KEY, "scans", 3, 3), [TABLE.slice(0, 0)], scans={0: one})
    assert sorted(got["v"].to_pylist()) == list(range(ROWS))


@pytest.mark.parametrize("change", ["removed", "truncated", "replaced"])
def test_a_file_that_changes_fails_the_flow_by_its_name(scan: Scan, paths: tuple[Path, ...], change: str) -> None:
    if change == "removed":
        paths[2].unlink()
    elif change == "truncated":
        os.truncate(paths[2], paths[2].stat().st_size // 2)
    else:
        write_files(TABLE.slice(0, 50), paths[2].parent / "new", files=1)[0].replace(paths[2])
    with pytest.raises(FlowFailed, match=r"source-0-host\d: SplitChanged: .*part-2.parquet changed after the scan"):
        run(BY_KEY, scan)
    until_nothing_is_left()


def test_a_page_that_is_corrupt_fails_the_flow(paths: tuple[Path, ...]) -> None:
    before = paths[1].stat()
    content = bytearray(paths[1].read_bytes())
    content[4:400] = b"\xff" * 396
    paths[1].write_bytes(content)
    os.utime(paths[1], ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(FlowFailed, match=r"source-0-host\d: SplitUnreadable: .*part-1.parquet cannot be read"):
        run(BY_KEY, scan_of(TABLE.schema, paths))
    until_nothing_is_left()


def test_an_error_in_an_operator_stops_readers(scan: Scan) -> None:
    """Those that wait for room are let go by the host, and do not hide its error by their own."""

    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            raise ZeroDivisionError("one over nothing")
        yield from ()

    with (
        patch("reshape.host.running.READ_AHEAD_ROWS", 100),
        pytest.raises(FlowFailed, match=r"repartition \(operator 0\), worker \d: ZeroDivisionError: one over nothing"),
    ):
        run(MapNode(BY_KEY, broken, TABLE.schema), scan)
    until_nothing_is_left()


def test_cancelling_while_hosts_read(scan: Scan) -> None:
    gate = Reached(free=5)
    executions: list[Execution] = []
    flow = ThreadedFlow(Planner().plan(BY_KEY, "scans", 2, 5), [[]], executions.append, scans={0: scan})

    def cancel() -> None:
        assert gate.reached.wait(LIMIT_S)
        flow.attempts.fail("the driver", "cancelled")
        gate.go_on.set()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with reads(gate), pytest.raises(FlowFailed, match="the driver: cancelled"):
        flow.run()
    canceller.join()
    until_nothing_is_left()


def test_a_host_that_spark_ends_while_it_reads_can_be_started_again(scan: Scan) -> None:
    """Its readers neither say that they have read everything nor fail the flow: it is nobody's fault."""
    gate = Reached(free=3)
    executions: list[Execution] = []
    closed: list[RunningHost] = []
    start = RunningHost.start

    def ended_soon(self: RunningHost) -> None:
        start(self)
        if not closed:
            closed.append(self)
            threading.Thread(target=end, args=(self,)).start()

    def end(running: RunningHost) -> None:
        assert gate.reached.wait(LIMIT_S)
        running.results.close(SystemExit("ended by SIGTERM"))
        gate.go_on.set()

    with reads(gate), patch.object(RunningHost, "start", ended_soon):
        flow = ThreadedFlow(Planner().plan(BY_KEY, "scans", 2, 5), [[]], executions.append, scans={0: scan})
        with pytest.raises(FlowFailed, match=r"host[- ][01]: (Spark has ended it before it was done|it is gone)"):
            flow.run()
    assert [execution.may_retry for execution in executions] == [True]
    until_nothing_is_left()


def test_hosts_that_are_gone_for_good_are_not_waited_for_for_ever(scan: Scan) -> None:
    """A host that is killed says nothing, and Spark may have given up on it."""
    posted: list[Any] = []
    with patch.object(splits, "LOOK_S", 0.02), patch.object(driver_execution, "SILENT_S", 0.2):
        execution = Execution(Planner().plan(BY_KEY, "scans", 2, 5), 1, 0, ("here", "there"), _NoCluster(), {0: scan})
        execution.board.post = lambda to, order: posted.append(order)  # type: ignore[method-assign]
        execution.start()
        execution.join(LIMIT_S)
    assert execution.failure is not None
    assert execution.may_retry
    assert "the driver has not heard of it while it was reading source 0" in execution.failure.cause
    until_nothing_is_left()


class _NoCluster:
    def run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        raise AssertionError("hosts read it")

    def cancel_sources(self, attempt: int) -> None: ...

    def cancel_hosts(self, stage: int, reason: str) -> None: ...

    def kept_rows(self, stage: int) -> str | None:
        return None

    def task_count(self, stage: int) -> int | None:
        return None

    def unsuccessful(self, stage: int) -> list[TaskFate]:
        raise AssertionError("nothing was run again")


def test_a_reader_whose_last_word_is_lost_ends_its_host(scan: Scan) -> None:
    """Else the driver would wait for it as long as its host lives."""
    report = ControlLink.report

    def unheard(self: ControlLink, *reports: Any, **options: Any) -> None:
        if any(isinstance(each, SourceRead) for each in reports) or self._sender.task.startswith("source"):
            raise Unreachable("the line is dead")
        report(self, *reports, **options)

    with patch.object(ControlLink, "report", unheard), pytest.raises(FlowFailed, match="Spark has ended it before"):
        run(BY_KEY, scan)
    until_nothing_is_left()


def readers_of(scan: Scan, failed: list[Exception]) -> Readers:
    plan = Planner().plan(BY_KEY, "scans", 2, 5)
    return Readers(
        plan,
        0,
        {0: scan},
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        lambda *_: None,
        lambda _: None,
        lambda _, error: failed.append(error),
    )


class _Task(SourceTask):
    """Asks for splits, routes nothing."""

    def __init__(self, answers: list[Any], before: Any = lambda: None) -> None:
        self.link = self  # type: ignore[assignment]
        self._answers = answers
        self._before = before
        self.told: list[int] = []

    @property
    def sampled_columns(self) -> None:
        """Nothing is sorted."""

    def ask(self, question: SplitWanted) -> Any:
        self._before()
        return self._answers.pop(0)

    def run(self, batches: Iterator[pa.RecordBatch], last_word: Any = None, read: Any = None) -> int:
        rows = sum(int(batch.num_rows) for batch in batches)
        self.told.append(last_word(rows).rows)
        return rows


def test_readers_that_are_closed_do_not_say_that_they_are_through(scan: Scan) -> None:
    failed: list[Exception] = []
    readers = readers_of(scan, failed)
    task = _Task([SplitGiven(0), SplitGiven(1), SplitGiven(None)], readers.close)
    with patch.object(Readers, "_task", lambda *_: task):
        thread = threading.Thread(target=readers._read, args=(0, "source-0-host0", task))
        thread.start()
        thread.join(LIMIT_S)
    assert task.told == []
    assert [type(error) for error in failed] == [HostClosed]


def test_readers_that_are_closed_start_nothing(scan: Scan) -> None:
    readers = readers_of(scan, [])
    readers.close()
    readers.start(0)
    until_nothing_is_left()


def test_an_attempt_that_the_driver_has_forgotten_is_no_end_of_the_splits(scan: Scan) -> None:
    failed: list[Exception] = []
    task = _Task([SplitGiven(0), None])
    readers = readers_of(scan, failed)
    readers._met = type("Met", (), {"attempt": 3})()
    readers._read(0, "source-0-host0", task)
    assert task.told == []
    assert "attempt 3 is over" in str(failed[0])
