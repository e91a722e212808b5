"""Counts of a worker."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from reshape.host.worker import Worker
from reshape.operators.relay import RelaySpec
from reshape.plan.physical import PhysicalOperator, Port

SCHEMA = pa.schema([("k", pa.int64())])
OPERATOR = PhysicalOperator(0, "repartition", RelaySpec(SCHEMA, (0,)), (Port(SCHEMA, (0,)),), SCHEMA)


def test_rows_count_as_processed_when_their_emulated_cost_is_over() -> None:
    worker = Worker(replace(OPERATOR, cost_s_per_row=0.01), number=2, index=0)
    worker.count(0, 2, 30, 0.0, 0.0)
    worker.count(0, 5, 10, 0.0, 0.0)
    worker.cost.free_at = 100.0  # the end of the newest step, which has the ten rows of worker 5
    for now, pending in ((99.9, 10), (99.95, 5), (99.999, 1), (100.0, 0), (101.0, 0), (90.0, 10)):
        counts = worker.counts([7], now)
        assert counts.processed == (40 - pending,)
        assert counts.of_owner == ({2: 30, 5: 10 - pending},)
        assert counts.waiting == (7 + pending,)
    assert worker.processed == [40], "only what is told differs"


def test_without_an_emulated_cost_all_rows_count_at_once() -> None:
    worker = Worker(OPERATOR, number=0, index=0)
    worker.count(0, 0, 30, 0.0, 0.1)
    assert worker.counts([0], 0.0).processed == (30,)
