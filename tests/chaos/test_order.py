"""Split by keys keeps the order: rows of one key from one router are processed as sent, whatever moves meanwhile.

That keys move in many ways is certain with the script; chaos adds moments that nobody has thought of.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from reshape.operators.hash_join import JoinSpec, OutputColumn
from reshape.operators.relay import RelaySpec
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.testing import ThreadedFlow
from reshape.testing.cutting import Partitions
from reshape.testing.threads import WAVE

from .brain import chaos
from .running import PacedCluster, Weather, fast_control, run_script, slow_links, with_chaos
from .samples import Sample
from .script import everything
from .transfers import Doings

SEEDS = range(3)
ROUTERS = 5
KEYS = 12
BATCHES = 20  # as many as a script needs
SENT = pa.schema([("k", pa.int64()), ("router", pa.int64()), ("place", pa.int64())])
KEPT = pa.record_batch({"k": pa.array(range(KEYS), pa.int64()), "w": pa.array(range(KEYS), pa.int64())})

Row = tuple[int, int, int]


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
        ThreadedFlow(plan, sources, cluster=partial(PacedCluster, seed, weather.source_s)).run()


def check_order(rows: list[Row], sent: Partitions, copies: int = 1) -> None:
    """All rows, and those of a key from a router in their order; a join gives as many copies as there are matches."""
    batches = [batch for partition in sent for batch in partition]
    wanted = [row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)]
    assert sorted(rows) == sorted(wanted * copies)
    last: dict[tuple[int, int], int] = {}
    for key, router, place in rows:
        before = last.get((key, router), -1)
        in_order = place > before or (copies > 1 and place == before)
        assert in_order, f"key {key} of router {router}: row {place} was processed after row {before}"
        last[key, router] = place


def behind_a_repartition(recorder: Recorder) -> Node:
    relay = OperatorNode((SourceNode(0, SENT),), RelaySpec(SENT, (0,)))
    return MapNode(relay, recorder, SENT, ordered=True)


def behind_a_join(recorder: Recorder) -> Node:
    columns = (*(OutputColumn(name, left=place) for place, name in enumerate(SENT.names)), OutputColumn("w", right=1))
    spec = JoinSpec(SENT, KEPT.schema, (0,), (0,), "inner", columns)
    join = OperatorNode((SourceNode(0, SENT), SourceNode(1, KEPT.schema)), spec)
    return MapNode(join, recorder, spec.output_schema, ordered=True)


FLOWS = {"repartition": behind_a_repartition, "join": behind_a_join}


def sources_of(flow: str, sent: Partitions) -> list[Partitions]:
    return [sent] if flow == "repartition" else [sent, [[KEPT] * BATCHES]]


@pytest.mark.parametrize("flow", FLOWS)
def test_every_kind_of_move_keeps_the_order(flow: str) -> None:
    keys = np.array([*range(KEYS)] * 3)
    sent: list[list[pa.RecordBatch]] = [
        [
            pa.record_batch([keys, np.full(len(keys), router), np.arange(len(keys)) + number * len(keys)], schema=SENT)
            for number in range(BATCHES)
        ]
        for router in range(WAVE)
    ]
    recorder = Recorder()
    sample = Sample(FLOWS[flow](recorder), tuple(sources_of(flow, sent)), list)
    run_script(sample, everything, Doings())
    check_order(recorder.rows, sent, copies=BATCHES if flow == "join" else 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("flow", FLOWS)
def test_random_moves_keep_the_order(flow: str, seed: int) -> None:
    recorder, sent = Recorder(), sent_rows(seed)
    run(FLOWS[flow](recorder), [sent] if flow == "repartition" else [sent, [[KEPT]]], seed)
    check_order(recorder.rows, sent)
