"""Immutable state is copied to helpers (§5.2), to each what it has not got yet: state that is merged twice matches
twice."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from reshape.exchange.errors import PeerLost
from reshape.exchange.wire import Purpose
from reshape.host.moves.carrier import Carrier, reason
from reshape.host.moves.intake import Extent, Intake, Label
from reshape.host.moves.peers import Parcel, Part
from reshape.host.worker import Copied, Worker, Workers
from reshape.operators.base import AllBut, Either, HashedKeys, KeySet, MiniPartitions
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.orders import Replicate
from reshape.protocol.reports import StateArrived, StateStayed

Pair = tuple[int, int, int]  # operator, owner, the worker that has a copy of its state


def export(worker: Worker, owner: int, keys: KeySet | None, *, remove: bool) -> Iterator[pa.RecordBatch]:
    """State of a partition at a worker: a copy, or the state itself."""
    return worker.logic(owner).export_state(keys, remove)


class Copies:
    """Who has a copy of what. Used by the working thread."""

    def __init__(self, plan: PhysicalPlan, workers: Workers, intake: Intake, carrier: Carrier) -> None:
        self._plan = plan
        self._workers = workers
        self._intake = intake
        self._carrier = carrier
        self._postponed: list[Replicate] = []
        self._copied: dict[Pair, Copied] = {}
        self._copying: set[Pair] = set()

    def step(self) -> None:
        """Do what has become possible since the last batch."""
        orders, self._postponed = self._postponed, []
        for order in orders:
            self.replicate(order)

    def replicate(self, order: Replicate) -> None:
        worker = self._workers.get(order.operator, order.skewed)
        helper = order.helper
        pair = (order.operator, worker.number, helper)
        transfer = (order.operator, order.port, order.transfer)
        if self._intake.is_forgotten(transfer) or self._intake.is_drained(order.operator, order.port):
            return
        if not worker.is_open(order.port) or pair in self._copying:
            self._postponed.append(order)
            return
        started = time.monotonic()
        wanted = Copied(everything=True) if order.keys is None else Copied(frozenset(order.keys))
        try:
            parts = self.parts_for(worker, helper, wanted)
        except Exception as error:
            self._carrier.report(StateStayed(*transfer, helper, reason(error)))
            return

        def then(failure: Exception | None) -> None:
            self.end(pair, wanted, failure)
            if isinstance(failure, PeerLost):
                raise failure  # nobody knows what the helper has
            if failure is None:
                size = sum(batch.nbytes for _, batch in parts)
                self._carrier.report(StateArrived(*transfer, helper, size, time.monotonic() - started))
            else:
                self._carrier.report(StateStayed(*transfer, helper, reason(failure)))

        self.begin(pair)
        label = Label(Extent(worker.number, wanted))
        self._carrier.send(Purpose.REPLICA, order, helper, Parcel(parts), then, label)

    def parts_for(self, worker: Worker, helper: int, wanted: Copied) -> list[Part]:
        """A copy of a worker's own state, but for what the helper has."""
        held = self._copied.get((worker.operator.id, worker.number, helper), Copied())
        if held.covers(wanted):
            return []
        keys = None if wanted.everything else self.key_set(wanted)
        if held != Copied():
            others = AllBut(self.key_set(held))
            keys = others if keys is None else AllBut(Either(AllBut(keys), AllBut(others)))
        return [(worker.number, batch) for batch in export(worker, worker.number, keys, remove=False)]

    def is_under_way(self, pair: Pair) -> bool:
        return pair in self._copying

    def begin(self, pair: Pair) -> None:
        self._copying.add(pair)

    def end(self, pair: Pair, copied: Copied, failure: Exception | None) -> None:
        self._copying.discard(pair)
        if failure is None:
            self._copied[pair] = self._copied.get(pair, Copied()) | copied

    def key_set(self, copied: Copied) -> KeySet:
        """Keys by their hashes, and all keys of some mini-partitions."""
        named = HashedKeys(copied.keys)
        if not copied.buckets:
            return named
        return Either(named, MiniPartitions(copied.buckets, self._plan.workers, self._plan.buckets_per_worker))
