"""Where the hosts of a flow meet: each tells the driver where it listens, and hears where the others do.

Spark's ``allGather`` does the same, but its tasks look for the answer once a second, which a flow would pay twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from reshape.protocol.reports import HostReady, Met, Refused

STALE = Refused("the hosts", "Spark has lost them and starts them again")


class HostMeeting:
    """The hosts of one stage. When Spark starts a stage again, the tasks of the new try have higher numbers."""

    def __init__(
        self, hosts: int, on_ready: Callable[[tuple[str, ...]], Met | Refused], on_lost: Callable[[], None]
    ) -> None:
        """``on_lost`` is called when hosts that have met are started again."""
        self._hosts = hosts
        self._on_ready = on_ready
        self._on_lost = on_lost
        self._there: dict[int, HostReady] = {}
        self._answer: Met | Refused | None = None
        self._news = threading.Condition()

    @property
    def over(self) -> bool:
        return self._answer is not None

    def arrive(self, host: HostReady, wait_s: float) -> Met | Refused | None:
        """A host is here and waits for the others; None if they have not come: it asks again, unless it is dead."""
        number = host.host
        with self._news:
            before = self._there.get(number, host)
            if before.task > host.task:
                return STALE
            if before.task < host.task:
                self._start_again(before.task)
            self._there[number] = host
            if self._answer is None and len(self._there) == self._hosts:
                self._answer = self._on_ready(tuple(self._there[each].location for each in range(self._hosts)))
            self._news.notify_all()
            self._news.wait_for(lambda: self._answer is not None or self._there.get(number) != host, wait_s)
            if self._there.get(number) != host:
                return STALE
            if self._answer is None:
                del self._there[number]
            return self._answer

    def _start_again(self, last: int) -> None:
        """A new try has begun: whoever has met is lost, and so is whoever has a task up to the last known one."""
        if self._answer is None:
            self._there = {number: host for number, host in self._there.items() if host.task > last}
            return
        self._there = {}
        self._answer = None
        self._on_lost()
