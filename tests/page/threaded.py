"""A flow that threads run, as something to watch: real hosts and sources, an emulated cost per row, no JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from reshape.control.balancing import Balancing
from reshape.driver.journal import Journal
from reshape.errors import ReshapeError
from reshape.host.host import HostSettings
from reshape.observe.progress import QueryIdentity
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.aggregates.sums import Sum
from reshape.operators.group_by import GroupBySpec
from reshape.operators.relay import RelaySpec
from reshape.page.runs import LiveRun
from reshape.plan.nodes import OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.testing import Cut, ThreadCluster, ThreadedFlow, cut_up

HOT_KEY = "2020m12"


def skewed_table(rows: int) -> pa.Table:
    """Four of ten rows have one key, the others are spread over eleven."""
    numbers = np.arange(rows)
    keys = np.where(numbers % 10 < 4, HOT_KEY, np.char.add("2020m", (numbers % 11 + 1).astype(str)))
    return pa.table({"month": pa.array(keys.tolist()), "tweets": pa.array(numbers)})


class PacedCluster(ThreadCluster):
    """Its sources send some rows at a time, as one that reads from afar does."""

    pace_s = 0.0

    def batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        for batch in super().batches(source, partition):
            yield batch
            self.cancelled.wait(self.pace_s)


class ThreadedQuery:
    """Begins to run when it is made."""

    def __init__(self, name: str, rows: int, seconds: float, strategy: str = "reshape", workers: int = 6) -> None:
        """``seconds``: about how long the most loaded worker would take for its own rows; half of it is input."""
        table = skewed_table(rows)
        cost_s = seconds / (0.45 * rows)
        source = OperatorNode((SourceNode(0, table.schema),), RelaySpec(table.schema, (0,)), (("cost", cost_s),))
        spec = GroupBySpec(table.schema, (0,), (CountAll("tweets"), Sum("sum", 1)))
        planner = Planner(lambda _, tuning: (Balancing(strategy), float(tuning.get("cost", 0.0))))
        plan = planner.plan(OperatorNode((source,), spec), name, 2, workers)
        sources = [cut_up(table, np.random.default_rng(7), Cut(2, 2, 500))]
        self.rows = rows
        self.flow = ThreadedFlow(plan, sources, cluster=PacedCluster)
        assert isinstance(self.flow.cluster, PacedCluster)
        self.flow.cluster.pace_s = seconds / 2 / max(map(len, sources[0]))
        self.error: BaseException | None = None
        self.result: pa.Table | None = None
        self._stopped = False
        self._done = threading.Event()
        self._journal = Journal(QueryIdentity(name, name, name), self.flow.attempts)
        self._journal.start()
        self._thread = threading.Thread(target=self._run, name="test-flow", daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802
        return not self._done.is_set()

    @property
    def status(self) -> dict[str, Any]:
        if self.isActive:
            return {"message": "paused" if self.flow.attempts.paused else "running"}
        return {"message": "done" if self.error is None else "stopped" if self._stopped else "failed"}

    def pause(self) -> None:
        self.flow.attempts.pause()

    def resume(self) -> None:
        self.flow.attempts.resume()

    def stop(self) -> None:
        self._stopped = True
        self.flow.attempts.stop("the driver", "stopped")
        self._done.wait(60)

    def watched(self) -> LiveRun:
        attempts = self.flow.attempts
        return LiveRun(attempts.plan.name, self, attempts.record, attempts.look)

    def end(self) -> None:
        if self.isActive:
            self.stop()
        self._thread.join(60)

    def _run(self) -> None:
        try:
            self.result = self.flow.run(HostSettings(previews=True), limit_s=300)
        except (ReshapeError, OSError) as error:
            self.error = error
        finally:
            self._journal.close(lambda: self.error)
            self._done.set()
