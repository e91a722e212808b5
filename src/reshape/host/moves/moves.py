"""The hands of the brain on one host: state and waiting rows of its workers move as ordered.

Everything here runs in the host's working thread, between two batches, so it sees each worker's state whole. Sending is
left to :class:`Peers`; what arrives is taken in by :class:`Intake`.
"""

from __future__ import annotations

from collections.abc import Callable

from reshape.exchange.queues import HostQueues
from reshape.exchange.wire import StreamName
from reshape.host.inbox import Inbox
from reshape.host.moves.backlog import BacklogMoves
from reshape.host.moves.carrier import Carrier
from reshape.host.moves.copies import Copies
from reshape.host.moves.hand_overs import KeyMoves
from reshape.host.moves.intake import Intake
from reshape.host.moves.peers import Peers
from reshape.host.moves.scattered import ScatteredParts
from reshape.host.worker import Workers
from reshape.plan.physical import PhysicalPlan
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
        carrier = Carrier(host, plan.host_of_workers(), stream, peers, self.intake, inbox, report)
        self.copies = Copies(plan, workers, self.intake, carrier)
        self.hand_overs = KeyMoves(plan, workers, queues, self.copies, carrier)
        self.backlog = BacklogMoves(workers, queues, carrier)
        self.scattered = ScatteredParts(workers, self.intake, carrier)

    def step(self) -> None:
        """Do what has become possible since the last batch."""
        self.copies.step()
        self.hand_overs.step()
        self.intake.step()
