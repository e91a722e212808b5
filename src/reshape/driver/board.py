"""Orders for tasks, as a board that each task reads from its own place on: numbered, never changed, never lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from typing import Literal

from reshape.protocol.orders import Order, Orders

# Who asks for silence does so every few seconds; if not, the driver was busy, and could not have heard anything.
BUSY_S = 15.0

# Everybody, all hosts, or one host by its number.
Recipient = Literal["all", "hosts"] | int


def host_task(host: int) -> str:
    """What the task of a host is called."""
    return f"host-{host}"


class Board:
    """Orders of one attempt. A task sees those addressed to it or to all of its kind."""

    def __init__(self) -> None:
        self._orders: list[tuple[Recipient, Order]] = []
        self._news = threading.Condition()
        self._over = False
        self._left: set[str] = set()
        self._made_at = time.monotonic()
        self._heard_at: dict[str, float] = {}  # when each task last came to read
        self._asked_at = self._made_at  # when somebody last asked for silence

    def post(self, to: Recipient, order: Order) -> None:
        with self._news:
            self._orders.append((to, order))
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

    def read(self, task: str, after: int, wait_s: float) -> Orders:
        """Orders for a task beyond the number it knows; waits for one to come."""
        deadline = time.monotonic() + wait_s
        with self._news:
            self._heard_at[task] = time.monotonic()
            while True:
                last = len(self._orders)
                fresh = tuple(order for to, order in self._orders[after:] if _is_for(to, task))
                left = deadline - time.monotonic()
                over = self._over or task in self._left
                if fresh or over or left <= 0:
                    return Orders(fresh, last, over and not fresh)
                self._news.wait(left)


def _is_for(to: Recipient, task: str) -> bool:
    match to:
        case "all":
            return True
        case "hosts":
            return task.startswith("host")
        case _:
            return task == host_task(to)
