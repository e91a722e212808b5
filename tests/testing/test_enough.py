"""A flow of which some rows are enough ends when it has given them, whatever its sources still have."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from reshape.operators.aggregates.counts import CountAll
from reshape.operators.first_rows import FirstRows
from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import JoinSpec, OutputColumn
from reshape.operators.relay import RelaySpec
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode, UnionNode
from reshape.plan.planner import Planner
from reshape.testing import Cut, ThreadedFlow, run_flow
from reshape.testing.threads import ThreadCluster

TABLE = pa.table({"k": pa.array([i % 5 for i in range(1_000)], pa.int64()), "v": pa.array(range(1_000), pa.int64())})
PARTS = TABLE.slice(0, 50)
ENOUGH = 2_000
LEFT, RIGHT = SourceNode(0, TABLE.schema), SourceNode(1, TABLE.schema)
JOIN = OperatorNode(
    (LEFT, RIGHT),
    JoinSpec(TABLE.schema, TABLE.schema, (0,), (0,), "inner", (OutputColumn("v", left=1), OutputColumn("w", right=1))),
)
RELAY = OperatorNode((LEFT,), RelaySpec(TABLE.schema, (0,)))
# The second side of the union has not even begun when there is enough of the first.
UNION = UnionNode(RELAY, OperatorNode((RIGHT,), RelaySpec(TABLE.schema, (0,))), TABLE.schema)
COUNTED = OperatorNode((JOIN,), GroupBySpec(JOIN.schema, (0,), (CountAll("n"),)))
NODES: dict[str, Node] = {"join": JOIN, "relay": RELAY, "union": UNION}


class Endless(ThreadCluster):
    """The rows of its first source come again and again."""

    def batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        while True:
            yield from super().batches(source, partition)
            if source != 0:
                return


@pytest.mark.parametrize("node", NODES)
def test_sources_end_early(node: str) -> None:
    tree = NODES[node]
    plan = Planner().plan(MapNode(tree, FirstRows(tree.schema, ENOUGH), tree.schema), "enough", 2, 4)
    assert plan.enough_rows == ENOUGH
    sources = [[TABLE.slice(at, 100).to_batches() for at in range(0, 1_000, 100)], [PARTS.to_batches()]]
    got = ThreadedFlow(plan, sources, cluster=Endless).run()
    assert got.num_rows >= ENOUGH
    if node == "join":
        assert all(row["v"] % 5 == row["w"] % 5 for row in got.slice(0, ENOUGH).to_pylist())


def test_all_rows_come_where_they_are_not_enough() -> None:
    plan = Planner().plan(MapNode(JOIN, FirstRows(JOIN.schema, 10**9), JOIN.schema), "all", 2, 4)
    got = run_flow(plan, [TABLE, PARTS], Cut(3))
    assert got.num_rows == 1_000 * 10


def test_a_cut_inside_of_a_flow_ends_nothing() -> None:
    cut = MapNode(JOIN, FirstRows(JOIN.schema, 10**9), JOIN.schema)
    plan = Planner().plan(OperatorNode((cut,), COUNTED.spec), "inside", 2, 4)
    assert plan.enough_rows is None
    assert sum(run_flow(plan, [TABLE, PARTS], Cut(4))["n"].to_pylist()) == 1_000 * 10
