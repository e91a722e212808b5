"""A strategy of your own, tried without Spark: real hosts, routers and workers, as threads of this process.

.venv/bin/python examples/own_strategy.py
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa

from reshape.control.balancing import Balancing
from reshape.control.commands import Command
from reshape.control.events import Event, MetricsCollected, RoutingApplied
from reshape.control.outbox import OutboxBrain
from reshape.control.profile import OperatorProfile
from reshape.control.routing import Shares
from reshape.control.settings import StrategySettings
from reshape.control.story import DecisionKind
from reshape.control.strategies import STRATEGIES, Strategy
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.group_by import GroupBySpec
from reshape.plan.nodes import OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.testing import ThreadCluster, ThreadedFlow

TABLE = pa.table({"key": np.where(np.arange(8_000) % 3 > 0, 7, np.arange(8_000) % 50)})
IN_USE = threading.Event()  # all routers do what the strategy said


class Halve(OutboxBrain):
    """Once it sees rows, the worker that got most shares those to come with the worker that got least."""

    def __init__(self, profile: OperatorProfile, settings: StrategySettings) -> None:
        super().__init__()

    def handle(self, event: Event) -> list[Command]:
        self._out.begin(event)
        if isinstance(event, MetricsCollected) and not self.decisions:
            most, least = int(np.argmax(event.routed)), int(np.argmin(event.routed))
            self._out.routing.set_owner(most, Shares.of(most, {least: Fraction(1, 2)}))
            self._out.record(DecisionKind.STARTED, most, (least,), f"worker {least} takes half of worker {most}'s rows")
            self._out.publish()
        elif isinstance(event, RoutingApplied):
            IN_USE.set()
        return self._out.finish()


class Patient(ThreadCluster):
    """Keeps most rows back until the strategy has had its say, so that the run is the same on a slow machine."""

    def batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        first, *rest = super().batches(source, partition)
        yield first
        while not IN_USE.wait(0.01) and not self.cancelled.is_set():
            yield first.slice(0, 0)  # between two batches a task hears that its flow has ended
        yield from rest


def main() -> None:
    STRATEGIES["halve"] = Strategy(Halve, StrategySettings)
    by_key = OperatorNode((SourceNode(0, TABLE.schema),), GroupBySpec(TABLE.schema, (0,), (CountAll("rows"),)))
    plan = Planner(lambda *_: (Balancing("halve"), 0.0)).plan(by_key, "halve", hosts=2, workers=4)
    flow = ThreadedFlow(plan, [[TABLE.to_batches(max_chunksize=500)]], cluster=Patient)
    counts = dict(zip(*flow.run().to_pydict().values(), strict=True))
    print(*flow.attempts.story(), sep="\n")
    print(f"key 7 has {counts[7]:,} of {sum(counts.values()):,} rows; {len(counts)} keys, each counted once")


if __name__ == "__main__":
    main()
