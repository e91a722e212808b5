"""Split by keys keeps the order: rows of one key from one router are processed as sent, whatever moves meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

import pyarrow as pa
import pytest

from reshape.operators.hash_join import JoinSpec, OutputColumn
from reshape.operators.relay import RelaySpec
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.testing import ThreadedFlow
from reshape.testing.cutting import Partitions

from .brain import Doings, chaos
from .running import PacedCluster, Weather, fast_control, slow_links, with_chaos

pytestmark = pytest.mark.slow

SEEDS = range(24)
ROUTERS = 5
KEYS = 12
SENT = pa.schema([("k", pa.int64()), ("router", pa.int64()), ("place", pa.int64())])

Row = tuple[int, int, int]
total = Doings()


class Recorder:
    """An ordered function that notes rows when they are processed; hosts are threads, so one list has them all."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.rows.extend(zip(*(batch.column(name).to_pylist() for name in SENT.names), strict=True))
            yield batch


def sent_rows(seed: int) -> Partitions:
    """Batches of each router: few keys, one of them in half of the rows."""
    rng = Random(f"rows {seed}")
    partitions = []
    for router in range(ROUTERS):
        keys = [3 if rng.random() < 0.5 else rng.randrange(KEYS) for _ in range(rng.randint(150, 400))]
        table = pa.table([keys, [router] * len(keys), list(range(len(keys)))], schema=SENT)
        partitions.append(table.to_batches(max_chunksize=rng.choice((10, 25, 60))))
    return partitions


def run(node: Node, sources: list[Partitions], seed: int) -> None:
    weather, rng = Weather.of(seed), Random(f"hosts {seed}")
    hosts = rng.choice((1, 2, 3))
    doings = Doings(seed, eagerness=0.7)
    with chaos(doings), fast_control(), slow_links(seed, weather.link_s):
        plan = with_chaos(Planner().plan(node, "order", hosts, rng.randint(max(hosts, 3), 6)), weather)
        ThreadedFlow(plan, sources, cluster=partial(PacedCluster, seed, weather.source_s)).run(limit_s=60.0)
    total.add(doings)


def check_order(rows: list[Row], sent: Partitions) -> None:
    """All rows, and those of a key from a router in their order."""
    batches = [batch for partition in sent for batch in partition]
    wanted = [row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)]
    assert sorted(rows) == sorted(wanted)
    last: dict[tuple[int, int], int] = {}
    for key, router, place in rows:
        before = last.get((key, router), -1)
        assert place > before, f"key {key} of router {router}: row {place} was processed after row {before}"
        last[key, router] = place


@pytest.fixture(scope="module", autouse=True)
def keys_did_move() -> Iterator[None]:
    """When all runs of this file were made, keys have moved in them."""
    yield
    if total.runs < 2 * len(SEEDS):
        return
    assert total.done["hand over"] > 100
    assert min(total.started[what] for what in ("return keys", "cancel", "cancel a chain", "move on")) > 20


@pytest.mark.parametrize("seed", SEEDS)
def test_an_ordered_function_behind_a_repartition(seed: int) -> None:
    recorder, sent = Recorder(), sent_rows(seed)
    relay = OperatorNode((SourceNode(0, SENT),), RelaySpec(SENT, (0,)))
    run(MapNode(relay, recorder, SENT, ordered=True), [sent], seed)
    check_order(recorder.rows, sent)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_ordered_function_behind_a_join(seed: int) -> None:
    recorder, sent = Recorder(), sent_rows(1_000 + seed)
    kept = pa.table({"k": pa.array(range(KEYS), pa.int64()), "w": pa.array(range(KEYS), pa.int64())})
    columns = (*(OutputColumn(name, left=place) for place, name in enumerate(SENT.names)), OutputColumn("w", right=1))
    spec = JoinSpec(SENT, kept.schema, (0,), (0,), "inner", columns)
    join = OperatorNode((SourceNode(0, SENT), SourceNode(1, kept.schema)), spec)
    run(MapNode(join, recorder, spec.output_schema, ordered=True), [sent, [kept.to_batches(max_chunksize=4)]], seed)
    check_order(recorder.rows, sent)
