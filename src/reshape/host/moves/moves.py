"""The hands of the brain on one host: state and waiting rows of its workers move as ordered.

Everything here runs in the host's working thread, between two batches, so it sees each worker's state whole. Sending is
left to :class:`Peers`; what arrives is taken in by :class:`Intake`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from reshape.exchange.queues import HostQueues
from reshape.exchange.wire import StreamName
from reshape.host.inbox import Inbox
from reshape.host.moves.backlog import BacklogMoves
from reshape.host.moves.carrier import Carrier
from reshape.host.moves.copies import Copies
from reshape.host.moves.hand_overs import KeyMoves
from reshape.host.moves.intake import Intake
from reshape.host.moves.neighbours import Neighbours
from reshape.host.moves.peers import Peers
from reshape.host.moves.scattered import ScatteredParts
from reshape.host.worker import Worker, Workers
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.orders import (
    Forget,
    GatherScattered,
    Give,
    GoOn,
    Hold,
    MeetRanges,
    MoveOrder,
    Replicate,
    SendBacklog,
    UseBounds,
    Withdraw,
)
from reshape.protocol.reports import Report


class HostMoves:
    """All that moves to and from the workers of one host; each kind of order has its own part."""

    def __init__(
        self,
        plan: PhysicalPlan,
        host: int,
        workers: Workers,
        queues: HostQueues,
        inbox: Inbox,
        peers: Peers,
        stream: StreamName,
        report: Callable[[Report], None],
    ) -> None:
        self.intake = Intake(queues, workers)
        self._peers = peers
        carrier = Carrier(host, plan.host_of_workers(), stream, peers, self.intake, inbox, report)
        self._copies = Copies(plan, workers, self.intake, carrier)
        self._hand_overs = KeyMoves(plan, workers, queues, self._copies, carrier)
        self._backlog = BacklogMoves(workers, queues, carrier)
        self._scattered = ScatteredParts(workers, self.intake, carrier)
        self._neighbours = Neighbours(plan, carrier.report)

    def obey(self, order: MoveOrder) -> None:
        match order:
            case Replicate():
                self._copies.replicate(order)
            case Hold():
                self._hand_overs.hold(order)
            case Give():
                self._hand_overs.give(order)
            case Withdraw():
                self._hand_overs.withdraw(order)
            case Forget():
                self.intake.forget((order.operator, order.port, order.transfer))
            case SendBacklog():
                self._backlog.send(order)
            case GatherScattered():
                self._scattered.gather(order)
            case MeetRanges():
                self._neighbours.meet(order)
            case GoOn():
                self._neighbours.go_on(order)
            case _:
                assert_never(order)

    def set_bounds(self, order: UseBounds) -> None:
        """The bounds of an input tell which partitions workers share."""
        self._neighbours.set_bounds(order)

    def may_finish(self, worker: Worker) -> bool:
        """Does a worker whose input has ended know all that it needs of other workers?"""
        return self._neighbours.may_finish(worker)

    def close(self) -> None:
        """Wait for what is under way to other hosts; its streams have been cut."""
        self._peers.close()

    def step(self) -> None:
        """Do what has become possible since the last batch."""
        self._copies.step()
        self._hand_overs.step()
        self.intake.step()
