"""Holds a flow still at a place until somebody lets it go on: what a test needs to happen then happens for certain.

Nothing here makes the flow do what it would not do on a machine that is slow at the right places: sources that have no
batch yet, workers that take no row yet, hand-overs whose turn comes later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import pyarrow as pa

from reshape.driver.hand_overs import HandOvers
from reshape.driver.port_control import PortControl
from reshape.exchange.queues import HostQueues
from reshape.exchange.worker_queue import Item
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.link import FlowAddress
from reshape.protocol.reports import Answer, PortReport, StateArrived
from reshape.testing import ThreadCluster
from reshape.testing.cutting import Partitions

# Only a script that is stuck takes as long as this; less than a flow may take, for the gate knows what it waits for.
LIMIT_S = 60.0
# Batches of each partition that come before anybody asks for more.
FIRST_BATCHES = 2


class Gate:
    """Lets the sources of one input send so many batches each; their last one only when the gate is open."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batches = FIRST_BATCHES
        self._open = False
        self.waits_for = "the first event"

    def more(self) -> None:
        """One more batch of each partition, up to its last one."""
        with self._changed:
            self._batches += 1
            self._changed.notify_all()

    def open(self) -> None:
        with self._changed:
            self._open = True
            self._changed.notify_all()

    @property
    def is_open(self) -> bool:
        return self._open

    def pass_through(self, batch: int, is_last: bool, is_over: Callable[[], bool]) -> None:
        """Wait until this batch may be sent, or nobody wants it any more."""
        with self._changed:
            allowed = self._changed.wait_for(
                lambda: self._open or is_over() or (batch < self._batches and not is_last), LIMIT_S
            )
        assert allowed, f"after {LIMIT_S:.0f} s the script still waits for {self.waits_for}"

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class Valves:
    """One gate for each input that sources feed, by the name of its profile; workers and hand-overs of all of them."""

    def __init__(self) -> None:
        self.gates: dict[str, Gate] = {}
        self._stalled = False
        self._held = False
        self._waiting: list[HandOvers] = []
        self._muted = False
        self._unheard: list[Callable[[], Answer | None]] = []
        self._waiting_rows: dict[tuple[int, int, int], int] = {}

    @property
    def most_waiting(self) -> int:
        """Rows in the longest queue of a worker that takes none: not those that are still on their way to it."""
        return max(self._waiting_rows.values(), default=0)

    def stall(self) -> None:
        """Workers take no rows from now on."""
        self._stalled = True

    def go_on(self) -> None:
        self._stalled = False

    def hold(self) -> None:
        """No worker is told to give its keys from now on."""
        self._held = True

    def release(self) -> None:
        """What was held back comes with the next tick: a brain that calls this is in the middle of a step."""
        self._held = False

    def mute(self) -> None:
        """Nobody hears from now on that state has arrived."""
        self._muted = True

    @property
    def unheard(self) -> int:
        """Answers that nobody has heard yet."""
        return len(self._unheard)

    def unmute(self) -> None:
        """Late answers come with the next tick, as with :meth:`release`."""
        self._muted = False

    def _catch_up(self) -> None:
        if not self._held:
            waiting, self._waiting = self._waiting, []
            for hand_overs in waiting:
                hand_overs.advance()
        if not self._muted:
            unheard, self._unheard = self._unheard, []
            for answer in unheard:
                answer()

    @contextmanager
    def built_in(self) -> Iterator[None]:
        """While this is open, flows of this process go through these valves."""
        take, advance = HostQueues.take, HandOvers.advance
        reported, tick = PortControl.reported, PortControl.tick

        def take_if_allowed(queues: HostQueues, worker: int, port: int, rows: int = 0) -> Item | None:
            if not self._stalled:
                return take(queues, worker, port, rows)
            self._waiting_rows[id(queues), worker, port] = queues.waiting(worker)[port]
            return None

        def advance_if_allowed(hand_overs: HandOvers) -> None:
            if not self._held:
                advance(hand_overs)
            elif hand_overs not in self._waiting:
                self._waiting.append(hand_overs)

        def hear_if_allowed(control: PortControl, report: PortReport) -> Answer | None:
            if not self._muted or not isinstance(report, StateArrived):
                return reported(control, report)
            self._unheard.append(lambda: reported(control, report))
            return None

        def tick_after_all(control: PortControl, now: float) -> None:
            self._catch_up()
            tick(control, now)

        with ExitStack() as stack:
            stack.enter_context(patch.object(PortControl, "tick", tick_after_all))
            stack.enter_context(patch.object(PortControl, "reported", hear_if_allowed))
            stack.enter_context(patch.object(HostQueues, "take", take_if_allowed))
            stack.enter_context(patch.object(HandOvers, "advance", advance_if_allowed))
            yield


class GatedCluster(ThreadCluster):
    """Sources wait at the gates of their inputs."""

    def __init__(
        self, valves: Valves, plan: PhysicalPlan, sources: Sequence[Partitions], at: Callable[[], FlowAddress]
    ) -> None:
        super().__init__(plan, sources, at)
        self._lengths = [[len(partition) for partition in partitions] for partitions in sources]
        self._gates: list[Gate] = []
        for source in range(len(sources)):
            operator, port = plan.source_target(source)
            name = f"{plan.operators[operator].label}, input {port}"
            self._gates.append(valves.gates.setdefault(name, Gate()))

    def batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        gate, last = self._gates[source], self._lengths[source][partition] - 1
        for number, batch in enumerate(super().batches(source, partition)):
            gate.pass_through(number, number == last, self.cancelled.is_set)
            yield batch

    def cancel_sources(self, attempt: int) -> None:
        super().cancel_sources(attempt)
        for gate in self._gates:
            gate.wake()
