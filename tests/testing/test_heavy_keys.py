"""The partition of a heavy key is shared by all workers, wherever its rows come from; others stay whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reshape.driver.execution import Execution
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.relay import RelaySpec
from reshape.operators.window import WindowSpec
from reshape.operators.windows.description import WindowFunction
from reshape.operators.windows.frame import Frame
from reshape.operators.windows.ranks import CumeDist, DenseRank, RowNumber
from reshape.operators.windows.sums import Count, Sum
from reshape.operators.windows.values import Shifted
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode
from reshape.plan.physical import PhysicalPlan
from reshape.plan.planner import Planner
from reshape.testing import ThreadedFlow

from ..operators.window_reference import windows_of

WORKERS = 4
ROWS, BATCH_ROWS = 1_200, 200
NEAR: tuple[WindowFunction, ...] = (RowNumber("n"), CumeDist("c"), Shifted("before", 1, -3), Shifted("next", 1, 40))
SO_FAR: tuple[WindowFunction, ...] = (*NEAR, DenseRank("d"), Sum("s", 1), Count("rows"))
AS_A_WHOLE: tuple[WindowFunction, ...] = (*NEAR, Sum("all", 1, Frame()))


def facts(rows: int = ROWS) -> pa.Table:
    """Six of ten rows without a key, the others with many."""
    rng = np.random.default_rng(4)
    hot = rng.random(rows) < 0.6
    keys = pa.array(rng.integers(1, 60, rows), mask=hot)
    return pa.table({"k": keys, "v": rng.integers(-50, 50, rows), "o": rng.permutation(rows) / 3})


def window(functions: tuple[WindowFunction, ...], schema: pa.Schema) -> WindowSpec:
    return WindowSpec(schema, (0,), Ordering((SortKey.descending(2),)), functions)


def run(node: Node, data: pa.Table, workers: int = WORKERS) -> tuple[pa.Table, list[int]]:
    """The result, and the rows that each worker owned of the last operator."""
    plan: PhysicalPlan = Planner().plan(node, "heavy", min(2, workers), workers)
    seen: list[Execution] = []
    sources = [
        [
            part.to_batches(max_chunksize=BATCH_ROWS)
            for part in (data.slice(0, len(data) // 3), data.slice(len(data) // 3))
        ]
    ]
    got = ThreadedFlow(plan, sources, seen.append).run()
    return got, seen[-1].control.rows_of((len(plan.operators) - 1, 0)).routed.tolist()


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*table.to_pydict().values(), strict=True)))


@pytest.mark.parametrize("below", ["source", "operator"])
@pytest.mark.parametrize("functions", [NEAR, SO_FAR], ids=["near", "so far"])
def test_workers_share_heavy_keys(functions: tuple[WindowFunction, ...], below: str) -> None:
    """By hash one of them would have all rows without a key."""
    data = facts()
    source: Node = SourceNode(0, data.schema)
    child = source if below == "source" else OperatorNode((source,), RelaySpec(data.schema, (1,)))
    spec = window(functions, data.schema)
    got, owned = run(OperatorNode((child,), spec), data)
    assert rows_of(got) == sorted(map(repr, windows_of(spec, data)))
    assert sum(owned) == ROWS
    if below == "source":  # whose first batches are large enough for a sample
        assert max(owned) < 0.45 * ROWS


def test_a_key_that_is_named_twice_is_shared_too() -> None:
    data = facts()
    spec = replace(window(SO_FAR, data.schema), keys=(0, 0))
    got, owned = run(OperatorNode((SourceNode(0, data.schema),), spec), data)
    assert rows_of(got) == sorted(map(repr, windows_of(spec, data)))
    assert max(owned) < 0.45 * ROWS


def test_a_function_that_is_computed_as_a_whole_has_an_owner() -> None:
    data = facts()
    spec = window(AS_A_WHOLE, data.schema)
    got, owned = run(OperatorNode((SourceNode(0, data.schema),), spec), data)
    assert rows_of(got) == sorted(map(repr, windows_of(spec, data)))
    assert spec.looks_beyond is None
    assert max(owned) > 0.55 * ROWS


@pytest.mark.parametrize("rows", [0, 1, 3, 40])
@pytest.mark.parametrize("workers", [1, 4, 9])
def test_few_rows(rows: int, workers: int) -> None:
    data = facts(rows)
    spec = window(SO_FAR, data.schema)
    got, _ = run(OperatorNode((SourceNode(0, data.schema),), spec), data, workers)
    assert rows_of(got) == sorted(map(repr, windows_of(spec, data)))


def test_a_function_that_needs_the_order_gets_whole_partitions() -> None:
    """Also where another operator is between them."""
    data = facts()
    places: list[tuple[Any, int]] = []

    def noted(batches: Any) -> Any:
        for batch in batches:
            places.extend(zip(batch["k"].to_pylist(), batch["n"].to_pylist(), strict=True))
            yield batch

    node: Node = OperatorNode((SourceNode(0, data.schema),), window(NEAR, data.schema))
    for tree in (node, OperatorNode((node,), RelaySpec(node.schema, (0,)))):
        places.clear()
        run(MapNode(tree, noted, tree.schema, ordered=True), data)
        for key in {key for key, _ in places}:
            found = [place for at, place in places if at == key]
            assert found == list(range(1, len(found) + 1))
