"""Estimates of flows that real hosts run: they stand for just the rows that have been read and processed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from reshape.driver.estimating import road_of
from reshape.driver.execution import Execution
from reshape.host import previews, reading
from reshape.observe.representativeness import Shown
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.aggregates.extremes import Max
from reshape.operators.aggregates.sums import Mean, Sum
from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import JoinKind, JoinSpec, OutputColumn
from reshape.operators.relay import RelaySpec
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode, UnionNode
from reshape.plan.physical import PhysicalPlan
from reshape.plan.planner import Planner
from reshape.scan.reading import read_split
from reshape.scan.scan import Scan, Split
from reshape.testing import ThreadedFlow, scan_of, write_files

ROWS, GROUP_ROWS, KEYS = 24_000, 400, 5
RNG = np.random.default_rng(3)
TABLE = pa.table(
    {
        # Files are not alike: the first key becomes rarer from the first row to the last.
        "k": pa.array(np.where(RNG.random(ROWS) < np.linspace(0.6, 0.2, ROWS), 0, RNG.integers(0, KEYS, ROWS))),
        "v": pa.array(RNG.lognormal(0.0, 0.8, ROWS)),
    }
)
LIMIT_S = 60.0
SOURCE = SourceNode(0, TABLE.schema)
NAMES = pa.schema([("k", pa.int64()), ("name", pa.string())])


def grouped(node: Node, schema: pa.Schema = TABLE.schema) -> OperatorNode:
    aggregates = (CountAll("n"), Sum("s", 1), Mean("m", 1), Max("most", 1))
    return OperatorNode((node,), GroupBySpec(schema, (0,), aggregates))


def planned(node: Node, hosts: int = 1) -> PhysicalPlan:
    from reshape.control.balancing import Balancing

    return Planner(lambda *_: (Balancing(), 0.0), combine=True).plan(node, "estimated", hosts, 4)


class Gate:
    """Lets hosts read so many splits; counts stored rows of those that were read."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._allowed = 0
        self.read: list[Split] = []

    def allow(self, splits: int) -> None:
        with self._news:
            self._allowed = splits
            self._news.notify_all()

    def __call__(self, scan: Scan, split: Split, **options: Any) -> Iterator[pa.RecordBatch]:
        with self._news:
            assert self._news.wait_for(lambda: len(self.read) < self._allowed, LIMIT_S)
            self.read.append(split)
        yield from read_split(scan, split, **options)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.005)


def counted(shown: Shown | None) -> int:
    return 0 if shown is None else sum(shown.table["n"].to_pylist())


def estimated(shown: Shown, name: str) -> dict[int, Any]:
    column = shown.estimates[name]
    assert not isinstance(column, str), column
    return dict(zip(shown.table["k"].to_pylist(), column, strict=True))


def test_they_stand_for_what_was_read(tmp_path: Path) -> None:
    scan = scan_of(TABLE.schema, write_files(TABLE, tmp_path, group_rows=GROUP_ROWS))
    gate, executions = Gate(), list[Execution]()
    flow = ThreadedFlow(planned(grouped(SOURCE)), [[]], executions.append, scans={0: scan})
    final: list[pa.Table] = []
    thread = threading.Thread(target=lambda: final.append(flow.run()), daemon=True)
    with patch.object(reading, "read_split", gate), patch.object(previews, "PREVIEW_S", 0.0):
        thread.start()
        until(lambda: bool(executions), "the hosts")
        [execution] = executions
        for splits in range(1, 25):
            gate.allow(splits)
            until(lambda splits=splits: counted(execution.shown()) == splits * GROUP_ROWS, "the rows")  # type: ignore[misc]
        part = 24 * GROUP_ROWS / ROWS
        until(lambda: execution.sources.parts()[0] == part, "the count of what was read")
        news = execution.result.news
        until(lambda: execution.result.news > news + 1, "a report after that")
        shown = execution.shown()
        assert shown is not None
        counts, means = estimated(shown, "n"), estimated(shown, "m")
        for key, seen in zip(shown.table["k"].to_pylist(), shown.table["n"].to_pylist(), strict=True):
            assert counts[key].value == pytest.approx(seen / part)
        ratio = execution.ratio("s", "n")
        assert not isinstance(ratio, str)
        for mean, same in zip(means.values(), ratio, strict=True):
            assert same is not None
            assert (mean.value, mean.low) == pytest.approx((same.value, same.low))
        assert execution.ratio("m", "n") == "a ratio is that of two counts or sums, and those are n, s"
        assert shown.estimates["most"] == "only counts, sums and means of a last groupBy are estimated"
        sums = estimated(shown, "s")
        gate.allow(len(scan.splits))
        thread.join(LIMIT_S)
    [result] = final
    for row in result.to_pylist():  # the order of splits is the same in each run, so is this
        assert counts[row["k"]].low <= row["n"] <= counts[row["k"]].high
        assert sums[row["k"]].low <= row["s"] <= sums[row["k"]].high
        assert means[row["k"]].low <= row["m"] <= means[row["k"]].high
    last = execution.shown()
    assert last is not None
    assert last.final
    exact = estimated(last, "n")
    assert {key: (each.low, each.high) for key, each in exact.items()} == {
        row["k"]: (row["n"], row["n"]) for row in result.to_pylist()
    }


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    return scan_of(TABLE.schema, write_files(TABLE, tmp_path, group_rows=GROUP_ROWS))


def joined(how: JoinKind) -> OperatorNode:
    output = (OutputColumn("k", left=0), OutputColumn("v", left=1))
    spec = JoinSpec(TABLE.schema, NAMES, (0,), (0,), how, output)
    return OperatorNode((SOURCE, SourceNode(1, NAMES)), spec)


def test_where_they_are_valid(scan: Scan) -> None:
    for node in (grouped(SOURCE), grouped(joined("inner")), grouped(joined("left")), grouped(joined("left_semi"))):
        assert not isinstance(road_of(planned(node), {0: scan}), str)
    relayed = OperatorNode((SOURCE,), RelaySpec(TABLE.schema, (1,)))
    assert not isinstance(road_of(planned(grouped(relayed)), {0: scan}), str)


def reason(node: Node, scan: Scan | None, hosts: int = 1) -> str:
    road = road_of(planned(node, hosts), {} if scan is None else {0: scan, 1: scan})
    assert isinstance(road, str)
    return road


def test_where_they_are_not_valid_the_reason_is_said(scan: Scan) -> None:
    assert reason(grouped(SOURCE), None) == "Spark reads source 0, in an order that is not random"
    assert "only counts, sums and means of a last groupBy" in reason(joined("inner"), scan)
    late = "what right join (operator 0) gives early need not be a fair sample: it gives rows at its end"
    assert reason(grouped(joined("right")), scan) == late
    twice = grouped(UnionNode(SOURCE, SourceNode(1, TABLE.schema), TABLE.schema))
    assert "reads several inputs" in reason(twice, scan)
    regrouped = OperatorNode((SOURCE,), GroupBySpec(TABLE.schema, (0,), (Sum("v", 1),)))
    assert "group by (operator 0) gives early need not be a fair sample" in reason(grouped(regrouped), scan)
    mapped = MapNode(joined("inner"), lambda batches: batches, TABLE.schema, ordered=False)
    assert "a function of yours follows it" in reason(grouped(mapped), scan)
    assert reason(grouped(SOURCE), scan, 16) == (
        "source 0 has 60 splits: estimates take 96 or more, of about the same size"
    )
    unknown = replace(scan, splits=tuple(replace(split, rows=None) for split in scan.splits))
    assert reason(grouped(SOURCE), unknown) == "nobody knows how many rows source 0 has"
