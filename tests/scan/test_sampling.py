"""Samples of a scan, and the bounds of a sort that are made of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reshape.driver import bounds as bounds_module
from reshape.driver.bounds import SortBounds
from reshape.expressions.tree import Call, ColumnRef, Literal
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.range_bounds import RangeBounds
from reshape.operators.sort import SortSpec
from reshape.plan.physical import PhysicalOperator, PhysicalPlan, Port
from reshape.protocol.orders import UseBounds
from reshape.scan import sampling
from reshape.scan.footers import with_footers
from reshape.scan.narrowing import narrowed
from reshape.scan.opening import opened
from reshape.scan.reading import read_split
from reshape.scan.sampling import SAMPLE_ROWS, sample
from reshape.scan.scan import Compute, Keep, ReadFacts, Scan, ScanColumn, Split

FACTS = ReadFacts(True, True, "CORRECTED", "CORRECTED", False)
HOSTS = 4
WORKERS = 8
ROWS = 80_000


def scan_of(table: pa.Table, folder: Path, files: int = 8, group_rows: int = 2_500) -> Scan:
    """The table in files one behind the other, with the footers read."""
    splits = []
    for number, start in enumerate(range(0, len(table), -(-len(table) // files))):
        path = folder / f"{number:03d}.parquet"
        pq.write_table(table.slice(start, -(-len(table) // files)), path, row_group_size=group_rows)
        status = os.stat(path)
        splits.append(Split(str(path), 0, status.st_size, (), status.st_size, status.st_mtime_ns // 1_000_000))
    columns = tuple(ScanColumn(field.name, field.type) for field in table.schema)
    return with_footers(Scan(table.schema, columns, (), (), FACTS, tuple(splits)), 1_000)


def plan_of(schema: pa.Schema, ordering: Ordering, **port: Any) -> PhysicalPlan:
    inputs = (Port(schema, ordering=ordering, **({"sources": (0,)} | port)),)
    return PhysicalPlan("t", (PhysicalOperator(0, "sort", SortSpec(schema, ordering), inputs, schema),), HOSTS, WORKERS)


class Driver:
    """The driver's part: bounds that were posted, and failures."""

    def __init__(self, plan: PhysicalPlan, scanned: tuple[int, ...] = (0,), tasks: int | None = None) -> None:
        self.posted: list[UseBounds] = []
        self.failures: list[str] = []
        self.bounds = SortBounds(
            plan,
            lambda _, order: self.posted.append(order),
            lambda where, why: self.failures.append(why),
            scanned,
            lambda _: tasks,
        )

    def sampled(self, task: str, rows: pa.RecordBatch) -> None:
        self.bounds.sampled((0, 0), task, rows)


@pytest.fixture(autouse=True)
def nobody_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of time never pass while a test runs."""
    monkeypatch.setattr(bounds_module, "GATHER_S", 3_600.0)
    monkeypatch.setattr(bounds_module, "SCANNED_S", 3_600.0)


def largest_share(scan: Scan, ordering: Ordering) -> float:
    """The rows of the largest range beside an even share, when all hosts have sampled."""
    driver = Driver(plan_of(scan.schema, ordering))
    for host in range(HOSTS):
        assert not driver.posted
        driver.sampled(f"source-0-host{host}", sample(scan, ordering.columns, host, HOSTS))
    (order,) = driver.posted
    assert not driver.failures
    ranges = RangeBounds(ordering, order.rows)
    counts = np.zeros(WORKERS, dtype=np.int64)
    for split in scan.splits:
        for batch in read_split(scan, split):
            counts += np.bincount(ranges.partition(batch), minlength=WORKERS)
    assert counts.sum() == sum(split.rows or 0 for split in scan.splits)
    return float(counts.max() / (counts.sum() / WORKERS))


def ordered() -> pa.Table:
    numbers = np.arange(ROWS, dtype=np.int64)
    return pa.table(
        {
            "payload": pa.array([f"row {number}" for number in numbers]),
            "n": numbers,
            "backwards": numbers[::-1],
            "text": pa.array([f"{number:08d}" for number in numbers]),
            "some null": pa.array(np.where(numbers % 10 == 0, 0, numbers), mask=numbers % 10 == 0),
            "day": pa.array((numbers // 100).astype(np.int32)).cast(pa.date32()),
        }
    )


@pytest.mark.parametrize(
    "keys",
    [
        (SortKey(1),),
        (SortKey.descending(1),),
        (SortKey(2),),
        (SortKey(3),),
        (SortKey(4),),
        (SortKey(5), SortKey.descending(1)),
        (SortKey(1), SortKey(1)),
    ],
    ids=["sorted", "descending", "reverse sorted", "strings", "nulls", "several keys", "one key twice"],
)
@pytest.mark.parametrize("files", [8, 1], ids=["8 files", "1 file"])
def test_ranges_of_input_in_order_are_even(tmp_path: Path, keys: tuple[SortKey, ...], files: int) -> None:
    assert largest_share(scan_of(ordered(), tmp_path, files), Ordering(keys)) <= 1.5


def test_one_huge_row_group_in_order(tmp_path: Path) -> None:
    scan = scan_of(ordered(), tmp_path, files=1, group_rows=ROWS)
    assert len(scan.splits) == 1
    assert largest_share(scan, Ordering((SortKey(1),))) <= 1.5


def test_files_of_unequal_size_have_a_say_by_their_rows(tmp_path: Path) -> None:
    small = [scan_of(ordered().slice(number * 100, 100), _folder(tmp_path, number), files=1) for number in range(7)]
    large = scan_of(ordered().slice(700), _folder(tmp_path, 7), files=1, group_rows=ROWS)
    scan = replace(large, splits=tuple(split for part in (*small, large) for split in part.splits))
    assert largest_share(scan, Ordering((SortKey(1),))) <= 1.5


def test_few_distinct_keys_fill_ranges_of_their_own(tmp_path: Path) -> None:
    table = pa.table({"k": np.sort(np.arange(ROWS) % 4)})
    assert largest_share(scan_of(table, tmp_path), Ordering((SortKey(0),))) == WORKERS / 4


def test_limits_on_what_is_read_keep_ranges_even(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_MOST_GROUPS", 16)
    scan = scan_of(ordered(), tmp_path, files=160, group_rows=50)
    with monkeypatch.context() as patch:
        opened = _counting(patch)
        sample(scan, (1,), 0, HOSTS)
    assert len(opened) == 16
    assert largest_share(scan, Ordering((SortKey(1),))) <= 1.5
    monkeypatch.setattr(sampling, "_MOST_STORED_ROWS", 5_000)
    with monkeypatch.context() as patch:
        opened = _counting(patch)
        sample(scan, (1,), 0, HOSTS)
    assert len(opened) == 10, "of 500 rows each"
    with monkeypatch.context() as patch:
        opened = _counting(patch)
        sample(scan, (1,), 0, HOSTS, 1_000)
    assert len(opened) == 2


def test_a_sample_is_small_and_evenly_spread(tmp_path: Path) -> None:
    scan = scan_of(ordered(), tmp_path)
    parts = [sample(scan, (1,), host, HOSTS) for host in range(HOSTS)]
    assert sum(part.num_rows for part in parts) == SAMPLE_ROWS * HOSTS
    numbers = np.sort(np.concatenate([part.column(0).to_numpy() for part in parts]))
    assert np.diff(numbers).max() <= 2 * ROWS // (SAMPLE_ROWS * HOSTS)
    few = scan_of(ordered().slice(0, 10), _folder(tmp_path, 1), files=2)
    drawn = [n for host in range(HOSTS) for n in sample(few, (1,), host, HOSTS).column(0).to_pylist()]
    assert sorted(drawn) == list(range(10))


def test_filters_and_expressions_hold_for_samples(tmp_path: Path) -> None:
    kind = pa.int64()
    lower_half = Call("LessThan", (ColumnRef(1, kind), Literal(ROWS // 2, kind)), pa.bool_())
    scan = replace(
        scan_of(ordered(), tmp_path),
        schema=pa.schema([("text", pa.string()), ("n", kind)]),
        steps=(Keep(lower_half), Compute((ColumnRef(3, pa.string()), ColumnRef(1, kind)))),
    )
    narrow = narrowed(scan, (1,))
    assert [column.name for column in narrow.columns] == ["n"]
    numbers = np.concatenate([sample(scan, (1,), host, HOSTS).column(0).to_numpy() for host in range(HOSTS)])
    assert numbers.max() < ROWS // 2
    assert len(numbers) >= SAMPLE_ROWS * HOSTS // 2, "more are drawn where a filter drops some"
    nothing = replace(scan, steps=(Keep(Literal(False, pa.bool_())), *scan.steps[1:]))
    assert sample(nothing, (1,), 0, HOSTS).num_rows == 0


def test_a_narrowed_scan_reads_the_same_values(tmp_path: Path) -> None:
    scan = scan_of(ordered().slice(0, 1_000), tmp_path, files=1)
    part = ScanColumn("part", pa.int32())
    backwards = [part, *reversed(scan.columns[:5])]
    whole = Scan(
        pa.schema([(column.name, column.type) for column in backwards]),
        scan.columns[:5],
        (part,),
        (
            Compute(tuple(ColumnRef(5 - number, column.type) for number, column in enumerate(backwards))),
            Keep(Call("IsNotNull", (ColumnRef(1, pa.int64()),), pa.bool_())),
        ),
        FACTS,
        tuple(replace(split, partition_values=(7,)) for split in scan.splits),
    )
    full = pa.Table.from_batches([batch for split in whole.splits for batch in read_split(whole, split)])
    for outputs in ((4,), (2, 0), (5, 3, 3), (1,), (), tuple(range(6))):
        narrow = narrowed(whole, outputs)
        rows = [batch for split in narrow.splits for batch in read_split(narrow, split)]
        assert sum(batch.num_rows for batch in rows) == len(full) == 900
        if outputs:
            assert pa.Table.from_batches(rows).equals(full.select(list(outputs)))
    assert [column.name for column in narrowed(whole, (4,)).columns] == ["n", "some null"], "the filter reads one"


def test_the_driver_waits_for_every_host_that_samples() -> None:
    schema, ordering = pa.schema([("n", pa.int64())]), Ordering((SortKey(0),))
    driver = Driver(plan_of(schema, ordering))
    driver.sampled("source-0-host0", numbers(0))
    driver.sampled("source-0-host0", numbers(5))  # its first rows, after a sample in which there were none
    driver.sampled("source-0-host1", numbers(7))
    driver.sampled("source-0-host2", numbers(0))
    assert not driver.posted
    driver.sampled("source-0-host3", numbers(9))
    assert len(driver.posted) == 1
    driver.sampled("source-0-host2", numbers(3))
    assert len(driver.posted) == 1, "bounds never change"


def test_nothing_is_waited_for_when_all_tasks_have_been_heard() -> None:
    schema, ordering = pa.schema([("n", pa.int64())]), Ordering((SortKey(0),))
    by_spark = Driver(plan_of(schema, ordering), (), tasks=3)
    behind_an_operator = Driver(plan_of(schema, ordering, sources=(), operators=(0,)), ())
    both = Driver(plan_of(schema, ordering, operators=(0,)), (), tasks=1)
    for driver, tasks in (
        (by_spark, ("source-0-0", "source-0-1", "source-0-2")),
        (behind_an_operator, tuple(f"host-{host}" for host in range(HOSTS))),
        (both, ("source-0-0", *(f"host-{host}" for host in range(HOSTS)))),
    ):
        driver.sampled(tasks[0], numbers(4))
        for task in tasks[1:-1]:
            driver.bounds.ended((0, 0), task)
            assert not driver.posted
        driver.bounds.ended((0, 0), tasks[-1])
        driver.bounds.ended((0, 0), tasks[0])
        assert len(driver.posted) == 1


def test_rows_of_the_only_task_that_has_some_wait_for_nobody() -> None:
    schema, ordering = pa.schema([("n", pa.int64())]), Ordering((SortKey(0),))
    driver = Driver(plan_of(schema, ordering), (), tasks=2)
    driver.bounds.ended((0, 0), "source-0-1")
    driver.sampled("source-0-0", numbers(4))
    assert len(driver.posted) == 1


def test_limits_of_time_depend_on_who_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []

    class Timer:
        daemon = False

        def __init__(self, *arguments: Any) -> None:
            timers.append(arguments)

        def start(self) -> None:
            pass

    monkeypatch.setattr("reshape.driver.bounds.threading.Timer", Timer)
    monkeypatch.setattr(bounds_module, "GATHER_S", 1.0)
    monkeypatch.setattr(bounds_module, "SCANNED_S", 2.0)
    schema, ordering = pa.schema([("n", pa.int64())]), Ordering((SortKey(0),))
    cases = {
        "hosts are awaited": (Driver(plan_of(schema, ordering)), 1, 2.0),
        "all samples were empty": (Driver(plan_of(schema, ordering)), HOSTS, 1.0),
        "Spark reads it": (Driver(plan_of(schema, ordering), ()), 1, 1.0),
        "an operator has a part": (Driver(plan_of(schema, ordering, operators=(0,))), 1, 1.0),
    }
    for name, (driver, empty, limit_s) in cases.items():
        timers.clear()
        for host in range(empty):
            driver.sampled(f"source-0-host{host}", numbers(0))
        assert not timers, name
        driver.sampled("source-0-host0", numbers(4))
        ((got_s, agree, arguments),) = timers
        assert (got_s, driver.posted) == (limit_s, []), name
        agree(*arguments)
        agree(*arguments)
        assert len(driver.posted) == 1, name


def numbers(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(count), pa.int64())})


def _folder(parent: Path, number: int) -> Path:
    folder = parent / f"part-{number}"
    folder.mkdir()
    return folder


def _counting(patch: pytest.MonkeyPatch) -> list[str]:
    """The paths of files that are opened for a sample."""
    paths: list[str] = []
    really = opened

    def counted(scan: Scan, split: Split) -> Any:
        paths.append(split.path)
        return really(scan, split)

    patch.setattr(sampling, "opened", counted)
    return paths
