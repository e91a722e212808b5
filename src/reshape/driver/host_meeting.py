"""Where the hosts of a flow meet: each tells the driver where it listens, and hears where the others do.

Spark's ``allGather`` does the same, but its tasks look for the answer once a second, which a flow would pay twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]

LOST = ("the hosts", "Spark has lost them and starts them again")
STALE: Answer = {"failed": LOST}


class Meeting:
    """The hosts of one stage. When Spark starts a stage again, the tasks of the new try have higher numbers."""

    def __init__(self, hosts: int, ready: Callable[[tuple[str, ...]], Answer], again: Callable[[], None]) -> None:
        self._hosts = hosts
        self._ready = ready
        self._again = again
        self._there: dict[int, tuple[int, str]] = {}  # host -> its task and where it listens
        self._answer: Answer | None = None
        self._news = threading.Condition()

    @property
    def over(self) -> bool:
        return self._answer is not None

    def arrive(self, host: int, task: int, location: str, wait_s: float) -> Answer | None:
        """A host is here and waits for the others; None if they have not come: it asks again, unless it is dead."""
        me = (task, location)
        with self._news:
            known = self._there.get(host, me)
            if known[0] > task:
                return STALE
            if known[0] < task:
                self._start_again(known[0])
            self._there[host] = me
            if self._answer is None and len(self._there) == self._hosts:
                self._answer = self._ready(tuple(self._there[number][1] for number in range(self._hosts)))
            self._news.notify_all()
            self._news.wait_for(lambda: self._answer is not None or self._there.get(host) != me, wait_s)
            if self._there.get(host) != me:
                return STALE
            if self._answer is None:
                del self._there[host]
            return self._answer

    def _start_again(self, last: int) -> None:
        """A new try has begun: whoever has met is lost, and so is whoever has a task up to the last known one."""
        if self._answer is None:
            self._there = {host: it for host, it in self._there.items() if it[0] > last}
            return
        self._there = {}
        self._answer = None
        self._again()
