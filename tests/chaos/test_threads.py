"""Every operator, alone and in chains, gives Spark's answer while load moves at random over the real exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import reshape
from reshape.host.host import HostSettings
from reshape.plan.physical import PhysicalPlan
from reshape.testing import Cut

from ..flows.compare import check
from ..flows.running import Rig, plan_of
from ..flows.steps import Case
from .brain import Doings
from .cases import SHAPES, chaos_case
from .running import run_chaos

pytestmark = pytest.mark.slow

RUNS_PER_FLOW = 5
FLOWS = range(len(SHAPES))

total = Doings()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A flow that is run several times; Spark answers once."""

    case: Case
    plan: PhysicalPlan
    sources: list[pa.Table]
    expected: pa.Table


@pytest.fixture(scope="session")
def prepared(spark: Any) -> Callable[[int], Prepared]:
    known: dict[int, Prepared] = {}

    def prepare(number: int) -> Prepared:
        if number not in known:
            rig = Rig(spark, chaos_case(number))
            flow = rig.flow()
            sources = [rig.rows(df) for df in flow._pruned.sources]
            known.clear()
            known[number] = Prepared(rig.case, plan_of(flow), sources, rig.expected())
        return known[number]

    return prepare


@pytest.fixture(scope="module", autouse=True)
def everything_moved_many_times() -> Iterator[None]:
    """When all runs of this file were made: what was done is what was meant."""
    yield
    runs = RUNS_PER_FLOW * (len(FLOWS) + 1)
    if total.runs < runs:
        return
    started, done = total.started, total.done
    for what in ("share", "share with several", "unshare", "backlog", "replicate"):
        assert started[what] > runs, what
    for what in ("move keys", "return keys", "move mini-partitions", "return mini-partitions", "move on", "cancel"):
        assert started[what] > runs / 2, what
    assert started["cancel a chain"] > runs / 4
    assert started["cancel what returns"] > runs / 20
    assert min(done["hand over"], done["replicate"], done["backlog"]) > runs
    assert total.rows_moved > 20 * runs


@pytest.mark.parametrize("run", range(RUNS_PER_FLOW))
@pytest.mark.parametrize("number", FLOWS)
def test_a_flow_under_chaos(prepared: Callable[[int], Prepared], number: int, run: int) -> None:
    flow = prepared(number)
    case, doings = flow.case, Doings(number * 1_000 + run)
    cut = Cut(doings.seed, case.partitions, case.batch_rows)
    settings = HostSettings(case.queue_bytes, case.spill)
    got = run_chaos(flow.plan, flow.sources, doings, cut=cut, settings=settings)
    total.add(doings)
    check(case, got, flow.expected)
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


@pytest.mark.parametrize("run", range(RUNS_PER_FLOW))
def test_an_aggregate_of_a_user_under_chaos(spark: Any, run: int) -> None:
    keys = [7 if number % 2 else number % 23 for number in range(1_500)]
    values = [number * number % 1_009 for number in range(1_500)]
    df = spark.createDataFrame(pa.table({"k": keys, "v": values}))
    flow = reshape.read(df, hosts=2, workers=5).groupBy("k").agg(reshape.aggregate(Span(), "v").alias("span"))
    doings = Doings(900_000 + run)
    got = run_chaos(plan_of(flow), [df.toArrow()], doings, cut=Cut(doings.seed, 5, 120))
    total.add(doings)
    of = {key: [v for k, v in zip(keys, values, strict=True) if k == key] for key in set(keys)}
    assert dict(zip(*got.to_pydict().values(), strict=True)) == {k: max(some) - min(some) for k, some in of.items()}
