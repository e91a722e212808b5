"""Hosts that read files by themselves while load moves at random: every row once, in order where order counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from reshape.host import reading
from reshape.host.host import HostSettings
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import JoinSpec, OutputColumn
from reshape.operators.relay import RelaySpec
from reshape.operators.sort import SortSpec
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.scan.reading import read_split
from reshape.scan.scan import Scan, Split
from reshape.testing import ThreadedFlow, scan_of, write_files

from .brain import chaos
from .running import Weather, fast_control, slow_links, with_chaos
from .transfers import Doings

ROWS = 2_000
FILE_ROWS = -(-ROWS // 3)
SEEDS = range(6)
HOT = 7
LEFT = pa.table(
    {"k": pa.array([HOT if n % 2 else n % 23 for n in range(ROWS)]), "v": pa.array(np.arange(ROWS, dtype=np.int64))}
)
RIGHT = pa.table({"k": pa.array([n % 30 for n in range(60)]), "w": pa.array(range(60))})
SIDES = (SourceNode(0, LEFT.schema), SourceNode(1, RIGHT.schema))
JOINED = OperatorNode(
    SIDES,
    JoinSpec(LEFT.schema, RIGHT.schema, (0,), (0,), "inner", (OutputColumn("v", left=1), OutputColumn("w", right=1))),
)
PAIRS = sorted((v, w) for k, v in zip(*LEFT.to_pydict().values(), strict=True) for w in (k, k + 30) if w < 60)


@pytest.fixture
def scans(tmp_path: Path) -> dict[int, Scan]:
    left = write_files(LEFT, tmp_path / "left", files=3, group_rows=150)
    right = write_files(RIGHT, tmp_path / "right", files=2, group_rows=20)
    return {0: scan_of(LEFT.schema, left), 1: scan_of(RIGHT.schema, right)}


def run(node: Node, scans: dict[int, Scan], seed: int, settings: HostSettings | None = None) -> pa.Table:
    """Hosts that read as slowly as the weather says, in small batches."""
    weather, rng, lock = Weather.of(seed), Random(seed), threading.Lock()
    never = threading.Event()

    def slowly(scan: Scan, split: Split, **_: Any) -> Iterator[pa.RecordBatch]:
        for batch in read_split(scan, split, batch_rows=60):
            with lock:
                pause = rng.uniform(0, weather.source_s)
            never.wait(pause)
            yield batch

    doings = Doings(seed)
    plan = with_chaos(Planner().plan(node, "scans", 3, 5), weather)
    with chaos(doings), fast_control(), slow_links(seed, weather.link_s), patch.object(reading, "read_split", slowly):
        result = ThreadedFlow(plan, [[] for _ in scans], scans=scans).run(settings or HostSettings())
    assert not doings.failed, doings.reasons
    return result


@pytest.mark.parametrize("seed", SEEDS)
def test_a_join_of_two_scans(scans: dict[int, Scan], seed: int) -> None:
    got = run(JOINED, scans, seed)
    assert sorted(zip(*got.to_pydict().values(), strict=True)) == PAIRS


@pytest.mark.parametrize("seed", SEEDS)
def test_a_join_and_a_sort_with_little_memory(scans: dict[int, Scan], seed: int) -> None:
    schema = JOINED.schema
    node = OperatorNode((JOINED,), SortSpec(schema, Ordering((SortKey.descending(0), SortKey(1)))))
    got = run(node, scans, seed, HostSettings(queue_bytes=20_000, spill=seed % 2 == 0))
    assert list(zip(*got.to_pydict().values(), strict=True)) == sorted(PAIRS, key=lambda pair: (-pair[0], pair[1]))


@pytest.mark.parametrize("seed", SEEDS)
def test_different_rows(tmp_path: Path, seed: int) -> None:
    few = pa.table({"k": LEFT["k"], "v": pa.array(np.arange(ROWS) % 3)})
    scan = scan_of(few.schema, write_files(few, tmp_path / "few", files=3, group_rows=150))
    got = run(OperatorNode((SIDES[0],), GroupBySpec(few.schema, (0, 1), ())), {0: scan}, seed)
    rows = list(zip(*got.to_pydict().values(), strict=True))
    assert len(rows) == len(set(rows))
    assert set(rows) == set(zip(*few.to_pydict().values(), strict=True))


class Seen:
    """A function that notes the rows of each key in the order in which it gets them, whichever worker it runs for."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with self._lock:
                self.rows += zip(*batch.to_pydict().values(), strict=True)
            yield batch


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_a_key_stay_in_the_order_of_their_split(scans: dict[int, Scan], seed: int) -> None:
    """An ordered function behind: load moves key by key, and what one reader sent stays in its order."""
    relay = OperatorNode((SIDES[0],), RelaySpec(LEFT.schema, (0,)))
    seen = Seen()
    got = run(MapNode(relay, seen, LEFT.schema, ordered=True), {0: scans[0]}, seed)
    assert sorted(got["v"].to_pylist()) == list(range(ROWS))
    # Row groups, which are the splits, begin anew in each file.
    starts = [start for file in range(0, ROWS, FILE_ROWS) for start in range(file, min(file + FILE_ROWS, ROWS), 150)]
    split_of = np.searchsorted(starts, np.arange(ROWS), side="right")
    last: dict[tuple[int, int], int] = {}
    for k, v in seen.rows:
        key = (k, int(split_of[v]))
        assert v > last.get(key, -1), f"row {v} of key {k} came after row {last[key]}"
        last[key] = v
