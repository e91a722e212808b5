"""A source task that runs twice within an attempt: no row counts twice, whether it is a copy or a second try."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reshape.driver.cluster import TaskFate
from reshape.errors import FlowFailed
from reshape.operators.relay import RelaySpec
from reshape.plan.nodes import OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.protocol.errors import Aborted
from reshape.protocol.reports import SourceBegins
from reshape.sender.source import SourceTask
from reshape.testing import Cut, ThreadCluster, ThreadedFlow, cut_up

ROWS = 5_000
TABLE = pa.table({"k": pa.array(np.arange(ROWS) % 13), "v": pa.array(np.arange(ROWS))})
PLAN = Planner().plan(OperatorNode((SourceNode(0, TABLE.schema),), RelaySpec(TABLE.schema, (0,))), "again", 2, 4)
AGAIN = 1_000  # the number of the second run


class RunsAgain(ThreadCluster):
    """When its first partition has sent a batch, another task begins to send it too."""

    speculative = False
    error: str | None = None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked = threading.Event()
        self.ended: list[BaseException | None] = []
        self._first = 0

    def run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        edge = self._plan.edge(*self._plan.source_target(source))

        def run_again() -> None:
            task = SourceTask(edge, self._at(), attempt, locations, f"source-{source}-0")
            try:
                task.begin(SourceBegins(source, 0, source, AGAIN))
                task.run(iter(self._sources[source][0]))
            except BaseException as error:
                self.ended.append(error)
            else:
                self.ended.append(None)

        self._copy = threading.Thread(target=run_again, name="reshape-again", daemon=True)
        return super().run_source(source, attempt, locations)

    def batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(super().batches(source, partition)):
            yield batch
            if (number, partition) == (0, 0):
                self._copy.start()
                assert self.asked.wait(60), "nobody asked what Spark knows of the second run"

    def unsuccessful(self, stage: int) -> Sequence[TaskFate]:
        self.asked.set()
        first = [TaskFate(number, False, self.error) for number in range(1, 10)]
        return [*first, TaskFate(AGAIN, self.speculative, None)]


class Copied(RunsAgain):
    speculative = True


class Crashed(RunsAgain):
    error = "SparkException: Python worker exited unexpectedly (crashed)"


def run(cluster: type[RunsAgain]) -> ThreadedFlow:
    return ThreadedFlow(PLAN, [cut_up(TABLE, np.random.default_rng(3), Cut(3, 6, 400))], cluster=cluster)


def test_a_copy_sends_nothing_and_the_result_is_exact() -> None:
    flow = run(Copied)
    assert sorted(flow.run()["v"].to_pylist()) == list(range(ROWS))
    copied = flow.cluster
    assert isinstance(copied, Copied)
    copied._copy.join(60)
    [ended] = copied.ended
    assert isinstance(ended, Aborted), "it left when the flow was over"


def test_a_second_try_ends_the_attempt_as_a_loss() -> None:
    flow = run(Crashed)
    with pytest.raises(FlowFailed, match="source-0-0: SparkException: Python worker exited unexpectedly"):
        flow.run()
    assert flow.attempts.newest is not None
    assert flow.attempts.newest.may_retry
    assert isinstance(flow.cluster, Crashed)
    flow.cluster._copy.join(60)
    [ended] = flow.cluster.ended
    assert isinstance(ended, Aborted)
