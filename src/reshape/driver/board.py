"""Orders for tasks, as a board that each task reads from its own place on: numbered, never changed, never lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from typing import Any

Order = dict[str, Any]


class Board:
    """Orders of one run. A task sees those addressed to it or to all of its kind."""

    def __init__(self) -> None:
        self._orders: list[Order] = []
        self._news = threading.Condition()
        self._over = False
        self._left: set[str] = set()

    def post(self, to: str, kind: str, **facts: Any) -> None:
        """``to`` is "hosts", "sources", "all", or the name of one task."""
        with self._news:
            self._orders.append({"number": len(self._orders) + 1, "to": to, "kind": kind, **facts})
            self._news.notify_all()

    def close(self) -> None:
        """Nothing more will be said."""
        with self._news:
            self._over = True
            self._news.notify_all()

    def leave(self, who: str) -> None:
        """A task reads no more: let its poll return."""
        with self._news:
            self._left.add(who)
            self._news.notify_all()

    def wait_until_left(self, tasks: Collection[str], limit_s: float) -> bool:
        """Wait until these read no more; False if one still does."""
        with self._news:
            return self._news.wait_for(lambda: self._left.issuperset(tasks), limit_s)

    def read(self, who: str, after: int, wait_s: float) -> dict[str, Any]:
        """Orders for a task beyond the number it knows; waits for one to come."""
        group = "hosts" if who.startswith("host") else "sources"
        deadline = time.monotonic() + wait_s
        with self._news:
            while True:
                fresh = [order for order in self._orders[after:] if order["to"] in (who, group, "all")]
                left = deadline - time.monotonic()
                over = self._over or who in self._left
                if fresh or over or left <= 0:
                    return {"orders": fresh, "over": over and not fresh}
                self._news.wait(left)
