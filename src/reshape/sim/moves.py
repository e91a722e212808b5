"""The hands of the brain: carries out commands on routers and workers, with the time that they take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

from reshape.control.commands import (
    CancelTransfer,
    Command,
    HandOverState,
    MoveBacklog,
    ReplicateState,
    SetRouting,
)
from reshape.control.events import BacklogMoved, RoutingApplied, StateTransferred, TransferFailed
from reshape.control.routing import RoutingTable
from reshape.sim.agenda import Agenda
from reshape.sim.brain_link import BrainLink, MakeEvent
from reshape.sim.keyed_state import KeyedState
from reshape.sim.router import SimulatedRouter
from reshape.sim.scattered import ScatteredParts
from reshape.sim.scenario import Failures, Network
from reshape.sim.worker import Chunk, Worker


class Luck:
    """Decides what fails, the same way for the same seed."""

    def __init__(self, failures: Failures | None, seed: int) -> None:
        self._failures = failures or Failures()
        self._random = Random(seed)
        self._transfers = 0

    def transfer_fails(self) -> bool:
        self._transfers += 1
        return self._transfers <= self._failures.first_transfers or self._random.random() < self._failures.transfers

    def ack_is_lost(self) -> bool:
        return self._failures.acks > 0 and self._random.random() < self._failures.acks


class SimulatedMoves:
    """Commands of one operator. What it did is counted in its public fields."""

    def __init__(
        self,
        state: KeyedState,
        workers: Sequence[Worker],
        router: SimulatedRouter,
        agenda: Agenda,
        network: Network,
        luck: Luck,
        link: BrainLink,
        scattered: ScatteredParts,
    ) -> None:
        self._state = state
        self._workers = workers
        self._router = router
        self._agenda = agenda
        self._network = network
        self._luck = luck
        self._link = link
        self._scattered = scattered
        self._awaiting: list[HandOverState] = []  # until the routers use their version
        self._holding: dict[int, HandOverState] = {}
        self._cancelled: set[int] = set()
        self.state_transfers = 0
        self.state_bytes = 0
        self.backlog_rows = 0

    def execute(self, command: Command) -> None:
        """Start to carry out one command that has arrived."""
        match command:
            case SetRouting():
                self._agenda.after(self._network.routing_delay_s, partial(self._route_by, command.table))
            case ReplicateState():
                self._replicate(command)
            case HandOverState():
                self._workers[command.target].hold(command.transfer, self._state.moved_by(command))
                self._holding[command.transfer] = command
                self._awaiting.append(command)
            case MoveBacklog():
                self._move_backlog(command)
            case CancelTransfer():
                self._cancelled.add(command.transfer)
                self._return_held(command.transfer)

    def _ack(self, make: MakeEvent) -> None:
        if not self._luck.ack_is_lost():
            self._link.tell(make)

    def _route_by(self, table: RoutingTable) -> None:
        self._router.use(table)
        self._ack(lambda event, time: RoutingApplied(event, time, table.version))
        started = [command for command in self._awaiting if command.version <= table.version]
        for command in started:
            self._awaiting.remove(command)
            # Rows sent under the old table are ahead of the marker on the same link.
            self._agenda.after(self._network.link_latency_s, partial(self._pass_marker, command))

    def _replicate(self, command: ReplicateState) -> None:
        size = self._state.size(command.skewed, command.keys)
        seconds = self._network.link_latency_s + size / self._network.serialise_bytes_per_s
        for helper in command.helpers:
            seconds += size / self._network.link_bytes_per_s
            self._agenda.after(seconds, partial(self._transferred, command.transfer, helper, size, seconds))

    def _transferred(self, transfer: int, helper: int, size: int, seconds: float) -> None:
        if transfer in self._cancelled:
            return
        if self._luck.transfer_fails():
            self._fail(transfer, helper)
        else:
            self._succeed(transfer, helper, size, seconds)

    def _succeed(self, transfer: int, helper: int, size: int, seconds: float) -> None:
        self.state_transfers += 1
        self.state_bytes += size
        self._ack(lambda event, time: StateTransferred(event, time, transfer, helper, size, seconds))

    def _fail(self, transfer: int, helper: int) -> None:
        self._return_held(transfer)
        self._ack(lambda event, time: TransferFailed(event, time, transfer, helper, "failed by the scenario"))

    def _pass_marker(self, command: HandOverState) -> None:
        """The source hands the state over when it has processed all rows that were sent before the marker."""
        source = self._workers[command.source]
        source.advance(self._agenda.now)
        queued = source.queued
        waits = source.finish_time(queued) - self._agenda.now if queued else 0.0
        size = self._state.size(command.source, frozenset(self._state.moved_by(command)))
        network = self._network
        travel = network.link_latency_s + size / network.serialise_bytes_per_s + size / network.link_bytes_per_s
        self._agenda.after(waits + travel, partial(self._handed_over, command, size, travel))

    def _handed_over(self, command: HandOverState, size: int, seconds: float) -> None:
        if command.transfer not in self._holding:
            return
        if self._luck.transfer_fails():
            self._fail(command.transfer, command.target)
            return
        del self._holding[command.transfer]
        self._scattered.hand_over(self._state.moved_by(command))
        target = self._workers[command.target]
        for chunk in target.release(command.transfer):
            target.arrive(self._agenda.now, chunk)
        self._succeed(command.transfer, command.target, size, seconds)

    def _return_held(self, transfer: int) -> None:
        """A hand-over that does not happen: the rows that waited for it go back to where the state is."""
        command = self._holding.pop(transfer, None)
        if command is None:
            return
        if command in self._awaiting:
            self._awaiting.remove(command)
        self._travel(self._workers[command.target].release(transfer), command.target, command.source)

    def _move_backlog(self, command: MoveBacklog) -> None:
        if self._luck.transfer_fails():
            self._fail(command.transfer, command.target)
            return
        count = len(self._workers)
        source = self._workers[command.source]
        taken = source.take_tail(self._agenda.now, command.rows, lambda key: key % count == command.owner)
        rows = self._travel(taken, command.source, command.target)
        self.backlog_rows += rows
        self._ack(lambda event, time: BacklogMoved(event, time, command.transfer, rows))

    def _travel(self, chunks: list[Chunk], source: int, target: int) -> int:
        """Send queued rows to another worker; they count as its workload at once."""
        rows = sum(chunk.rows for chunk in chunks)
        self._router.received[source] -= rows
        self._router.received[target] += rows
        network = self._network
        seconds = network.link_latency_s + rows * network.row_bytes / network.link_bytes_per_s
        self._agenda.after(seconds, partial(self._arrive, target, chunks))
        return rows

    def _arrive(self, target: int, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self._workers[target].arrive(self._agenda.now, chunk)
