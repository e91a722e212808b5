"""Rows that wait in a worker's queue move to another worker, in pieces that arrive whole or not at all."""

from __future__ import annotations

from collections import deque

from reshape.exchange.errors import PeerLost
from reshape.exchange.queues import HostQueues
from reshape.exchange.wire import Purpose
from reshape.exchange.worker_queue import Item
from reshape.host.moves.carrier import Carrier, reason
from reshape.host.moves.peers import Parcel
from reshape.host.worker import Worker, Workers
from reshape.protocol.orders import SendBacklog
from reshape.protocol.reports import BacklogSent, BacklogStayed

PIECE_BYTES = 16 * 1024 * 1024


class BacklogMoves:
    """Used by the working thread."""

    def __init__(self, workers: Workers, queues: HostQueues, carrier: Carrier) -> None:
        self._workers = workers
        self._queues = queues
        self._carrier = carrier

    def send(self, order: SendBacklog) -> None:
        worker = self._workers.get(order.operator, order.source)
        items = deque(self._queues.take_tail(worker.index, order.port, order.owner, order.rows))
        piece: list[Item] = []
        moved = 0

        def send_next(failure: Exception | None) -> None:
            nonlocal moved
            if failure is not None:
                self._put_back(worker, order, [*piece, *items], moved, failure)
                return
            moved += sum(item.rows for item in piece)
            piece.clear()
            size = 0
            while items and size < PIECE_BYTES and (not piece or items[0].combined == piece[0].combined):
                piece.append(items.popleft())
                size += piece[-1].bytes
            if not piece:
                self._carrier.report(BacklogSent(order.operator, order.port, order.transfer, moved))
                return
            parts = [(item.owner, self._queues.load(item)) for item in piece]
            parcel = Parcel(parts, combined=piece[0].combined)
            self._carrier.send(Purpose.BACKLOG, order, order.target, parcel, send_next)

        send_next(None)

    def _put_back(self, worker: Worker, order: SendBacklog, items: list[Item], moved: int, failure: Exception) -> None:
        if isinstance(failure, PeerLost):
            raise failure  # nobody knows where the rows are
        for item in items:
            batch = self._queues.load(item)
            self._queues.put(worker.index, order.port, item.owner, batch, combined=item.combined, may_wait=False)
        transfer = (order.operator, order.port, order.transfer)
        if moved:
            self._carrier.report(BacklogSent(*transfer, moved))
        else:
            self._carrier.report(BacklogStayed(*transfer, order.target, reason(failure)))
