"""A strategy of a user runs by threads as it would on Spark: it is told what happens, and what it says is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from reshape.control.balancing import Balancing
from reshape.control.brain import Brain
from reshape.control.commands import Command
from reshape.control.events import BacklogMoved, Event, MetricsCollected, RoutingApplied
from reshape.control.outbox import OutboxBrain
from reshape.control.profile import OperatorProfile
from reshape.control.routing import Shares
from reshape.control.settings import StrategySettings
from reshape.control.story import DecisionKind
from reshape.control.strategies import STRATEGIES, Strategy
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.aggregates.lists import Median
from reshape.operators.group_by import GroupBySpec
from reshape.plan.nodes import OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.testing import ThreadCluster, ThreadedFlow

ROWS, HOT = 4_000, 7
LIMIT_S = 60.0  # a flow that hangs
KEYS = np.where(np.arange(ROWS) % 3 > 0, HOT, np.arange(ROWS) % 50)
TABLE = pa.table({"k": pa.array(KEYS), "v": pa.array(np.arange(ROWS))})
# Senders cannot combine rows of a median, so workers get all of them.
SPEC = GroupBySpec(TABLE.schema, (0,), (Median("m", 1), CountAll("n")))
NODE = OperatorNode((SourceNode(0, TABLE.schema),), SPEC)


class ShareOnce(OutboxBrain):
    """When it first sees rows, the busiest worker gives some that wait, and half of those to come, to the idlest."""

    def __init__(self, shared: threading.Event) -> None:
        """``shared`` is set when all routers do as it says."""
        super().__init__()
        self._shared = shared
        self.heard: list[Event] = []

    def handle(self, event: Event) -> list[Command]:
        self.heard.append(event)
        self._out.begin(event)
        if isinstance(event, MetricsCollected) and not self.decisions:
            busy = max(range(len(event.routed)), key=lambda worker: event.routed[worker])
            idle = min(range(len(event.routed)), key=lambda worker: event.routed[worker])
            self._out.routing.set_owner(busy, Shares.of(busy, {idle: Fraction(1, 2)}))
            self._out.move_backlog(busy, idle, busy, 100)
            self._out.record(DecisionKind.STARTED, busy, (idle,), f"worker {busy} shares its rows with worker {idle}")
            self._out.record(DecisionKind.STARTED, busy, (idle,), "and a hundred that wait move at once")
        self._out.publish()
        if isinstance(event, RoutingApplied):
            self._shared.set()
        return self._out.finish()


class Fails(ShareOnce):
    """Stumbles over what it hears in the call of a task."""

    def handle(self, event: Event) -> list[Command]:
        if isinstance(event, RoutingApplied):
            self._shared.set()
            raise ZeroDivisionError("no such share")
        return super().handle(event)


@contextmanager
def strategy(build: Callable[[OperatorProfile, StrategySettings], Brain]) -> Iterator[None]:
    STRATEGIES["of a user"] = Strategy(build, StrategySettings)
    try:
        yield
    finally:
        del STRATEGIES["of a user"]


class InTwoHalves(ThreadCluster):
    """Sends the second half of each partition when the brain has had its say: nothing here depends on speed."""

    def __init__(self, said: threading.Event, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._said = said

    def batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        batches = list(super().batches(source, partition))
        half = len(batches) // 2
        yield from batches[:half]
        while not self._said.wait(0.01) and not self.cancelled.is_set():
            yield batches[0].slice(0, 0)  # a task hears between two batches that its flow has ended
        yield from batches[half:]


def run(brain_class: type[ShareOnce]) -> tuple[pa.Table, ShareOnce, ThreadedFlow]:
    brains: list[ShareOnce] = []
    shared = threading.Event()

    def build(profile: OperatorProfile, settings: StrategySettings) -> Brain:
        brains.append(brain_class(shared))
        return brains[-1]

    partitions = [TABLE.slice(at, 1_000).combine_chunks().to_batches(max_chunksize=100) for at in range(0, ROWS, 1_000)]
    with strategy(build):
        plan = Planner(lambda *_: (Balancing("of a user"), 0.0)).plan(NODE, "own strategy", 2, 4)
        flow = ThreadedFlow(plan, [partitions], cluster=partial(InTwoHalves, shared))
        return flow.run(limit_s=LIMIT_S), brains[-1], flow


def check(got: pa.Table) -> None:
    of = {key: np.flatnonzero(key == KEYS) for key in np.unique(KEYS).tolist()}
    want = {key: (float(np.median(values)), len(values)) for key, values in of.items()}
    assert {key: (m, n) for key, m, n in zip(*got.to_pydict().values(), strict=True)} == want


def test_a_strategy_of_a_user_is_obeyed_and_the_result_is_exact() -> None:
    got, brain, flow = run(ShareOnce)
    check(got)
    assert [type(event) for event in brain.heard].count(BacklogMoved) == 1
    assert brain.table.version == 1
    shared, moved = flow.attempts.story()
    assert "shares its rows with worker" in shared
    assert "and a hundred that wait" in moved, "what was decided at one moment is told as it was decided"
    decision = brain.decisions[0]
    [helper] = decision.helpers
    assert flow.attempts.newest is not None
    helped = [worker.of_owner[0] for _, worker in flow.attempts.newest.result.workers() if worker.worker == helper]
    assert helped[0][decision.skewed] > 0
    assert helper != decision.skewed


def test_a_flow_goes_on_without_a_strategy_that_raises() -> None:
    got, _, flow = run(Fails)
    check(got)
    shared, _, raised = flow.attempts.story()
    assert "shares its rows with worker" in shared, "what was decided before is still done"
    assert "group by (operator 0): the strategy raised ZeroDivisionError at RoutingApplied (no such share)" in raised
