"""At the end of an input, every owner gets what other workers have of its partition (§5.4)."""

from __future__ import annotations

from reshape.errors import FlowFailed
from reshape.exchange.errors import PeerLost
from reshape.exchange.wire import Purpose
from reshape.host.moves.carrier import Carrier
from reshape.host.moves.intake import Intake
from reshape.host.moves.peers import Parcel
from reshape.host.worker import Workers
from reshape.protocol.orders import GatherScattered
from reshape.protocol.reports import ScatteredSent


class ScatteredParts:
    """Used by the working thread."""

    def __init__(self, workers: Workers, intake: Intake, carrier: Carrier) -> None:
        self._workers = workers
        self._intake = intake
        self._carrier = carrier

    def gather(self, order: GatherScattered) -> None:
        """Give every owner its parts; say so when all of them have arrived."""
        host = self._carrier.host
        self._intake.drain(order.operator, order.port)
        outstanding = 1

        def part_done(failure: Exception | None) -> None:
            nonlocal outstanding
            if isinstance(failure, PeerLost):
                raise failure  # the cluster's fault: the flow may be tried again
            if failure is not None:
                raise FlowFailed(f"host {host}", f"a scattered part did not reach its owner: {failure}")
            outstanding -= 1
            if outstanding == 0:
                self._carrier.report(ScatteredSent(order.operator, order.port, host))

        for worker in self._workers.of(order.operator):
            for owner in [owner for owner in worker.logics if owner != worker.number]:
                logic = worker.logics.pop(owner)
                parts = [(owner, batch) for batch in logic.export_scattered()]
                if parts:
                    outstanding += 1
                    self._carrier.send_surely(Purpose.SCATTERED, order, owner, Parcel(parts), part_done)
            worker.copies.clear()
        part_done(None)
