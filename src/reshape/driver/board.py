"""Orders for tasks, as a board that each task reads from its own place on: numbered, never changed, never lost.

A task that waits for orders holds a thread of the driver, and an order for all wakes each of them. So only the first
tasks that come may wait, and orders reach them at once. Later ones are told to call from time to time, and to
bring their counts along; the more of them there are, the longer they pause.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from typing import Literal

from reshape.control.balancing import REPORT_S
from reshape.protocol.orders import Order, Orders

# Who asks for silence does so every few seconds; if not, the driver was busy, and could not have heard anything.
BUSY_S = 15.0

# Everybody, all hosts, or one host by its number.
Recipient = Literal["all", "hosts"] | int

# Tasks that may wait at the driver, with a thread for each: 32 hosts whose sources are tasks of their own.
MOST_WAITING = 64
# What all the others may call together. A call with its counts costs the driver about 0.3 ms of CPU time.
CALLS_PER_S = 300.0
# Orders for all hosts come one after the other, as at the end of an input: then tasks call so much more often.
HURRY = 4.0


def host_task(host: int) -> str:
    """What the task of a host is called."""
    return f"host-{host}"


class Board:
    """Orders of one attempt. A task sees those addressed to it or to all of its kind."""

    def __init__(self, least_pause_s: float = REPORT_S, most_waiting: int = MOST_WAITING) -> None:
        """Nobody has to call more often than every ``least_pause_s``."""
        self._least_pause_s = least_pause_s
        self._most_waiting = most_waiting
        self._orders: list[tuple[Recipient, Order]] = []
        self._news = threading.Condition()
        self._over = False
        self._left: set[str] = set()
        self._waiting: set[str] = set()  # tasks that may wait here, as long as they read
        self._calling: set[str] = set()  # all others
        self._made_at = time.monotonic()
        self._hurry_until = self._made_at
        self._heard_at: dict[str, float] = {}  # when each task last came to read
        self._asked_at = self._made_at  # when somebody last asked for silence

    def post(self, to: Recipient, order: Order) -> None:
        with self._news:
            self._orders.append((to, order))
            if to == "hosts":
                self._hurry_until = time.monotonic() + 2 * self.pause_s
            self._news.notify_all()

    def close(self) -> None:
        """Nothing more will be said."""
        with self._news:
            self._over = True
            self._news.notify_all()

    def leave(self, task: str) -> None:
        """A task reads no more: let its poll return."""
        with self._news:
            self._left.add(task)
            self._waiting.discard(task)
            self._calling.discard(task)
            self._news.notify_all()

    def wait_until_left(self, tasks: Collection[str], limit_s: float) -> bool:
        """Wait until these read no more; False if one still does."""
        with self._news:
            return self._news.wait_for(lambda: self._left.issuperset(tasks), limit_s)

    def silent(self, tasks: Collection[str], limit_s: float) -> str | None:
        """A task that has not come to read for so long; None if all have."""
        with self._news:
            now = time.monotonic()
            if now - self._asked_at > BUSY_S:
                self._heard_at = dict.fromkeys(self._heard_at, now)
                self._made_at = now
            self._asked_at = now
            return next((task for task in tasks if self._heard_at.get(task, self._made_at) < now - limit_s), None)

    @property
    def pause_s(self) -> float:
        """How long a task that may not wait here pauses between two calls; 0 while there is none."""
        return max(self._least_pause_s, len(self._calling) / CALLS_PER_S) if self._calling else 0.0

    def read(self, task: str, after: int, wait_s: float) -> Orders:
        """Orders for a task beyond the number it knows. One that may wait does so for one to come, unless it reads for
        the first time and does not know yet that it may."""
        deadline = time.monotonic() + wait_s
        with self._news:
            knows = task in self._waiting
            may_wait = self._admitted(task)
            self._heard_at[task] = time.monotonic()
            while True:
                last = len(self._orders)
                fresh = tuple(order for to, order in self._orders[after:] if _is_for(to, task))
                left = deadline - time.monotonic()
                over = self._over or task in self._left
                if fresh or over or left <= 0 or not knows:
                    return Orders(fresh, last, over and not fresh, may_wait, self._present_pause_s)
                self._news.wait(left)

    def _admitted(self, task: str) -> bool:
        """Whether a task may wait here. Whoever may does so until it leaves."""
        if task in self._left:
            return True  # it will be told that all is over
        if task not in self._waiting and len(self._waiting) < self._most_waiting:
            self._waiting.add(task)
            self._calling.discard(task)
        elif task not in self._waiting:
            self._calling.add(task)
        return task in self._waiting

    @property
    def _present_pause_s(self) -> float:
        in_a_hurry = self._calling and time.monotonic() < self._hurry_until
        return max(self._least_pause_s, self.pause_s / HURRY) if in_a_hurry else self.pause_s


def _is_for(to: Recipient, task: str) -> bool:
    match to:
        case "all":
            return True
        case "hosts":
            return task.startswith("host")
        case _:
            return task == host_task(to)
