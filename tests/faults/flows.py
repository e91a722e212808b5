"""Small flows on two hosts whose answers are known, with brains that move load by a short script.

Sources wait for the scripts, so all that a fault can be put at happens in each run, on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from reshape.control.balancing import Balancing
from reshape.host.host import HostSettings
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.aggregates.lists import Median
from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import JoinSpec, OutputColumn
from reshape.operators.relay import RelaySpec
from reshape.operators.sort import SortSpec
from reshape.operators.window import WindowSpec
from reshape.operators.windows.ranks import RowNumber
from reshape.operators.windows.sums import Sum
from reshape.plan.nodes import Node, OperatorNode, SourceNode
from reshape.plan.physical import PhysicalPlan
from reshape.plan.planner import Planner
from reshape.scan.scan import Scan
from reshape.testing import scan_of, write_files
from reshape.testing.cutting import Partitions

from ..chaos.script import HALF, MOST_ROWS, STRATEGY, Script, ScriptedBrain, Until

HOSTS, WORKERS = 2, 4
PARTITIONS, BATCHES = 2, 6
KEYS = 24
HOT = 6
REPORT_S = 0.03
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
KEPT_SCHEMA = pa.schema([("k", pa.int64()), ("w", pa.int64())])
# Less than the rows of one message: whatever waits beside another piece goes to disk.
TINY_BYTES = 1

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A flow that can be run many times. ``stalled``: workers take no row before the fault has struck."""

    plan: PhysicalPlan
    sources: tuple[Partitions, ...]
    expected: list[Row]
    script: Script
    scans: Mapping[int, Scan] = field(default_factory=lambda: MappingProxyType({}))
    settings: HostSettings = field(default_factory=HostSettings)
    ordered: bool = False
    stalled: bool = False

    def check(self, result: pa.Table) -> None:
        got = [row for batch in result.to_batches() for row in zip(*batch.to_pydict().values(), strict=True)]
        if self.ordered:
            assert [row[0] for row in got] == [row[0] for row in self.expected]
        assert sorted(got) == sorted(self.expected)


def _sent() -> Partitions:
    """Every key in each batch, one of them more often; values tell all rows apart."""
    rng = np.random.default_rng(11)
    partitions: list[list[pa.RecordBatch]] = []
    for partition in range(PARTITIONS):
        partitions.append([])
        for number in range(BATCHES):
            keys = rng.permutation([*range(KEYS), *[HOT] * 8])
            first = (partition * BATCHES + number) * len(keys)
            partitions[-1].append(pa.record_batch([keys, np.arange(first, first + len(keys))], schema=SCHEMA))
    return partitions


def _rows(partitions: Partitions) -> list[Row]:
    return [
        row for partition in partitions for batch in partition for row in zip(*batch.to_pydict().values(), strict=True)
    ]


def _grouped(rows: list[Row]) -> list[Row]:
    values: dict[int, list[int]] = {}
    for key, value in rows:
        values.setdefault(key, []).append(value)
    return [(key, float(np.median(of_key)), len(of_key)) for key, of_key in values.items()]


def _group(child: Node) -> OperatorNode:
    return OperatorNode((child,), GroupBySpec(SCHEMA, (0,), (Median("m", 1), CountAll("n"))))


def _planned(node: Node, strategy: str = STRATEGY) -> PhysicalPlan:
    plan = Planner().plan(node, "fault", HOSTS, WORKERS)
    operators = tuple(replace(operator, mitigation=Balancing(strategy)) for operator in plan.operators)
    return replace(plan, operators=operators, report_s=REPORT_S)


# Scripts


def nothing(brain: ScriptedBrain) -> Iterator[Until]:
    yield brain.next_event()


def move_keys(brain: ScriptedBrain) -> Iterator[Until]:
    """Keys go to a worker of the other host and return; the same again if that has failed."""
    yield Until("keys to move", lambda: bool(brain.scopes_of(False)))
    scopes = brain.scopes_of(False)
    owner, helper = scopes[0].owner, brain.beyond(scopes[0].owner)
    for source, target in ((owner, helper), (helper, owner)):
        while any(brain.at[scope] == source for scope in scopes):
            moving = brain.hand_over(source, target, scopes)
            yield brain.answered([moving])
            yield brain.next_event()  # what failed is routed back in the step that told so


def share(brain: ScriptedBrain) -> Iterator[Until]:
    """Rows that wait move on, and at the end each worker has a part of another one's partition."""
    [owner] = {scope.owner for scope in brain.scopes_of(False)}
    brain.valves.stall()
    yield brain.rows_for(owner)
    while not any(brain.moved_rows.values()):
        transfer = brain.move_backlog(owner, brain.beyond(owner), owner, MOST_ROWS)
        yield Until("an answer about rows", lambda transfer=transfer: transfer in brain.moved_rows)  # type: ignore[misc]
    brain.valves.go_on()
    for sharer in range(brain.profile.workers):
        brain.share(sharer, {brain.beyond(sharer): HALF})
    yield brain.used()
    yield brain.rows_for((owner + 1) % brain.profile.workers)  # neither of those two whose counts the move has changed


def move_and_share(brain: ScriptedBrain) -> Iterator[Until]:
    yield from move_keys(brain)
    yield from share(brain)


def copy_and_move(brain: ScriptedBrain) -> Iterator[Until]:
    """Only at the side of a join that looks rows up."""
    if not brain.immutable:
        return
    yield Until("keys to move", lambda: bool(brain.scopes_of(False)))
    owner = brain.scopes_of(False)[0].owner
    helper = brain.beyond(owner)
    while not brain.may_help(owner, helper):
        brain.replicate(owner, (helper,))
        before = _copies(brain)
        yield Until("an answer about a copy", lambda before=before: _copies(brain) > before)  # type: ignore[misc]
    yield from move_keys(brain)


def _copies(brain: ScriptedBrain) -> int:
    return brain.doings.done["replicate"] + brain.doings.failed["replicate"]


def move_keys_later(brain: ScriptedBrain) -> Iterator[Until]:
    """At the second operator of a chain, whose rows come from hosts."""
    if brain.profile.name.startswith("group"):
        yield from move_keys(brain)


# Flows


def group(_: Path) -> Prepared:
    sent = _sent()
    return Prepared(_planned(_group(SourceNode(0, SCHEMA))), (sent,), _grouped(_rows(sent)), move_and_share)


def spilled(_: Path) -> Prepared:
    sent = _sent()
    plan = _planned(_group(SourceNode(0, SCHEMA)))
    settings = HostSettings(queue_bytes=TINY_BYTES)
    return Prepared(plan, (sent,), _grouped(_rows(sent)), nothing, settings=settings, stalled=True)


def join(_: Path) -> Prepared:
    columns = (OutputColumn("k", left=0), OutputColumn("v", left=1), OutputColumn("w", right=1))
    spec = JoinSpec(SCHEMA, KEPT_SCHEMA, (0,), (0,), "inner", columns)
    sent, keys = _sent(), np.arange(KEYS - 1)
    halves = [keys[: KEYS // 2], keys[KEYS // 2 :]]
    kept = [[pa.record_batch([half, half * 10], schema=KEPT_SCHEMA)] * 2 for half in halves]
    plan = _planned(OperatorNode((SourceNode(0, SCHEMA), SourceNode(1, KEPT_SCHEMA)), spec))
    expected = [(k, v, k * 10) for k, v in _rows(sent) if k < KEYS - 1] * 2
    return Prepared(plan, (sent, kept), expected, copy_and_move)


def sort(_: Path) -> Prepared:
    sent = _sent()
    plan = _planned(OperatorNode((SourceNode(0, SCHEMA),), SortSpec(SCHEMA, Ordering((SortKey.descending(0),)))))
    return Prepared(plan, (sent,), sorted(_rows(sent), reverse=True), nothing, ordered=True)


def window(_: Path) -> Prepared:
    """All rows are one partition, and each worker has a range of it."""
    sent = _sent()
    spec = WindowSpec(SCHEMA, (), Ordering((SortKey(1),)), (RowNumber("n"), Sum("s", 1)))
    rows = sorted(_rows(sent), key=lambda row: row[1])
    expected = [(*row, n, s) for n, (row, s) in enumerate(zip(rows, accumulate(v for _, v in rows), strict=True), 1)]
    return Prepared(_planned(OperatorNode((SourceNode(0, SCHEMA),), spec)), (sent,), expected, nothing, ordered=True)


def chain(_: Path) -> Prepared:
    """Rows go from host to host: first by their value, then by their key."""
    sent = _sent()
    by_value = OperatorNode((SourceNode(0, SCHEMA),), RelaySpec(SCHEMA, (1,)))
    return Prepared(_planned(_group(by_value)), (sent,), _grouped(_rows(sent)), move_keys_later)


def files(directory: Path) -> Prepared:
    """Hosts read by themselves, as fast as they can: nobody could hold them back until a script is through."""
    sent = _sent()
    table = pa.Table.from_batches([batch for partition in sent for batch in partition])
    scan = scan_of(SCHEMA, write_files(table, directory, files=2, group_rows=50))
    plan = _planned(_group(SourceNode(0, SCHEMA)), strategy="none")
    return Prepared(plan, ((),), _grouped(_rows(sent)), nothing, scans={0: scan})


FLOWS: dict[str, Callable[[Path], Prepared]] = {
    "group": group,
    "join": join,
    "sort": sort,
    "window": window,
    "chain": chain,
    "files": files,
    "spilled": spilled,
}


@cache
def prepared(name: str, directory: Path) -> Prepared:
    return FLOWS[name](directory / "files")
