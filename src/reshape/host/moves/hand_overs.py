"""Keys that move from one worker to another, with their state, behind the rows that came before (§5.3)."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from reshape.errors import FlowFailed
from reshape.exchange.errors import PeerLost
from reshape.exchange.queues import HostQueues
from reshape.exchange.wire import Purpose
from reshape.host.moves.carrier import TRIES, Carrier, reason
from reshape.host.moves.copies import Copies, export
from reshape.host.moves.intake import Extent, Label, Torn, TransferId
from reshape.host.moves.peers import Parcel, Part
from reshape.host.worker import Copied, Worker, Workers
from reshape.kernels.hashing import Mask, hash_rows, owners
from reshape.operators.base import KeySet
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.orders import Give, Hold, TransferOrder, Withdraw
from reshape.protocol.reports import Holding, StateArrived, StateStayed, Withdrawn


@dataclass(slots=True)
class _Giving:
    """State that leaves when the rows that were queued before it was asked for have been processed."""

    order: Give
    until: int
    asked_at: float
    sending: bool = False
    withdraw: bool = False  # the brain wants it back; answered when it is known where the state is
    tries: int = 0

    @property
    def must_arrive(self) -> bool:
        """Does it bring rows back that have no other place to be?"""
        return bool(self.order.returns)


class KeyMoves:
    """Used by the working thread."""

    def __init__(
        self, plan: PhysicalPlan, workers: Workers, queues: HostQueues, copies: Copies, carrier: Carrier
    ) -> None:
        self._plan = plan
        self._workers = workers
        self._queues = queues
        self._copies = copies
        self._carrier = carrier
        self._giving: dict[TransferId, _Giving] = {}

    def step(self) -> None:
        """Do what has become possible since the last batch."""
        for giving in [giving for giving in self._giving.values() if not giving.sending]:
            self._give_if_ready(giving)

    def hold(self, order: Hold) -> None:
        worker = self._workers.get(order.operator, order.worker)
        keys = self._copies.key_set(Copied(frozenset(order.keys), frozenset(order.buckets)))
        port = self._plan.operators[order.operator].ports[order.port]
        columns = port.keys if port.ordering is None else port.ordering.columns

        def among(batch: pa.RecordBatch, combined: bool) -> Mask:
            # Rows that a sender has combined begin with their keys.
            chosen = range(len(columns)) if combined else columns
            return keys.holds(hash_rows([batch.column(column) for column in chosen]))

        self._queues.hold(worker.index, order.port, order.transfer, order.version, among)
        self._carrier.report(Holding(*_id(order)))

    def give(self, order: Give) -> None:
        worker = self._workers.get(order.operator, order.source)
        giving = _Giving(order, self._queues.last_serial(worker.index), time.monotonic())
        self._giving[_id(order)] = giving
        self._give_if_ready(giving)

    def withdraw(self, order: Withdraw) -> None:
        giving = self._giving.get(_id(order))
        if giving is not None and giving.sending:
            giving.withdraw = True
            return
        self._giving.pop(_id(order), None)
        self._answer_withdraw(order)

    def _give_if_ready(self, giving: _Giving) -> None:
        order = giving.order
        worker = self._workers.get(order.operator, order.source)
        pair = (order.operator, worker.number, order.target)
        if not self._may_leave(giving, worker) or self._copies.is_under_way(pair):
            return
        parts: list[Part] = []
        extent: Extent | None = None
        try:
            if self._is_mutable(order):
                for owner in list(worker.logics):
                    parts.extend(self._removed(worker, owner, self._copies.key_set(_keys_of(order))))
            elif self._owns(worker.number, order):
                extent = Extent(worker.number, _keys_of(order))
                parts.extend(self._copies.parts_for(worker, order.target, extent.copied))
        except Exception as error:
            self._keep(giving, worker, parts, error)
            return
        giving.sending = True
        if extent is not None:
            self._copies.begin(pair)
        rows = self._held_parcels(worker, order)
        label = Label(extent, order.adopts)

        def then(failure: Exception | None) -> None:
            if extent is not None:
                self._copies.end(pair, extent.copied, failure)
            self._after_giving(giving, worker, parts, failure)

        def send_next(failure: Exception | None) -> None:
            if isinstance(failure, PeerLost):
                raise failure
            if failure is not None:
                raise FlowFailed(worker.name, f"could not return rows to another worker: {failure}")
            if rows:
                self._carrier.send_surely(Purpose.HELD, order, order.target, rows.popleft(), send_next)
                return
            send = self._carrier.send_surely if giving.must_arrive else self._carrier.send
            send(Purpose.HAND_OVER, order, order.target, Parcel(parts), then, label)

        send_next(None)

    def _may_leave(self, giving: _Giving, worker: Worker) -> bool:
        """Have the rows that came before been processed, and is what they gave all out?"""
        if not worker.is_open(giving.order.port) or worker.output is not None:
            return False
        return self._queues.passed(worker.index, giving.order.port, giving.until)

    def _removed(self, worker: Worker, owner: int, keys: KeySet) -> list[Part]:
        exported = export(worker, owner, keys, remove=True)
        try:
            return [(owner, batch) for batch in exported]
        except Exception as error:  # they are neither here nor there
            raise Torn(worker.name, f"lost keys that it was to hand over: {reason(error)}") from error

    def _held_parcels(self, worker: Worker, order: Give) -> deque[Parcel]:
        """What was held back here for hand-overs that were cancelled; it goes to where the keys are."""
        parcels: deque[Parcel] = deque()
        for cancelled in order.returns:
            version, items = self._queues.take_held(worker.index, order.port, cancelled)
            loaded = [(item, item.load()) for item in items]
            for (combined, _), run in groupby(loaded, key=lambda pair: (pair[0].combined, pair[1].schema)):
                parts = [(item.owner, batch) for item, batch in run]
                parcels.append(Parcel(parts, version=version, combined=combined))
        return parcels

    def _owns(self, worker: int, order: Give) -> bool:
        """Are the keys of an order this worker's own? One that got them from their owner returns no copy."""
        workers = self._plan.workers
        keys = np.array(order.keys, dtype=np.uint64)
        return bool((owners(keys, workers) == worker).any()) or any(b % workers == worker for b in order.buckets)

    def _after_giving(self, giving: _Giving, worker: Worker, parts: list[Part], failure: Exception | None) -> None:
        order = giving.order
        if failure is not None:
            self._keep(giving, worker, parts, failure)
            return
        self._giving.pop(_id(order), None)
        size = sum(batch.nbytes for _, batch in parts)
        self._carrier.report(StateArrived(*_id(order), order.target, size, time.monotonic() - giving.asked_at))
        if giving.withdraw:
            self._answer_withdraw(order)

    def _keep(self, giving: _Giving, worker: Worker, parts: list[Part], error: Exception) -> None:
        """The state did not leave: take it back."""
        order = giving.order
        if isinstance(error, PeerLost | Torn):
            raise error  # nobody knows where the state is
        if self._is_mutable(order):
            for owner, batch in parts:
                worker.logic(owner).merge_state([batch])
        if giving.must_arrive:
            giving.tries += 1
            if giving.sending or giving.tries == TRIES:
                raise FlowFailed(worker.name, f"could not return keys to worker {order.target}: {error}")
            return
        self._giving.pop(_id(order), None)
        self._carrier.report(StateStayed(*_id(order), order.target, reason(error)))
        if giving.withdraw:
            self._answer_withdraw(order)

    def _answer_withdraw(self, order: TransferOrder) -> None:
        """Nothing leaves any more; if it had left before, it is with the target."""
        self._carrier.report(Withdrawn(*_id(order)))

    def _is_mutable(self, order: Give) -> bool:
        return self._plan.operators[order.operator].ports[order.port].mutable


def _id(order: TransferOrder) -> TransferId:
    return order.operator, order.port, order.transfer


def _keys_of(order: Give) -> Copied:
    return Copied(frozenset(order.keys), frozenset(order.buckets))
