"""The hands of the brain on one host: state and waiting rows of its workers move as ordered.

Everything here runs in the host's working thread, between two batches, so it sees each worker's state whole. Sending is
left to :class:`Peers`; what arrives is taken in by :class:`Intake`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa

from reshape.errors import FlowFailed
from reshape.exchange.errors import PeerLost
from reshape.exchange.queues import HostQueues
from reshape.exchange.wire import Purpose, StreamName
from reshape.exchange.worker_queue import Item
from reshape.host.moves.intake import Arrival, CellOf, Extent, Intake, Label, Then, Torn, TransferId
from reshape.host.moves.peers import Parcel, Part, Peers
from reshape.host.worker import Cell, Copied
from reshape.kernels.hashing import Mask, hash_rows, owners
from reshape.operators.base import AllBut, Either, KeySet
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.link import Order
from reshape.protocol.tables import key_set

# Waiting rows travel in pieces of this size, each of which arrives whole or not at all.
BACKLOG_BYTES = 16 * 1024 * 1024
# What has no other place to be is sent so often before the flow fails.
TRIES = 5

NO_LABEL = Label()

Tell = Callable[..., None]
Pair = tuple[int, int, int]  # operator, owner, the worker that has a copy of its state


@dataclass(slots=True)
class _Giving:
    """State that leaves when the rows that were queued before it was asked for have been processed."""

    order: Order
    until: int
    asked_at: float
    sending: bool = False
    withdraw: bool = False  # the brain wants it back; answered when it is known where the state is
    tries: int = 0

    @property
    def must_arrive(self) -> bool:
        """Does it bring rows back that have no other place to be?"""
        return bool(self.order["returns"])


class HostMoves:
    """``tell`` reports to the driver without waiting; ``soon`` runs something in the working thread."""

    def __init__(
        self,
        plan: PhysicalPlan,
        host: int,
        queues: HostQueues,
        cell_of: CellOf,
        peers: Peers,
        stream: StreamName,
        tell: Tell,
        soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._plan = plan
        self._host = host
        self._host_of = plan.host_of_workers()
        self._queues = queues
        self._cell_of = cell_of
        self._peers = peers
        self._stream = stream
        self._tell = tell
        self._soon = soon
        self.intake = Intake(queues, cell_of)
        self._giving: dict[TransferId, _Giving] = {}
        self._postponed: list[Order] = []
        self._copied: dict[Pair, Copied] = {}
        self._copying: set[Pair] = set()
        self._handlers: dict[str, Callable[[Order], None]] = {
            "replicate": self._replicate,
            "hold": self._hold,
            "give": self._give,
            "withdraw": self._withdraw,
            "forget": lambda order: self.intake.forget(_id(order)),
            "move_backlog": self._move_backlog,
            "drained": self._gather_scattered,
        }

    def obeys(self, order: Order) -> bool:
        """Carry an order out if it is about transfers."""
        handler = self._handlers.get(order["kind"])
        if handler is None:
            return False
        handler(order)
        return True

    def step(self) -> None:
        """Do what has become possible since the last batch."""
        if self._postponed:
            orders, self._postponed = self._postponed, []
            for order in orders:
                self._handlers[order["kind"]](order)
        for giving in [g for g in self._giving.values() if not g.sending]:
            self._give_if_ready(giving)
        self.intake.step()

    # Immutable state

    def _replicate(self, order: Order) -> None:
        cell = self._cell_of(order["operator"], order["skewed"])
        helper = order["helper"]
        pair = (order["operator"], cell.worker, helper)
        if self.intake.is_forgotten(_id(order)) or self.intake.is_drained(order["operator"], order["port"]):
            return
        if not cell.is_open(order["port"]) or pair in self._copying:
            self._postponed.append(order)
            return
        started = time.monotonic()
        keys = order["keys"]
        wanted = Copied(everything=True) if keys is None else Copied(frozenset(keys))
        try:
            parts = self._copies(cell, helper, wanted)
        except Exception as error:
            self._tell_failed(order, helper, error)
            return

        def then(failure: Exception | None) -> None:
            self._end_copying(pair, wanted, failure)
            if isinstance(failure, PeerLost):
                raise failure  # nobody knows what the helper has
            if failure is None:
                size = sum(batch.nbytes for _, batch in parts)
                self._tell_done(order, helper, size, time.monotonic() - started)
            else:
                self._tell_failed(order, helper, failure)

        self._copying.add(pair)
        self._send(Purpose.REPLICA, order, helper, Parcel(parts), self._later(then), Label(Extent(cell.worker, wanted)))

    def _copies(self, cell: Cell, helper: int, wanted: Copied) -> list[Part]:
        """A copy of a worker's own state, but for what the helper has: state that is merged twice matches twice."""
        held = self._copied.get((cell.operator.id, cell.worker, helper), Copied())
        if held.covers(wanted):
            return []
        keys = None if wanted.everything else self._key_set(wanted)
        if held != Copied():
            others = AllBut(self._key_set(held))
            keys = others if keys is None else AllBut(Either(AllBut(keys), AllBut(others)))
        return [(cell.worker, batch) for batch in self._export(cell, cell.worker, keys, remove=False)]

    def _end_copying(self, pair: Pair, wanted: Copied, failure: Exception | None) -> None:
        self._copying.discard(pair)
        if failure is None:
            self._copied[pair] = self._copied.get(pair, Copied()) | wanted

    def _export(self, cell: Cell, owner: int, keys: KeySet | None, *, remove: bool) -> Iterator[pa.RecordBatch]:
        return cell.logic(owner).export_state(keys, remove)

    # Keys that move

    def _hold(self, order: Order) -> None:
        cell = self._cell_of(order["operator"], order["worker"])
        keys = self._keys(order)
        port = self._plan.operators[order["operator"]].ports[order["port"]]
        columns = port.keys if port.ordering is None else port.ordering.columns

        def among(batch: pa.RecordBatch, combined: bool) -> Mask:
            # Rows that a sender has combined begin with their keys.
            chosen = range(len(columns)) if combined else columns
            return keys.holds(hash_rows([batch.column(column) for column in chosen]))

        self._queues.hold(cell.index, order["port"], order["transfer"], order["version"], among)
        self._tell("holding", operator=order["operator"], port=order["port"], transfer=order["transfer"])

    def _keys(self, order: Order) -> KeySet:
        return self._key_set(Copied(frozenset(order["keys"]), frozenset(order["buckets"])))

    def _key_set(self, of: Copied) -> KeySet:
        return key_set(of.keys, of.buckets, self._plan.workers, self._plan.buckets_per_worker)

    def _give(self, order: Order) -> None:
        cell = self._cell_of(order["operator"], order["source"])
        giving = _Giving(order, self._queues.last_serial(cell.index), time.monotonic())
        self._giving[_id(order)] = giving
        self._give_if_ready(giving)

    def _give_if_ready(self, giving: _Giving) -> None:
        order = giving.order
        cell = self._cell_of(order["operator"], order["source"])
        if not cell.is_open(order["port"]) or cell.output is not None:  # what was processed is not all out yet
            return
        if not self._queues.passed(cell.index, order["port"], giving.until):
            return
        pair = (cell.operator.id, cell.worker, order["target"])
        if pair in self._copying:
            return
        parts: list[Part] = []
        extent: Extent | None = None
        try:
            if self._is_mutable(order):
                for owner in list(cell.logics):
                    parts.extend(self._removed(cell, owner, self._keys(order)))
            elif self._owns(cell.worker, order):
                extent = Extent(cell.worker, Copied(frozenset(order["keys"]), frozenset(order["buckets"])))
                parts.extend(self._copies(cell, order["target"], extent.copied))
        except Exception as error:
            self._keep(giving, cell, parts, error)
            return
        giving.sending = True
        if extent is not None:
            self._copying.add(pair)
        rows = self._held_parcels(cell, order)
        label = Label(extent, tuple(order["adopts"]))

        def then(failure: Exception | None) -> None:
            if extent is not None:
                self._end_copying(pair, extent.copied, failure)
            self._after_giving(giving, cell, parts, failure)

        def send_next(failure: Exception | None) -> None:
            if failure is not None:
                raise FlowFailed(f"worker {cell.worker}", f"could not return rows to another worker: {failure}")
            if rows:
                self._send_surely(Purpose.HELD, order, order["target"], rows.popleft(), send_next)
                return
            send = self._send_surely if giving.must_arrive else self._send
            send(Purpose.HAND_OVER, order, order["target"], Parcel(parts), self._later(then), label)

        send_next(None)

    def _removed(self, cell: Cell, owner: int, keys: KeySet) -> list[Part]:
        exported = self._export(cell, owner, keys, remove=True)
        try:
            return [(owner, batch) for batch in exported]
        except Exception as error:  # they are neither here nor there
            raise Torn(f"worker {cell.worker}", f"lost keys that it was to hand over: {_reason(error)}") from error

    def _held_parcels(self, cell: Cell, order: Order) -> deque[Parcel]:
        """What was held back here for hand-overs that were cancelled; it goes to where the keys are."""
        parcels: deque[Parcel] = deque()
        for cancelled in order["returns"]:
            version, items = self._queues.take_held(cell.index, order["port"], cancelled)
            loaded = [(item, item.load()) for item in items]
            for (combined, _), run in groupby(loaded, key=lambda one: (one[0].combined, one[1].schema)):
                parts = [(item.owner, batch) for item, batch in run]
                parcels.append(Parcel(parts, version=version, combined=combined))
        return parcels

    def _owns(self, worker: int, order: Order) -> bool:
        """Are the keys of an order this worker's own? One that got them from their owner returns no copy."""
        workers = self._plan.workers
        keys = np.array(order["keys"], dtype=np.uint64)
        return bool((owners(keys, workers) == worker).any()) or any(b % workers == worker for b in order["buckets"])

    def _after_giving(self, giving: _Giving, cell: Cell, parts: list[Part], failure: Exception | None) -> None:
        order = giving.order
        if failure is not None:
            self._keep(giving, cell, parts, failure)
            return
        self._giving.pop(_id(order), None)
        size = sum(batch.nbytes for _, batch in parts)
        self._tell_done(order, order["target"], size, time.monotonic() - giving.asked_at)
        if giving.withdraw:
            self._answer_withdraw(order)

    def _keep(self, giving: _Giving, cell: Cell, parts: list[Part], error: Exception) -> None:
        """The state did not leave: take it back."""
        order = giving.order
        if isinstance(error, PeerLost | Torn):
            raise error  # nobody knows where the state is
        if self._is_mutable(order):
            for owner, batch in parts:
                cell.logic(owner).merge_state([batch])
        if giving.must_arrive:
            giving.tries += 1
            if giving.sending or giving.tries == TRIES:
                raise FlowFailed(f"worker {cell.worker}", f"could not return keys to worker {order['target']}: {error}")
            return
        self._giving.pop(_id(order), None)
        self._tell_failed(order, order["target"], error)
        if giving.withdraw:
            self._answer_withdraw(order)

    def _withdraw(self, order: Order) -> None:
        giving = self._giving.get(_id(order))
        if giving is not None and giving.sending:
            giving.withdraw = True
            return
        self._giving.pop(_id(order), None)
        self._answer_withdraw(order)

    def _answer_withdraw(self, order: Order) -> None:
        """Nothing leaves any more; if it had left before, it is with the target."""
        self._tell("withdrawn", **_names(order))

    # Rows that wait

    def _move_backlog(self, order: Order) -> None:
        cell = self._cell_of(order["operator"], order["source"])
        items = deque(self._queues.take_tail(cell.index, order["port"], order["owner"], order["rows"]))
        piece: list[Item] = []
        moved = 0

        def send_next(failure: Exception | None) -> None:
            nonlocal moved
            if failure is not None:
                self._put_back(cell, order, [*piece, *items], moved, failure)
                return
            moved += sum(item.rows for item in piece)
            piece.clear()
            size = 0
            while items and size < BACKLOG_BYTES and (not piece or items[0].combined == piece[0].combined):
                piece.append(items.popleft())
                size += piece[-1].bytes
            if not piece:
                self._tell("backlog_moved", rows=moved, **_names(order))
                return
            parts = [(item.owner, self._queues.load(item)) for item in piece]
            parcel = Parcel(parts, combined=piece[0].combined)
            self._send(Purpose.BACKLOG, order, order["target"], parcel, self._later(send_next))

        send_next(None)

    def _put_back(self, cell: Cell, order: Order, items: list[Item], moved: int, failure: Exception) -> None:
        if isinstance(failure, PeerLost):
            raise failure  # nobody knows where the rows are
        for item in items:
            batch = self._queues.load(item)
            self._queues.put(cell.index, order["port"], item.owner, batch, combined=item.combined, may_wait=False)
        if moved:
            self._tell("backlog_moved", rows=moved, **_names(order))
        else:
            self._tell("backlog_failed", target=order["target"], reason=_reason(failure), **_names(order))

    # The end of an input

    def _gather_scattered(self, order: Order) -> None:
        """Give every owner what workers here have of its partition (§5.4); say so when all of it has arrived."""
        self.intake.drain(order["operator"], order["port"])
        outstanding = 1

        def one_done(failure: Exception | None) -> None:
            nonlocal outstanding
            if failure is not None:
                raise FlowFailed(f"host {self._host}", f"a scattered part did not reach its owner: {failure}")
            outstanding -= 1
            if outstanding == 0:
                self._tell("scattered_sent", operator=order["operator"], port=order["port"], host=self._host)

        for worker in self._plan.workers_of(self._host):
            cell = self._cell_of(order["operator"], worker)
            for owner in [owner for owner in cell.logics if owner != cell.worker]:
                logic = cell.logics.pop(owner)
                parts = [(owner, batch) for batch in logic.export_scattered()]
                if parts:
                    outstanding += 1
                    self._send_surely(Purpose.SCATTERED, {**order, "transfer": 0}, owner, Parcel(parts), one_done)
            cell.copies.clear()
        one_done(None)

    # Bits

    def _send(
        self,
        purpose: Purpose,
        order: Order,
        worker: int,
        parcel: Parcel,
        then: Then,
        label: Label = NO_LABEL,
    ) -> None:
        """Parts to a worker, be it here or on another host. ``then`` may be called by any thread."""
        name = replace(
            self._stream,
            operator=order["operator"],
            port=order["port"],
            purpose=purpose,
            transfer=order["transfer"],
            worker=worker,
        )
        host = self._host_of[worker]
        if host != self._host:
            self._peers.send(host, name, replace(parcel, metadata=label.pack()), then)
            return
        self.intake.arrive(
            Arrival(name, label, list(parcel.parts), version=parcel.version, combined=parcel.combined, then=then)
        )
        self._soon(lambda: None)

    def _send_surely(
        self,
        purpose: Purpose,
        order: Order,
        worker: int,
        parcel: Parcel,
        then: Then,
        label: Label = NO_LABEL,
    ) -> None:
        """Send what has no other place to be; several times if need be. ``then`` is called in the working thread."""
        tries = 0

        def done(failure: Exception | None) -> None:
            nonlocal tries
            tries += 1
            if failure is None or isinstance(failure, PeerLost) or tries == TRIES:
                then(failure)
            else:
                self._send(purpose, order, worker, parcel, self._later(done), label)

        self._send(purpose, order, worker, parcel, self._later(done), label)

    def _later(self, then: Then) -> Then:
        """The same, called in the working thread."""
        return lambda failure: self._soon(lambda: then(failure))

    def _tell_done(self, order: Order, helper: int, size: int, seconds: float) -> None:
        self._tell("state_done", helper=helper, bytes=size, seconds=seconds, **_names(order))

    def _tell_failed(self, order: Order, helper: int, error: Exception) -> None:
        self._tell("state_failed", helper=helper, reason=_reason(error), **_names(order))

    def _is_mutable(self, order: Order) -> bool:
        return bool(self._plan.operators[order["operator"]].ports[order["port"]].mutable)


def _id(order: Order) -> TransferId:
    return order["operator"], order["port"], order["transfer"]


def _names(order: Order) -> dict[str, int]:
    return {"operator": order["operator"], "port": order["port"], "transfer": order["transfer"]}


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
