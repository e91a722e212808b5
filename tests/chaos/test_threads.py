"""Every operator, alone and in chains, gives Spark's answer while load moves at random over the real exchange.

What moves is left to chance, and nothing is said about it: :mod:`.test_script` is there for what has to happen.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import reshape
from reshape.host.host import HostSettings
from reshape.hosted import HostedFlow
from reshape.testing import Cut

from ..flows.compare import check
from ..flows.running import Rig, hosted
from .cases import SHAPES, chaos_case
from .running import cut_sources, run_chaos
from .transfers import Doings

FLOWS = range(len(SHAPES))


@pytest.mark.parametrize("number", FLOWS)
def test_a_flow_under_chaos(spark: SparkSession, number: int) -> None:
    rig = Rig(spark, chaos_case(number))
    case, doings = rig.case, Doings(number * 1_000)

    def under_chaos(flow: HostedFlow) -> pa.Table:
        cut = Cut(doings.seed, case.partitions, case.batch_rows)
        sources = cut_sources([source.df.toArrow() for source in flow.sources], cut)
        return run_chaos(flow.plan(), sources, doings, settings=HostSettings(case.queue_bytes, case.spill))

    check(case, rig.by(under_chaos), rig.expected())
    assert not doings.failed, doings.reasons


class Span:
    """The distance between the largest and the smallest value: an aggregate of a user."""

    state_type = pa.list_(pa.int64())
    output_type = pa.int64()

    def init(self) -> list[int]:
        return []

    def update(self, state: list[int], rows: pa.RecordBatch) -> list[int]:
        return self.merge(state, [value for value in rows.column(0).to_pylist() if value is not None])

    def merge(self, state: list[int], other: list[int]) -> list[int]:
        both = [*state, *other]
        return [min(both), max(both)] if both else []

    def finish(self, state: list[int]) -> int | None:
        return state[1] - state[0] if state else None


@pytest.mark.parametrize("seed", range(3))
def test_an_aggregate_of_a_user_under_chaos(spark: SparkSession, seed: int) -> None:
    keys = [7 if number % 2 else number % 23 for number in range(1_500)]
    values = [number * number % 1_009 for number in range(1_500)]
    df = spark.createDataFrame(pa.table({"k": keys, "v": values}))
    flow = reshape.flow(df, hosts=2, workers=5).groupBy("k").agg(reshape.aggregate(Span(), "v").alias("span"))
    doings, plan = Doings(900_000 + seed), hosted(flow).plan()
    result = run_chaos(plan, cut_sources([df.toArrow()], Cut(doings.seed, 5, 120)), doings)
    of = {key: [v for k, v in zip(keys, values, strict=True) if k == key] for key in set(keys)}
    got = dict(zip(*result.to_pydict().values(), strict=True))
    assert got == {k: max(some) - min(some) for k, some in of.items()}
