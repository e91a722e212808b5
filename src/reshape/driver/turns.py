"""Whose turn it is: started flows that do not fit into the session at the same time run one after the other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from reshape.driver.slots import FlowSlots

LOG = logging.getLogger(__name__)

# Started flows that end say so; this is for slots of the cluster that come and go, and for other flows.
LOOK_S = 0.5


class Turn:
    """The place of a started flow in the line. ``stop`` ends it, wherever it is, for the cause that it is given."""

    def __init__(self, flow: FlowSlots, stop: Callable[[str], None]) -> None:
        self.flow = flow
        self.stop = stop
        self.withdrawn = False


class Turns:
    """First come, first served. ``slots`` tells how many the session has; ``others`` which flows run that were not
    started, but by an action on their DataFrame."""

    def __init__(self, slots: Callable[[], int], others: Callable[[], Iterable[FlowSlots]]) -> None:
        self._slots = slots
        self._others = others
        self._news = threading.Condition()
        self._line: list[Turn] = []
        self._last_slots = 0  # as many as there were at the last look
        self._running: list[Turn] = []

    def enter(self, flow: FlowSlots, stop: Callable[[str], None]) -> Turn:
        """Stand in line behind all that came before."""
        turn = Turn(flow, stop)
        with self._news:
            self._line.append(turn)
        return turn

    def wait(self, turn: Turn) -> bool:
        """Wait until there is room for a flow. False if it was withdrawn."""
        told = False
        with self._news:
            while not turn.withdrawn:
                if self._line[0] is turn and self._has_room(turn.flow):
                    self._line.remove(turn)
                    self._running.append(turn)
                    self._news.notify_all()
                    return True
                if not told:
                    told = True
                    LOG.info("flow %s is %s", turn.flow.name, self._queued(turn))
                self._news.wait(LOOK_S)
            return False

    def withdraw(self, turn: Turn) -> None:
        """A flow is not to run any more; if it waits, it stops waiting."""
        with self._news:
            turn.withdrawn = True
            self._news.notify_all()

    def end(self, turn: Turn) -> None:
        """A flow has ended, or will not run: the next one may have its slots."""
        with self._news:
            self._running = [each for each in self._running if each is not turn]
            self._line = [each for each in self._line if each is not turn]
            self._news.notify_all()

    def queued(self, turn: Turn) -> str | None:
        """What a flow waits for, in words; None if it is its turn."""
        with self._news:
            return self._queued(turn) if turn in self._line else None

    def running(self) -> list[Turn]:
        with self._news:
            return list(self._running)

    def stop_all(self, cause: str) -> None:
        """End all that wait and all that run."""
        with self._news:
            turns = [*self._line, *self._running]
        for turn in turns:
            turn.stop(cause)

    def _holders(self) -> list[FlowSlots]:
        """Flows that run, each once: a started one counts what it reads."""
        started = [turn.flow for turn in self._running]
        counted = {flow.name for outer in started for flow in (outer, *outer.reads)}
        return [*started, *(flow for flow in self._others() if flow.name not in counted)]

    def _has_room(self, flow: FlowSlots) -> bool:
        """With nobody else there it may try, even if the cluster has lost slots: Spark says what is missing."""
        held = sum(holder.least for holder in self._holders())
        self._last_slots = self._slots()
        return held == 0 or held + flow.least <= self._last_slots

    def _queued(self, turn: Turn) -> str:
        ahead = [*self._holders(), *(before.flow for before in self._line[: self._line.index(turn)])]
        names = ", ".join(f"{flow.name} ({flow.least})" for flow in ahead)
        of_all = f"of {self._last_slots} " if self._last_slots else ""
        return f"queued: it needs {turn.flow.least} {of_all}task slots, and before it come {names or 'none'}"
