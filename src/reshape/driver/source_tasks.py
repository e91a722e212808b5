"""Which source task sends which partition: one and no other, whatever Spark runs again.

Spark runs a task again when it was lost, all that is missing of a stage after a fetch failure (with tries counted from
0 again), and a second copy of a slow one where speculation is on. None of them may send rows that are with the hosts
already, so each asks here first; the driver's own books decide, and Spark's only tell why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reshape.driver.cluster import TaskFate
from reshape.driver.task_errors import in_short, is_loss
from reshape.protocol.link import POLL_S
from reshape.protocol.reports import MayBegin, SourceBegins

# Spark books what tasks do with a little delay; on a driver that is busy it may never book a task at all.
BOOKED_S = 5.0
LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class RunAgain:
    """Why a partition cannot be sent a second time within an attempt. ``lost``: another attempt may do better."""

    cause: str
    lost: bool


class SourceTasks:
    """Of one attempt. ``unsuccessful`` are the tasks of a stage that run or have failed, by Spark's books."""

    def __init__(self, unsuccessful: Callable[[int], Sequence[TaskFate]], on_again: Callable[[str, RunAgain], None]):
        """``on_again`` is called with the name of a task whose partition was begun by another one that is lost."""
        self._unsuccessful = unsuccessful
        self._on_again = on_again
        self._news = threading.Condition()
        self._over = False
        self._senders: dict[tuple[int, int], SourceBegins] = {}  # by source and partition
        self._sending: set[str] = set()
        self._when_idle: Callable[[], None] | None = None

    def begins(self, name: str, task: SourceBegins) -> MayBegin | None:
        """May this task send its partition? None when nobody may any more."""
        with self._news:
            first = self._senders.setdefault((task.source, task.partition), task)
            if self._over:
                return None
            if first == task:
                self._sending.add(name)
                return MayBegin(now=True)
        again = self._why_again(first, task, name)
        if again is not None:
            self._on_again(name, again)
            return None
        with self._news:  # one of two copies; the other one sends, and Spark ends this one with it
            return None if self._news.wait_for(lambda: self._over, POLL_S) else MayBegin(now=False)

    def ended(self, name: str) -> None:
        """A task has sent its last row."""
        with self._news:
            self._sending.discard(name)
            idle = None if self._sending else self._when_idle
        if idle is not None:
            idle()

    def enough(self, when_idle: Callable[[], None]) -> None:
        """No more tasks may begin; call when those that send have ended."""
        self.close()
        with self._news:
            self._when_idle = when_idle
            idle = not self._sending
        if idle:
            when_idle()

    def close(self) -> None:
        """The attempt is over."""
        with self._news:
            self._over = True
            self._news.notify_all()

    def _has_ended(self, name: str) -> bool:
        with self._news:
            return name not in self._sending

    def _why_again(self, first: SourceBegins, task: SourceBegins, name: str) -> RunAgain | None:
        """None for one of two copies of which the other runs or has ended well. The one that Spark has started later
        may well ask first: it is the slow machine that is late."""
        deadline = time.monotonic() + BOOKED_S
        while True:
            fates = {fate.task: fate for stage in {first.stage, task.stage} for fate in self._unsuccessful(stage)}
            # Spark books in the order of what happens: the end of the first task before the begin of the next try.
            if task.task in fates:
                error = fates[first.task].error if first.task in fates else None
                if error is not None:
                    return RunAgain(in_short(error), is_loss(error))
                if any(fates[each.task].speculative for each in (first, task) if each.task in fates):
                    return None
                if first.task not in fates and self._has_ended(name):
                    return None
                # A stage is run again as a whole when any of its tasks has missed shuffle files.
                missed = (fate.error for fate in fates.values() if (fate.error or "").startswith("FetchFailed"))
                if (missing := next(missed, None)) is not None:
                    return RunAgain(in_short(missing), lost=True)
            if task.task in fates or time.monotonic() > deadline:
                return RunAgain("Spark runs it again and does not say why", lost=True)
            with self._news:
                if self._news.wait_for(lambda: self._over, LOOK_S):
                    return None
