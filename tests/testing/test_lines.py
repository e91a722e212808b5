"""A line chart that grows under skew, on real hosts: load moves key by key, and where all has been processed that was
sent, no line has a gap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from reshape.control.balancing import Balancing
from reshape.control.profile import Split
from reshape.control.settings import StrategySettings
from reshape.driver.execution import Execution
from reshape.kernels.hashing import hash_rows, owners
from reshape.observe.charts import Chart, ChartSpec, drawn
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.group_by import GroupBySpec
from reshape.operators.relay import RelaySpec
from reshape.plan.nodes import OperatorNode, SourceNode
from reshape.plan.physical import PhysicalPlan
from reshape.plan.planner import Planner
from reshape.testing import ThreadCluster, ThreadedFlow

WORKERS = 4
LIMIT_S = 60.0
SCHEMA = pa.schema([("place", pa.int64()), ("day", pa.int64())])
CHART = ChartSpec("line", "day", "tweets", "place")
# Rows of a day at each place. Not more than some days' are on their way at a time: of very many groups only the largest
# would be shown.
OF_A_DAY = 20
MOST_ON_THEIR_WAY = 1_000


def places() -> list[int]:
    """Five that one worker owns, and one for each of the others: what is too much for it can move key by key."""
    of = owners(hash_rows([pa.array(range(1_000))]), WORKERS)
    return [int(place) for worker in range(WORKERS) for place in np.flatnonzero(of == worker)[: 1 if worker else 5]]


PLACES = places()


def plan() -> PhysicalPlan:
    step = OperatorNode((SourceNode(0, SCHEMA),), RelaySpec(SCHEMA, (0,)), (("cost", 0.0003),))
    node = OperatorNode((step,), GroupBySpec(SCHEMA, (0, 1), (CountAll("tweets"),)))
    settings = StrategySettings(eta=20.0, tau=20.0, adaptive=None)
    planner = Planner(lambda _, tuning: (Balancing(settings=settings), float(tuning.get("cost", 0.0))))
    return replace(planner.plan(node, "lines", 2, WORKERS), ordered=True, report_s=0.02)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.005)


class Days(ThreadCluster):
    """One source task that sends a day after the other: until it is held, and again until it is to end."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.days = 0
        self.taken: Callable[[], int] = lambda: 0
        self.held, self.stands, self.go_on, self.end = (threading.Event() for _ in range(4))

    def batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        while not self.end.is_set():
            if self.held.is_set():
                self.stands.set()
                assert self.go_on.wait(LIMIT_S)
            rows = np.repeat(PLACES, OF_A_DAY)
            most = self.days * len(rows) - MOST_ON_THEIR_WAY
            until(lambda most=most: self.taken() > most or self.cancelled.is_set(), "room for more rows")  # type: ignore[misc]
            yield pa.record_batch([pa.array(rows), pa.array(np.full(len(rows), self.days))], schema=SCHEMA)
            self.days += 1


class Watched:
    """The flow, run by a thread of its own, and every chart that was looked at."""

    def __init__(self) -> None:
        self.executions: list[Execution] = []
        self.flow = ThreadedFlow(plan(), [[[]]], self.executions.append, cluster=Days)
        self.results: list[pa.Table] = []
        self.charts: list[Chart] = []
        self.thread = threading.Thread(target=lambda: self.results.append(self.flow.run()), daemon=True)
        self.thread.start()
        until(lambda: bool(self.executions), "the hosts")
        self.source.taken = self.counted

    @property
    def source(self) -> Days:
        assert isinstance(self.flow.cluster, Days)
        return self.flow.cluster

    def counted(self) -> int:
        """Rows that the groups have."""
        return sum(sum(each.rows_processed) for each in self.executions[0].workers() if each.operator == 1)

    def chart(self) -> Chart:
        self.charts.append(drawn(CHART, self.executions[0].shown()))
        return self.charts[-1]

    def until_shown(self, days: int) -> Chart:
        rows = days * OF_A_DAY * len(PLACES)
        until(lambda: sum(point.y for line in self.chart().lines for point in line.points) == rows, "all that was sent")
        return self.charts[-1]

    def helped(self) -> int:
        """Rows of the worker with five places that others have processed."""
        steps = [each for each in self.executions[0].workers() if each.operator == 0 and each.worker != 0]
        return sum(each.rows_of_owner[0].get(0, 0) for each in steps)


def whole(chart: Chart, days: int) -> None:
    assert sorted(line.name or "" for line in chart.lines) == sorted(map(str, PLACES))
    for line in chart.lines:
        assert [(point.x, point.y) for point in line.points] == [(day, OF_A_DAY) for day in range(days)]
        assert not any(point.after_gap for point in line.points)


def test_lines_grow_without_gaps_while_load_moves_by_keys() -> None:
    run = Watched()
    assert plan().split(plan().operators[0], 0).split is Split.BY_KEYS
    until(lambda: bool(run.chart().lines) and run.helped() > 0, "load to move")
    run.source.held.set()
    assert run.source.stands.wait(LIMIT_S)
    days = run.source.days
    whole(run.until_shown(days), days)
    run.source.held.clear()
    run.source.go_on.set()
    until(lambda: bool(run.chart()) and run.source.days > days + 5, "more days")
    run.source.end.set()
    run.thread.join(LIMIT_S)
    [result] = run.results
    assert result.num_rows == run.source.days * len(PLACES)
    whole(run.chart(), run.source.days)
    told = [text for text in run.executions[0].story() if "(operator 0)" in text]
    assert any("of worker 0 move to worker" in text for text in told)
    assert not any("phase" in text for text in told)  # those are of rows, not of keys


def test_what_is_missing_in_mid_run_is_marked() -> None:
    """Workers are not equally far at any moment: a line is never drawn across a day that is not there."""
    run = Watched()
    until(lambda: run.source.days > 8 and len(run.chart().lines) > 0, "some days")
    run.source.end.set()
    until(lambda: bool(run.chart()) and not run.thread.is_alive(), "the end")
    for chart in run.charts:
        for line in chart.lines:
            days = [point.x for point in line.points]
            assert [point.after_gap for point in line.points][1:] == [b - a > 1 for a, b in pairwise(days)]
    assert not any(point.after_gap for line in run.charts[-1].lines for point in line.points)
