"""The hands of the brain on one host: state and waiting rows of its workers move as ordered.

Everything here runs in the host's working thread, between two batches, so it sees each worker's state whole. Sending is
left to :class:`Peers`; what arrives is handed in by the receiving threads and waits for its turn.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Protocol

import numpy as np
import pyarrow as pa

from reshape.exchange.hashing import Mask, hash_rows, owners
from reshape.exchange.queues import HostQueues, Item
from reshape.exchange.wire import Purpose, StreamName
from reshape.operators.base import AllBut, Either, HashedKeys, KeySet
from reshape.plan.physical import PhysicalPlan
from reshape.runtime.cells import Cell
from reshape.runtime.errors import FlowFailed
from reshape.runtime.link import Order
from reshape.runtime.peers import Part, Peers
from reshape.runtime.tables import key_set

# A receiving thread waits so long for the working thread to take state in. It is busy for milliseconds at a time, but a
# user's function may be slow.
TAKE_IN_S = 120.0
# Waiting rows travel in pieces of this size, each of which arrives whole or not at all.
BACKLOG_BYTES = 16 * 1024 * 1024
_EXTENT = b"reshape.extent"  # in the metadata of a stream's schema

Tell = Callable[..., None]
Then = Callable[[Exception | None], None]


class CellOf(Protocol):
    def __call__(self, operator: int, worker: int) -> Cell: ...


@dataclass(frozen=True, slots=True)
class Extent:
    """What copied state stands for: the keys of an owner (None: all), but for those that were there already."""

    owner: int
    keys: frozenset[int] | None
    without: frozenset[int]

    def pack(self) -> dict[bytes, bytes]:
        keys = None if self.keys is None else sorted(self.keys)
        facts = {"owner": self.owner, "keys": keys, "without": sorted(self.without)}
        return {_EXTENT: json.dumps(facts).encode()}

    @classmethod
    def unpack(cls, metadata: dict[bytes, bytes] | None) -> Extent | None:
        if not metadata or _EXTENT not in metadata:
            return None
        facts = json.loads(metadata[_EXTENT])
        keys = facts["keys"]
        return cls(int(facts["owner"]), None if keys is None else frozenset(keys), frozenset(facts["without"]))


@dataclass(slots=True)
class Arrival:
    """State, or rows, that have come for a worker."""

    name: StreamName
    extent: Extent | None = None
    parts: list[Part] = field(default_factory=list)
    taken: threading.Event = field(default_factory=threading.Event)
    failure: Exception | None = None
    then: Then | None = None

    def await_taken(self) -> None:
        """Return when the working thread has taken it in; raises what kept it from that."""
        if not self.taken.wait(TAKE_IN_S):
            self.failure = FlowFailed(f"worker {self.name.worker}", f"took nothing in within {TAKE_IN_S:.0f} s")
        if self.failure is not None:
            raise self.failure

    def settle(self, failure: Exception | None) -> None:
        self.failure = failure
        self.taken.set()
        if self.then is not None:
            self.then(failure)


@dataclass(slots=True)
class _Giving:
    """State that leaves when the rows that were queued before it was asked for have been processed."""

    order: Order
    until: int
    asked_at: float
    sending: bool = False
    withdraw: bool = False  # the brain wants it back; answered when it is known where the state is


class HostTransfers:
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
        self._arrivals: list[Arrival] = []
        self._giving: dict[tuple[int, int, int], _Giving] = {}
        self._given: set[tuple[int, int, int]] = set()
        self._forgotten: set[tuple[int, int, int]] = set()
        self._returned: dict[tuple[int, int, int], list[Part]] = {}
        self._postponed: list[Order] = []
        self._handlers: dict[str, Callable[[Order], None]] = {
            "replicate": self._replicate,
            "hold": self._hold,
            "give": self._give,
            "withdraw": self._withdraw,
            "withdrawn": self._withdrawn,
            "forget": self._forget,
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

    def arrive(self, arrival: Arrival) -> None:
        """Called in the working thread."""
        self._arrivals.append(arrival)

    def step(self) -> None:
        """Do what has become possible since the last batch."""
        if self._postponed:
            orders, self._postponed = self._postponed, []
            for order in orders:
                self._handlers[order["kind"]](order)
        for giving in [g for g in self._giving.values() if not g.sending]:
            self._give_if_ready(giving)
        if self._arrivals:
            arrivals, self._arrivals = self._arrivals, []
            for arrival in arrivals:
                self._take_in(arrival)

    @property
    def busy(self) -> bool:
        """Is there something that a step may advance?"""
        return bool(self._postponed or self._arrivals or any(not g.sending for g in self._giving.values()))

    def fail(self, error: Exception) -> None:
        """Let receiving threads go."""
        for arrival in self._arrivals:
            arrival.settle(error)

    # Immutable state

    def _replicate(self, order: Order) -> None:
        cell = self._cell_of(order["operator"], order["skewed"])
        if not self._is_open(cell, order["port"]):
            self._postponed.append(order)
            return
        if self._id(order) in self._forgotten:
            return
        started = time.monotonic()
        helper = order["helper"]
        keys = None if order["keys"] is None else frozenset(order["keys"])
        without = order["without"]
        try:
            chosen = None if keys is None else HashedKeys(keys)
            parts = self._copied(cell, chosen, without)
        except Exception as error:
            self._tell_failed(order, helper, error)
            return
        size = sum(batch.nbytes for _, batch in parts)

        def then(failure: Exception | None) -> None:
            if failure is None:
                self._tell_done(order, helper, size, time.monotonic() - started)
            else:
                self._tell_failed(order, helper, failure)

        self._send(Purpose.REPLICA, order, helper, parts, then, Extent(cell.worker, keys, frozenset(without or ())))

    def _copied(self, cell: Cell, keys: KeySet | None, without: list[int] | None) -> list[Part]:
        """A copy of a worker's own state; ``without`` is what the receiver has of it, None for all."""
        if without is None:
            return []
        return [(cell.worker, batch) for batch in self._export(cell, cell.worker, keys, without, False)]

    def _export(
        self, cell: Cell, owner: int, keys: KeySet | None, without: list[int], remove: bool
    ) -> Iterator[pa.RecordBatch]:
        if without:
            others = AllBut(HashedKeys(frozenset(without)))
            keys = others if keys is None else AllBut(Either(AllBut(keys), AllBut(others)))
        return cell.logic(owner).export_state(keys, remove)

    def _forget(self, order: Order) -> None:
        self._forgotten.add(self._id(order))

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
        return key_set(order["keys"], order["buckets"], self._plan.workers, self._plan.buckets_per_worker)

    def _give(self, order: Order) -> None:
        cell = self._cell_of(order["operator"], order["source"])
        giving = _Giving(order, self._queues.last_serial(cell.index), time.monotonic())
        self._giving[self._id(order)] = giving
        self._give_if_ready(giving)

    def _give_if_ready(self, giving: _Giving) -> None:
        order = giving.order
        cell = self._cell_of(order["operator"], order["source"])
        if not self._is_open(cell, order["port"]):
            return
        if not self._queues.passed(cell.index, order["port"], giving.until):
            return
        giving.sending = True
        target, keys, mutable = order["target"], self._keys(order), self._is_mutable(order)
        parts: list[Part] = []
        extent: Extent | None = None
        try:
            if mutable:
                for owner in list(cell.logics):
                    parts += [(owner, batch) for batch in self._export(cell, owner, keys, [], True)]
            elif self._owns(cell.worker, order):
                parts = self._copied(cell, keys, order["without"])
                extent = Extent(cell.worker, frozenset(order["keys"]), frozenset(order["without"] or ()))
        except Exception as error:
            self._keep(giving, cell, parts, error)
            return
        held = [item for earlier in order["after"] for item in self._queues.take_held(cell.index, earlier)]
        rows = [(item.owner, item.load()) for item in held]
        runs = [list(run) for _, run in groupby(rows, key=lambda part: part[1].schema)]

        def then(failure: Exception | None) -> None:
            self._soon(lambda: self._after_giving(giving, cell, parts, rows, failure))

        def send_next(failure: Exception | None) -> None:
            if failure is not None:
                then(failure)
            elif runs:
                self._send(Purpose.HELD, order, target, runs.pop(0), send_next)
            else:
                self._send(Purpose.HAND_OVER, order, target, parts, then, extent)

        send_next(None)

    def _owns(self, worker: int, order: Order) -> bool:
        """Are the keys of an order this worker's own? One that got them from their owner returns no copy."""
        workers = self._plan.workers
        keys = np.array(order["keys"], dtype=np.uint64)
        return bool((owners(keys, workers) == worker).any()) or any(b % workers == worker for b in order["buckets"])

    def _after_giving(
        self, giving: _Giving, cell: Cell, parts: list[Part], rows: list[Part], failure: Exception | None
    ) -> None:
        order = giving.order
        if failure is not None:
            if rows:  # what was held back for others has no other place to be
                raise FlowFailed(
                    f"worker {cell.worker}", f"could not return rows to worker {order['target']}: {failure}"
                )
            self._keep(giving, cell, parts, failure)
            return
        self._giving.pop(self._id(order), None)
        self._given.add(self._id(order))
        size = sum(batch.nbytes for _, batch in parts)
        self._tell_done(order, order["target"], size, time.monotonic() - giving.asked_at)
        if giving.withdraw:
            self._answer_withdraw(order, given=True)

    def _keep(self, giving: _Giving, cell: Cell, parts: list[Part], error: Exception) -> None:
        """The state did not leave: take it back."""
        order = giving.order
        if self._is_mutable(order):
            for owner, batch in parts:
                cell.logic(owner).merge_state([batch])
        self._giving.pop(self._id(order), None)
        self._tell_failed(order, order["target"], error)
        if giving.withdraw:
            self._answer_withdraw(order, given=False)

    def _withdraw(self, order: Order) -> None:
        key = self._id(order)
        giving = self._giving.get(key)
        if giving is not None and giving.sending:
            giving.withdraw = True
            return
        self._giving.pop(key, None)
        self._answer_withdraw(order, given=key in self._given)

    def _answer_withdraw(self, order: Order, *, given: bool) -> None:
        facts = {"operator": order["operator"], "port": order["port"], "transfer": order["transfer"]}
        self._tell("withdrawn", given=given, **facts)

    def _withdrawn(self, order: Order) -> None:
        """No state will come for this hold; its rows leave with the next hand-over."""

    # Rows that wait

    def _move_backlog(self, order: Order) -> None:
        cell = self._cell_of(order["operator"], order["source"])
        facts = {"operator": order["operator"], "port": order["port"], "transfer": order["transfer"]}
        items = deque(self._queues.take_tail(cell.index, order["port"], order["owner"], order["rows"]))
        moved = [0]

        def send_next(failure: Exception | None) -> None:
            if failure is not None:
                self._soon(lambda: self._put_back(cell, order, [*piece, *items], moved[0], failure))
                return
            moved[0] += sum(item.rows for item in piece)
            piece.clear()
            size = 0
            while items and size < BACKLOG_BYTES and (not piece or items[0].combined == piece[0].combined):
                piece.append(items.popleft())
                size += piece[-1].bytes
            if not piece:
                self._tell("backlog_moved", rows=moved[0], **facts)
                return
            self._send(Purpose.BACKLOG, order, order["target"], [(i.owner, i.load()) for i in piece], send_next)

        piece: list[Item] = []
        send_next(None)

    def _put_back(self, cell: Cell, order: Order, items: list[Item], moved: int, failure: Exception) -> None:
        for item in items:
            self._queues.put(cell.index, order["port"], item.owner, item.load(), combined=item.combined, may_wait=False)
        facts = {"operator": order["operator"], "port": order["port"], "transfer": order["transfer"]}
        if moved:
            self._tell("backlog_moved", rows=moved, **facts)
        else:
            self._tell("backlog_failed", target=order["target"], reason=_reason(failure), **facts)

    # The end of an input

    def _gather_scattered(self, order: Order) -> None:
        """Give every owner what workers here have of its partition (§5.4); say so when all of it has arrived."""
        outstanding = [1]
        failures: list[Exception] = []

        def one_done(failure: Exception | None) -> None:
            if failure is not None:
                failures.append(failure)
            self._soon(count_down)

        def count_down() -> None:
            if failures:
                raise FlowFailed(f"host {self._host}", f"a scattered part did not reach its owner: {failures[0]}")
            outstanding[0] -= 1
            if outstanding[0] == 0:
                self._tell("scattered_sent", operator=order["operator"], port=order["port"], host=self._host)

        for worker in self._plan.workers_of(self._host):
            cell = self._cell_of(order["operator"], worker)
            for owner in [owner for owner in cell.logics if owner != cell.worker]:
                logic = cell.logics.pop(owner)
                parts = [(owner, batch) for batch in logic.export_scattered()]
                if parts:
                    outstanding[0] += 1
                    self._send(Purpose.SCATTERED, {**order, "transfer": 0}, owner, parts, one_done)
            cell.copies.clear()
        count_down()

    # What arrives

    def _take_in(self, arrival: Arrival) -> None:
        name = arrival.name
        cell = self._cell_of(name.operator, name.worker)
        if name.purpose != Purpose.SCATTERED and not self._is_open(cell, name.port):
            self._arrivals.append(arrival)
            return
        try:
            match name.purpose:
                case Purpose.REPLICA:
                    if self._id(name) in self._forgotten:
                        raise FlowFailed(f"worker {cell.worker}", "the transfer was given up")
                    self._take_copy(cell, arrival)
                case Purpose.HAND_OVER:
                    self._take_keys(cell, arrival)
                case Purpose.HELD:
                    self._returned.setdefault(self._id(name), []).extend(arrival.parts)
                case Purpose.BACKLOG:
                    for owner, batch in arrival.parts:
                        self._queues.put(cell.index, name.port, owner, batch, may_wait=False)
                case Purpose.SCATTERED:
                    for _, batch in arrival.parts:
                        cell.own.merge_state([batch])
        except Exception as error:
            arrival.settle(error)
        else:
            arrival.settle(None)

    def _take_copy(self, cell: Cell, arrival: Arrival) -> None:
        """Take copied state in, unless it is here: rows would match twice."""
        extent = arrival.extent
        assert extent is not None
        held = cell.copies.get(extent.owner, frozenset())
        if held is None or (extent.keys is not None and extent.keys <= held):
            return
        if not held <= extent.without:
            raise FlowFailed(f"worker {cell.worker}", "it has some of this state already")
        logic = cell.logic(extent.owner)
        for _, batch in arrival.parts:
            logic.merge_state([batch])
        cell.copies[extent.owner] = None if extent.keys is None else held | extent.keys

    def _take_keys(self, cell: Cell, arrival: Arrival) -> None:
        """The keys are this worker's now: rows that came back with them go first, then those that waited here."""
        if arrival.extent is not None:
            self._take_copy(cell, arrival)
        else:
            for owner, batch in arrival.parts:
                cell.logic(owner).merge_state([batch])
        for owner, batch in self._returned.pop(self._id(arrival.name), []):
            self._queues.put(cell.index, arrival.name.port, owner, batch, may_wait=False)
        self._queues.release(cell.index, arrival.name.transfer)

    # Bits

    def _send(
        self,
        purpose: Purpose,
        order: Order,
        worker: int,
        parts: list[Part],
        then: Then,
        extent: Extent | None = None,
    ) -> None:
        """Parts to a worker, be it here or on another host."""
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
            self._peers.send(host, name, parts, then, extent.pack() if extent is not None else None)
            return
        arrival = Arrival(name, extent, parts, then=then)
        self._soon(lambda: self._arrivals.append(arrival))

    def _tell_done(self, order: Order, helper: int, size: int, seconds: float) -> None:
        facts = {"operator": order["operator"], "port": order["port"], "transfer": order["transfer"]}
        self._tell("state_done", helper=helper, bytes=size, seconds=seconds, **facts)

    def _tell_failed(self, order: Order, helper: int, error: Exception) -> None:
        facts = {"operator": order["operator"], "port": order["port"], "transfer": order["transfer"]}
        self._tell("state_failed", helper=helper, reason=_reason(error), **facts)

    def _is_open(self, cell: Cell, port: int) -> bool:
        """Has the worker heard of the end of the input before this one?"""
        after = cell.operator.ports[port].after
        return after is None or cell.ended[after]

    def _is_mutable(self, order: Order) -> bool:
        return bool(self._plan.operators[order["operator"]].ports[order["port"]].mutable)

    @staticmethod
    def _id(of: Order | StreamName) -> tuple[int, int, int]:
        if isinstance(of, StreamName):
            return of.operator, of.port, of.transfer
        return of["operator"], of["port"], of["transfer"]


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
