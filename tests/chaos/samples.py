"""Flows of one operator whose answers are known without Spark, on rows of which half have one key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.aggregates.extremes import Max
from reshape.operators.aggregates.lists import Median
from reshape.operators.aggregates.sums import Sum
from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import JoinSpec, OutputColumn
from reshape.operators.relay import RelaySpec
from reshape.operators.sort import SortSpec
from reshape.operators.window import WindowSpec
from reshape.operators.windows.ranks import DenseRank, Rank
from reshape.operators.windows.sums import Count
from reshape.operators.windows.sums import Sum as RunningSum
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode
from reshape.plan.physical import PhysicalPlan
from reshape.plan.planner import Planner
from reshape.testing.cutting import Partitions
from reshape.testing.threads import WAVE

# Every two neighbouring workers have a host of their own, the last worker one to itself.
HOSTS, WORKERS = 3, 5
KEYS = 40
HOT = 6
# All of a source's partitions run at the same time, and each batch has each key.
PARTITIONS, BATCHES = WAVE, 20
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
KEPT_SCHEMA = pa.schema([("k", pa.int64()), ("w", pa.int64())])

Row = tuple[Any, ...]


def sent_rows() -> Partitions:
    """Keys in another order in each batch; values tell all rows apart."""
    rng = np.random.default_rng(7)
    partitions: list[list[pa.RecordBatch]] = []
    value = 0
    for _ in range(PARTITIONS):
        partitions.append([])
        for _ in range(BATCHES):
            keys = rng.permutation([*range(KEYS), *[HOT] * 20])
            partitions[-1].append(pa.record_batch([keys, np.arange(value, value + len(keys))], schema=SCHEMA))
            value += len(keys)
    return partitions


def kept_rows() -> Partitions:
    """The side that is kept: each key but the last once, and as many others that nobody looks for in each batch."""
    keys, others = np.arange(KEYS - 1), np.arange(KEYS, 2 * KEYS)
    wanted = pa.record_batch([keys, keys * 10], schema=KEPT_SCHEMA)
    unwanted = pa.record_batch([others, others * 10], schema=KEPT_SCHEMA)
    return [[wanted, *[unwanted] * BATCHES], *([unwanted] * BATCHES for _ in range(1, PARTITIONS))]


def few_rows() -> Partitions:
    """Each row many times, as sets have it."""
    keys = np.arange(KEYS)
    batch = pa.record_batch([keys, keys % 3], schema=SCHEMA)
    return [[batch] * BATCHES for _ in range(PARTITIONS)]


def rows_of(partitions: Partitions) -> list[Row]:
    batches = [batch for partition in partitions for batch in partition]
    return [row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)]


@dataclass(frozen=True, slots=True)
class Sample:
    """A flow, its sources, and its answer; ``ordered`` tells whether its first column has to be in this order."""

    node: Node
    sources: tuple[Partitions, ...]
    expected: Callable[[], list[Row]]
    ordered: bool = False

    def plan(self, hosts: int = HOSTS) -> PhysicalPlan:
        return Planner().plan(self.node, "sample", hosts, WORKERS)

    def check(self, result: pa.Table) -> None:
        got, wanted = rows_of([result.to_batches()]), self.expected()
        if self.ordered:
            assert [row[0] for row in got] == [row[0] for row in wanted]
        assert Counter(got) == Counter(wanted)


def join(how: Literal["inner", "full"]) -> Sample:
    """In a full join it is part of the state which of the kept rows found a match."""
    columns = (OutputColumn("k", left=0), OutputColumn("v", left=1), OutputColumn("w", right=1))
    spec = JoinSpec(SCHEMA, KEPT_SCHEMA, (0,), (0,), how, columns)
    sent, kept = sent_rows(), kept_rows()

    def expected() -> list[Row]:
        matches = [(k, v, k * 10) for k, v in rows_of(sent) if k < KEYS - 1]
        if how == "inner":
            return matches
        alone = [(k, v, None) for k, v in rows_of(sent) if k == KEYS - 1]
        return [*matches, *alone, *((None, None, w) for k, w in rows_of(kept) if k >= KEYS)]

    return Sample(OperatorNode((SourceNode(0, SCHEMA), SourceNode(1, KEPT_SCHEMA)), spec), (sent, kept), expected)


def group(*, combined: bool) -> Sample:
    """With a median rows are sent as they are, without it as partial groups."""
    middle = Max("m", 1) if combined else Median("m", 1)
    spec = GroupBySpec(SCHEMA, (0,), (middle, CountAll("n"), Sum("s", 1)))
    sent = sent_rows()

    def expected() -> list[Row]:
        of: dict[int, list[int]] = {}
        for key, value in rows_of(sent):
            of.setdefault(key, []).append(value)
        middle_of: Callable[[list[int]], float] = max if combined else lambda some: float(np.median(some))
        return [(key, middle_of(some), len(some), sum(some)) for key, some in of.items()]

    return Sample(OperatorNode((SourceNode(0, SCHEMA),), spec), (sent,), expected)


def sort() -> Sample:
    """By a column with many equal values, so that a key that has moved comes again."""
    sent = sent_rows()
    spec = SortSpec(SCHEMA, Ordering((SortKey.descending(0),)))
    return Sample(
        OperatorNode((SourceNode(0, SCHEMA),), spec), (sent,), lambda: sorted(rows_of(sent), reverse=True), ordered=True
    )


def window() -> Sample:
    """Ranks and a running sum within each key; workers share the partition of the hot one. Few values order the rows,
    so that a key and its value, once moved, come again."""
    schema = pa.schema([*SCHEMA, ("o", pa.int64())])
    sent: Partitions = [
        [pa.record_batch([*batch.columns, np.asarray(batch["v"]) % 16], schema=schema) for batch in partition]
        for partition in sent_rows()
    ]
    functions = (Rank("rank"), DenseRank("dense"), Count("n"), RunningSum("s", 1))
    spec = WindowSpec(schema, (0,), Ordering((SortKey.descending(2),)), functions)

    def expected() -> list[Row]:
        by_key: dict[int, list[Row]] = {}
        for row in rows_of(sent):
            by_key.setdefault(row[0], []).append(row)
        rows: list[Row] = []
        for members in by_key.values():
            orders = sorted({o for *_, o in members}, reverse=True)
            for dense, order in enumerate(orders, start=1):
                rank = 1 + sum(o > order for *_, o in members)
                total = sum(v for _, v, o in members if o >= order)
                up_to = sum(o >= order for *_, o in members)
                rows += [(*row, rank, dense, up_to, total) for row in members if row[2] == order]
        return rows

    return Sample(OperatorNode((SourceNode(0, schema),), spec), (sent,), expected)


def window_of_all() -> Sample:
    """All rows are one partition, and its workers have ranges of it. Many are equal in its order, so that a key that
    has moved comes again."""
    sent = sent_rows()
    functions = (Rank("rank"), DenseRank("dense"), RunningSum("s", 1))
    spec = WindowSpec(SCHEMA, (), Ordering((SortKey.descending(0),)), functions)

    def expected() -> list[Row]:
        values: dict[int, list[int]] = {}
        for key, value in rows_of(sent):
            values.setdefault(key, []).append(value)
        rows: list[Row] = []
        so_far = 0
        for dense, key in enumerate(sorted(values, reverse=True), start=1):
            so_far, rank = so_far + sum(values[key]), len(rows) + 1
            rows += [(key, value, rank, dense, so_far) for value in values[key]]
        return rows

    return Sample(OperatorNode((SourceNode(0, SCHEMA),), spec), (sent,), expected)


def distinct() -> Sample:
    few = few_rows()
    node = OperatorNode((SourceNode(0, SCHEMA),), GroupBySpec(SCHEMA, (0, 1), ()))
    return Sample(node, (few,), lambda: list(set(rows_of(few))))


def repartition() -> Sample:
    sent = sent_rows()
    return Sample(OperatorNode((SourceNode(0, SCHEMA),), RelaySpec(SCHEMA, (0,))), (sent,), lambda: rows_of(sent))


def passing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def ordered(sample: Sample) -> Sample:
    """With a function behind it that needs the rows of a key in their order: load is split by keys."""
    schema = sample.node.schema
    return Sample(MapNode(sample.node, passing, schema, ordered=True), sample.sources, sample.expected)


SAMPLES: dict[str, Callable[[], Sample]] = {
    "inner join": lambda: join("inner"),
    "full join": lambda: join("full"),
    "group": lambda: group(combined=False),
    "combined group": lambda: group(combined=True),
    "sort": sort,
    "window": window,
    "window of all rows": window_of_all,
    "distinct": distinct,
    "repartition": repartition,
    "ordered join": lambda: ordered(join("inner")),
    "ordered repartition": lambda: ordered(repartition()),
}
