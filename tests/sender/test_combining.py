"""Routers of a group-by: few rows are sent where groups are few, and never too late."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from reshape.control.routing import RoutingTable
from reshape.exchange.router import HashPartitioner, Router
from reshape.exchange.wire import Envelope
from reshape.operators.aggregates.counts import CountAll
from reshape.operators.aggregates.sums import Sum
from reshape.operators.group_by import GroupBy, GroupBySpec, GroupCombiner
from reshape.sender import combining
from reshape.sender.combining import COMBINED_FLUSH_S, CombiningRouter

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
SPEC = GroupBySpec(SCHEMA, (0,), (CountAll("rows"), Sum("sum", 1)))
WORKERS = 3


class Sender:
    """A combining router, what it has sent, and a clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sent: list[tuple[pa.RecordBatch, Envelope]] = []
        combined = Router(HashPartitioner((0,), WORKERS), [0] * WORKERS, self._send, combined=True)
        plain = Router(HashPartitioner((0,), WORKERS), [0] * WORKERS, self._send)
        self.router = CombiningRouter(GroupCombiner(SPEC), combined, plain, lambda: self.now)

    def _send(self, host: int, batch: pa.RecordBatch, envelope: Envelope) -> None:
        self.sent.append((batch, envelope))

    @property
    def sent_rows(self) -> int:
        return sum(batch.num_rows for batch, _ in self.sent)

    def result(self) -> dict[int, tuple[int, int]]:
        """What an operator makes of all that was sent: rows and sum by key."""
        operator = GroupBy(SPEC)
        for batch, _ in self.sent:
            list(operator.add(0, batch))
        list(operator.end_port(0))
        table = pa.Table.from_batches(list(operator.finish()), operator.output_schema)
        return {row["k"]: (row["rows"], row["sum"]) for row in table.to_pylist()}


def rows(keys: np.ndarray) -> pa.RecordBatch:
    return pa.record_batch([pa.array(keys.astype(np.int64)), pa.array(np.ones(len(keys), np.int64))], schema=SCHEMA)


def counted(keys: np.ndarray) -> dict[int, tuple[int, int]]:
    different, counts = np.unique(keys, return_counts=True)
    return {int(key): (int(count), int(count)) for key, count in zip(different, counts, strict=True)}


def test_few_groups_are_sent_once_for_many_blocks() -> None:
    sender = Sender()
    keys = np.arange(1_000_000) % 50 - 25
    for part in np.array_split(keys, 20):
        sender.router.route(rows(part))
    assert sender.sent_rows == 0, "fifty groups wait for more of them"
    sender.router.flush()
    assert sender.sent_rows == 50
    assert sender.result() == counted(keys)
    sender.router.flush()
    assert sender.sent_rows == 50, "nothing is sent twice"


def test_many_groups_are_merged_while_that_leaves_fewer() -> None:
    sender = Sender()
    keys = np.random.default_rng(1).integers(0, 20_000, 1_000_000)
    for part in np.array_split(keys, 20):
        sender.router.route(rows(part))
    sender.router.flush()
    assert sender.result() == counted(keys)
    assert sender.sent_rows < 5 * 20_000, "65,536 rows at a time they would be 300,000"


def test_groups_that_do_not_come_again_are_sent_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    merges: list[int] = []
    merge = GroupCombiner.merge

    def counting(self: GroupCombiner, parts: list[pa.RecordBatch]) -> pa.RecordBatch:
        merges.append(len(parts))
        return merge(self, parts)

    monkeypatch.setattr(GroupCombiner, "merge", counting)
    sender = Sender()
    keys = np.repeat(np.arange(300_000), 2)  # each twice, side by side: combining halves them, merging does nothing
    for part in np.array_split(keys, 12):
        sender.router.route(rows(part))
    sender.router.flush()
    assert sender.result() == counted(keys)
    assert sender.sent_rows == 300_000
    assert len(merges) == 1, "one merge has shown that it is no use"


def test_rows_with_different_keys_are_sent_as_they_are() -> None:
    sender = Sender()
    keys = np.arange(200_000)
    for part in np.array_split(keys, 10):
        sender.router.route(rows(part))
    sender.router.flush()
    assert sender.result() == counted(keys)
    assert [envelope.combined for _, envelope in sender.sent][-1] is False
    sender.router.route(rows(np.arange(3)))
    before = sender.sent_rows
    sender.router.tick()
    assert sender.sent_rows == before + 3, "rows do not wait for the time of combined ones"


def test_combined_rows_leave_when_their_time_has_come() -> None:
    sender = Sender()
    sender.router.route(rows(np.zeros(10)))
    for _ in range(4):
        sender.router.tick()
        assert sender.sent_rows == 0
        sender.now += COMBINED_FLUSH_S / 4
    sender.router.tick()
    assert sender.sent_rows == 1
    sender.router.route(rows(np.zeros(10)))
    sender.router.tick()
    assert sender.sent_rows == 1, "the next are sent as long after these"
    sender.now += COMBINED_FLUSH_S
    sender.router.tick()
    assert sender.sent_rows == 2
    assert sender.result() == {0: (20, 20)}


def test_what_waits_is_sent_under_the_table_before() -> None:
    sender = Sender()
    sender.router.route(rows(np.zeros(10)))
    assert sender.router.use(RoutingTable(version=1))
    sender.router.route(rows(np.zeros(10)))
    sender.router.flush()
    assert [envelope.version for _, envelope in sender.sent] == [0, 1]


def test_a_block_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combining, "BLOCK_BYTES", 16 * 1_000)
    sizes: list[int] = []
    combine = GroupCombiner.combine

    def counting(self: GroupCombiner, batch: pa.RecordBatch) -> pa.RecordBatch:
        sizes.append(batch.num_rows)
        return combine(self, batch)

    monkeypatch.setattr(GroupCombiner, "combine", counting)
    sender = Sender()
    for _ in range(10):
        sender.router.route(rows(np.zeros(500)))
    assert sizes == [1_000] * 5
