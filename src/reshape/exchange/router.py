"""Decides, row by row, which worker a row goes to, and packs rows into one message per host.

A router uses one routing table per batch. Its counts are cumulative: rows per owner before redirection, rows per worker
after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.control.profile import MOST_WORKERS
from reshape.control.routing import RoutingTable, Shares
from reshape.exchange.errors import ExchangeError
from reshape.exchange.tally import RouterCounts
from reshape.exchange.wire import Envelope, Kind, Slice
from reshape.kernels.hashing import hash_rows, mini_partitions, owners

Workers = npt.NDArray[np.uint16]
Hashes = npt.NDArray[np.uint64]
Rules = npt.NDArray[np.int32]

# A message below this many rows costs more to send than to fill: about a hundred microseconds against a few.
LEAST_ROWS_PER_MESSAGE = 4_096
# Wide rows do not wait for so many: a message of this size is worth sending whatever it holds.
LEAST_BYTES_PER_MESSAGE = 1024 * 1024
# A receiver pays for every slice, however few its rows are; larger ones are not worth a second ordering.
LEAST_ROWS_PER_SLICE = 256


class Tally(Protocol):
    """Counts what passes a router, for those who choose among keys."""

    def count(self, owner: Workers, hashes: Hashes) -> None: ...

    def take(self) -> tuple[dict[int, dict[int, int]], dict[int, int]]: ...


class Partitioner(Protocol):
    """Finds the owner of each row; also a hash per row where rows have keys."""

    def partition(self, batch: pa.RecordBatch) -> tuple[Workers, Hashes | None]: ...


class HashPartitioner:
    """Owner by the hash of the key columns."""

    def __init__(self, columns: Sequence[int], workers: int) -> None:
        self._columns = tuple(columns)
        self._workers = workers

    def partition(self, batch: pa.RecordBatch) -> tuple[Workers, Hashes | None]:
        hashes = hash_rows([batch.column(index) for index in self._columns])
        return owners(hashes, self._workers), hashes


class OnePartition:
    """Without keys all rows belong to the first worker: the one group of a global aggregate."""

    def partition(self, batch: pa.RecordBatch) -> tuple[Workers, Hashes | None]:
        return np.zeros(batch.num_rows, dtype=np.uint16), None


@dataclass(slots=True)
class _Pending:
    """What waits to be sent to one host."""

    pieces: list[pa.RecordBatch] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


class Router:
    """One sender's rows for one input of one operator."""

    def __init__(
        self,
        partitioner: Partitioner,
        hosts: Sequence[int],
        send: Callable[[int, pa.RecordBatch, Envelope], None],
        *,
        table: RoutingTable | None = None,
        buckets_per_worker: int = 16,
        combined: bool = False,
        tally: Tally | None = None,
    ) -> None:
        """``hosts`` gives the host of each worker; workers of a host are neighbours."""
        if len(hosts) > MOST_WORKERS:
            raise ExchangeError(f"{len(hosts):,} workers are more than the {MOST_WORKERS:,} that an exchange can have")
        self._partitioner = partitioner
        self._hosts = tuple(hosts)
        self._send = send
        self._combined = combined
        self._per_worker = buckets_per_worker
        self._pending: dict[int, _Pending] = {}
        self._sequence: dict[int, int] = {}
        self.table = table or RoutingTable()
        self._rules = _Rules(self.table, len(hosts), buckets_per_worker)
        self.routed = np.zeros(len(hosts), dtype=np.int64)
        self.sent = np.zeros(len(hosts), dtype=np.int64)
        self.tally = tally

    def use(self, table: RoutingTable) -> bool:
        """Use a table from the next batch on; False if it is not newer than the one in use."""
        if table.version <= self.table.version:
            return False
        rules = _Rules(table, len(self._hosts), self._per_worker)
        self.flush()
        self.table = table
        self._rules = rules
        return True

    def route(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        owner, hashes = self._partitioner.partition(batch)
        if self.tally is not None and hashes is not None:
            self.tally.count(owner, hashes)
        if self.table.two_choices and hashes is not None:
            worker = two_choices(owner, hashes, self.sent)
        else:
            worker = self._rules.redirect(owner, hashes)
        order, slices = _by_worker_and_owner(worker, owner, len(self._hosts))
        for part in slices:  # before sending, which may wait: rows that wait here are part of a worker's workload
            self.routed[part.owner] += part.rows
            self.sent[part.worker] += part.rows
        self._pack(_take(batch, order), slices)

    def counts(self) -> RouterCounts:
        """Cumulative counts; what a tally has is since this was last asked."""
        keys, buckets = ({}, {}) if self.tally is None else self.tally.take()
        return RouterCounts(tuple(self.routed.tolist()), tuple(self.sent.tolist()), keys, buckets)

    def tick(self) -> None:
        """Called by a clock: what waits to be sent has waited long enough."""
        self.flush()

    @property
    def unsent(self) -> int:
        """Rows that its counts do not account for: none, for they count rows that are about to be sent."""
        return 0

    def flush(self) -> None:
        """Send everything that waits to be sent."""
        for host in list(self._pending):
            self._send_pending(host)

    def _pack(self, ordered: pa.RecordBatch, slices: Sequence[Slice]) -> None:
        """Cut a batch that is ordered by worker into one piece per host."""
        start = at = 0
        while at < len(slices):
            host = self._hosts[slices[at].worker]
            first, rows = at, 0
            while at < len(slices) and self._hosts[slices[at].worker] == host:
                rows += slices[at].rows
                at += 1
            self._add(host, ordered.slice(start, rows), slices[first:at], ordered.num_rows)
            start += rows

    def _add(self, host: int, piece: pa.RecordBatch, slices: Sequence[Slice], whole: int) -> None:
        waiting = self._pending.setdefault(host, _Pending())
        waiting.slices.extend(slices)
        waiting.rows += piece.num_rows
        if waiting.rows < LEAST_ROWS_PER_MESSAGE:
            if piece.num_rows * 8 < whole:
                # A copy, because a few rows that wait must not keep the whole batch in memory.
                piece = pa.concat_batches([piece])
            waiting.bytes += piece.get_total_buffer_size()
        waiting.pieces.append(piece)
        if waiting.rows >= LEAST_ROWS_PER_MESSAGE or waiting.bytes >= LEAST_BYTES_PER_MESSAGE:
            self._send_pending(host)

    def _send_pending(self, host: int) -> None:
        waiting = self._pending.pop(host)
        batch, slices = waiting.pieces[0], waiting.slices
        if len(waiting.pieces) > 1:
            batch = pa.concat_batches(waiting.pieces)
        if len(waiting.pieces) > 1 and waiting.rows < LEAST_ROWS_PER_SLICE * len(slices):
            rows = [part.rows for part in slices]
            order, slices = _by_worker_and_owner(
                np.repeat(np.array([part.worker for part in slices], dtype=np.uint16), rows),
                np.repeat(np.array([part.owner for part in slices], dtype=np.uint16), rows),
                len(self._hosts),
            )
            batch = _take(batch, order)
        sequence = self._sequence.get(host, 0)
        self._sequence[host] = sequence + 1
        self._send(host, batch, Envelope(Kind.ROWS, self.table.version, sequence, tuple(slices), self._combined))


class _Rules:
    """A routing table made ready for whole batches: the number of the rule by key, mini-partition and owner."""

    def __init__(self, table: RoutingTable, workers: int, per_worker: int) -> None:
        self._workers = workers
        self._per_worker = per_worker
        buckets = workers * per_worker
        self._shares: list[Shares] = [*table.keys.values(), *table.buckets.values(), *table.owners.values()]
        strangers = {worker for shares in self._shares for worker in shares.workers if not 0 <= worker < workers}
        if strangers:
            raise ExchangeError(
                f"routing table {table.version} sends rows to worker {min(strangers)}, but there are {workers} workers"
            )
        # Rows dealt so far, per rule: two rules with the same shares are still two.
        self._dealt = [0] * len(self._shares)
        self._whole = np.array(
            [shares.parts[0][0] if len(shares.parts) == 1 else -1 for shares in self._shares], dtype=np.int32
        )
        keys = np.array([_as_hash(key) for key in table.keys], dtype=np.uint64)
        order = np.argsort(keys)
        self._keys, self._rule_of_key = keys[order], order.astype(np.int32)
        # Most rows have no rule for their key; a look at 16 bits of the hash tells so for all but a few of them.
        self._maybe = np.zeros(65_536, dtype=np.bool_)
        self._maybe[_middle(keys)] = True
        self._rule_of_bucket = _numbered(table.buckets, buckets, len(table.keys))
        self._rule_of_owner = _numbered(table.owners, workers, len(table.keys) + len(table.buckets))

    def redirect(self, owner: Workers, hashes: Hashes | None) -> Workers:
        """The worker of each row; the very same array when no rule applies."""
        if not self._shares:
            return owner
        rule = self._find(owner, hashes)
        rows = np.flatnonzero(rule >= 0)
        if not len(rows):
            return owner
        worker = owner.copy()
        rule = rule[rows]
        whole = self._whole[rule]
        simple = whole >= 0
        worker[rows[simple]] = whole[simple]
        if not simple.all():
            self._deal(rule[~simple], rows[~simple], worker)
        return worker

    def _find(self, owner: Workers, hashes: Hashes | None) -> Rules:
        """The number of each row's rule, -1 without one: by key, else by mini-partition, else by owner."""
        rule: Rules
        if self._rule_of_owner is not None:
            rule = self._rule_of_owner[owner]
        else:
            rule = np.full(len(owner), -1, dtype=np.int32)
        if hashes is None:
            return rule
        if self._rule_of_bucket is not None:
            by_bucket = self._rule_of_bucket[mini_partitions(hashes, self._workers, self._per_worker)]
            rule = np.where(by_bucket >= 0, by_bucket, rule)
        if len(self._keys):
            rows = np.flatnonzero(self._maybe[_middle(hashes)])
            places = np.searchsorted(self._keys, hashes[rows])
            places[places == len(self._keys)] = 0
            same = self._keys[places] == hashes[rows]
            rule[rows[same]] = self._rule_of_key[places[same]]
        return rule

    def _deal(self, rule: Rules, rows: npt.NDArray[np.intp], worker: Workers) -> None:
        """Deal out the rows of rules that have several workers, in their order."""
        present, number, counts = np.unique(rule, return_inverse=True, return_counts=True)
        rows = rows[np.argsort(_narrow(number, len(present)), kind="stable")]
        start = 0
        for index, count in zip(present.tolist(), counts.tolist(), strict=True):
            worker[rows[start : start + count]] = deal(self._shares[index], self._dealt[index], count)
            self._dealt[index] += count
            start += count


def deal(shares: Shares, start: int, rows: int) -> Workers:
    """The worker of each of the next rows of a rule; :meth:`Shares.deal` tells how many each of them gets."""
    dealt = np.full(rows, shares.parts[-1][0], dtype=np.uint16)
    open_rows = np.arange(rows)
    left = Fraction(1)
    for worker, share in shares.parts[:-1]:
        part = share / left
        top, bottom = part.numerator, part.denominator
        # Only the remainder of the start matters, so that positions may grow without bound; what a worker leaves over
        # are again neighbouring positions for the next one.
        before, carry = divmod(start * top, bottom)
        exact = (len(open_rows) + 1) * top + bottom < 2**63
        steps = np.arange(len(open_rows) + 1, dtype=np.int64 if exact else np.object_)
        is_next = np.diff((steps * top + carry) // bottom) > 0
        dealt[open_rows[is_next]] = worker
        open_rows = open_rows[~is_next]
        start -= before
        left -= share
    return dealt


def two_choices(owner: Workers, hashes: Hashes, sent: npt.NDArray[np.int64]) -> Workers:
    """Partial key grouping: each row to the less loaded of its key's two workers, by this router's own counts.

    Row by row that would bring two workers level and then alternate between them; whole batches do the same at once.
    """
    workers = len(sent)
    if workers == 1:
        return owner
    shift = (hashes >> np.uint64(40)) % np.uint64(workers - 1) + np.uint64(1)
    other = ((owner + shift) % np.uint64(workers)).astype(np.uint16)
    chosen = owner.copy()
    load = sent.copy()
    pair = owner.astype(np.uint32) << np.uint32(16) | other
    order = np.argsort(pair, kind="stable")
    present, starts = np.unique(pair[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for both, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True):
        first, second, rows = both >> 16, both & 0xFFFF, end - start
        kept = min(rows, max(0, (rows + int(load[second]) - int(load[first]) + 1) // 2))
        if kept < rows:
            shares = Shares.of(first, {second: Fraction(rows - kept, rows)})
            chosen[order[start:end]] = deal(shares, 0, rows)
        load[first] += kept
        load[second] += rows - kept
    return chosen


def _by_worker_and_owner(worker: Workers, owner: Workers, count: int) -> tuple[npt.NDArray[np.intp], list[Slice]]:
    """Row numbers ordered by worker and owner, in arrival order within a pair, and the slices that this makes."""
    pair: npt.NDArray[Any]
    if worker is owner:
        pair = _narrow(owner, count)
        order = np.argsort(pair, kind="stable")
    elif count <= 256:
        pair = worker << np.uint16(8) | owner
        order = np.argsort(pair, kind="stable")
    else:
        pair = worker.astype(np.uint32) << np.uint32(16) | owner
        order = np.argsort(owner, kind="stable")
        order = order[np.argsort(worker[order], kind="stable")]
    pair = pair.take(order)
    edges = np.concatenate(([0], np.flatnonzero(pair[1:] != pair[:-1]) + 1, [len(pair)]))
    sizes = edges[1:] - edges[:-1]
    first = order[edges[:-1]]
    return order, [
        Slice(*numbers) for numbers in zip(worker[first].tolist(), owner[first].tolist(), sizes.tolist(), strict=True)
    ]


def _take(batch: pa.RecordBatch, order: npt.NDArray[Any]) -> pa.RecordBatch:
    """The rows in this order. Two bytes a row number are taken a third faster than eight."""
    return batch.take(pa.array(order.astype(np.uint16) if len(order) <= 65_536 else order))


def _narrow(numbers: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """Numbers below ``count`` in the narrowest type: one or two bytes are sorted by radix."""
    if count <= 256:
        return numbers.astype(np.uint8)
    return numbers.astype(np.uint16, copy=False) if count <= 65_536 else numbers


def _middle(hashes: Hashes) -> npt.NDArray[np.uint16]:
    return (hashes >> np.uint64(24)).astype(np.uint16)


def _numbered(rules: Any, scopes: int, first: int) -> Rules | None:
    """The number of the rule of each scope, counted from ``first``; -1 for scopes without one."""
    if not rules:
        return None
    numbers = np.full(scopes, -1, dtype=np.int32)
    for number, scope in enumerate(rules, first):
        if not 0 <= scope < scopes:
            raise ExchangeError(f"there is a routing rule for number {scope}, but the numbers are 0 to {scopes - 1}")
        numbers[scope] = number
    return numbers


def _as_hash(key: Any) -> int:
    """Routing tables name a key by its hash."""
    if not isinstance(key, int | np.integer) or not 0 <= key < 2**64:
        raise ExchangeError(f"a routing rule names a key by its 64-bit hash, but got {key!r}")
    return int(key)
