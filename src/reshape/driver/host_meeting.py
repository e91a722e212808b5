"""Where the hosts of a flow meet: each tells the driver where it listens, and hears where the others do.

Spark's ``allGather`` does the same, but its tasks look for the answer once a second, which a flow would pay twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from reshape.driver.board import CALLS_PER_S, MOST_WAITING
from reshape.protocol.reports import AskAgain, HostReady, Met, Refused

# A host that was sent away and has missed several calls is dead.
GONE_S = 10.0
LEAST_PAUSE_S = 0.2

STALE = Refused("the hosts", "Spark has lost them and starts them again")


class HostMeeting:
    """The hosts of one stage. When Spark starts a stage again, the tasks of the new try have higher numbers.

    Each that waits holds a thread of the driver, so there is a limit to them; the others ask from time to time.
    """

    def __init__(
        self,
        hosts: int,
        on_ready: Callable[[tuple[str, ...]], Met | Refused],
        on_lost: Callable[[], None],
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """``on_lost`` is called when hosts that have met are started again."""
        self._hosts = hosts
        self._most_waiting = most_waiting
        self._waiting = 0
        self._asked_at: dict[int, float] = {}
        self._pause_s = max(LEAST_PAUSE_S, hosts / CALLS_PER_S)
        self._on_ready = on_ready
        self._on_lost = on_lost
        self._there: dict[int, HostReady] = {}
        self._answer: Met | Refused | None = None
        self._news = threading.Condition()

    @property
    def over(self) -> bool:
        return self._answer is not None

    def arrive(self, host: HostReady, wait_s: float) -> Met | Refused | AskAgain | None:
        """A host is here and waits for the others; None if they have not come: it asks again, unless it is dead."""
        number = host.host
        with self._news:
            before = self._there.get(number, host)
            if before.task > host.task:
                return STALE
            if before.task < host.task:
                self._start_again(before.task)
            self._there[number] = host
            self._asked_at[number] = time.monotonic()
            if self._answer is None and self._all_are_there():
                self._answer = self._on_ready(tuple(self._there[each].location for each in range(self._hosts)))
            self._news.notify_all()
            if self._answer is None and self._waiting >= self._most_waiting:
                return AskAgain(self._pause_s)
            self._waiting += 1
            self._news.wait_for(lambda: self._answer is not None or self._there.get(number) != host, wait_s)
            self._waiting -= 1
            if self._there.get(number) != host:
                return STALE
            if self._answer is None:
                del self._there[number]
            return self._answer

    def _all_are_there(self) -> bool:
        if len(self._there) == self._hosts:
            since = time.monotonic() - GONE_S - 4 * self._pause_s
            self._there = {number: host for number, host in self._there.items() if self._asked_at[number] >= since}
        return len(self._there) == self._hosts

    def _start_again(self, last: int) -> None:
        """A new try has begun: whoever has met is lost, and so is whoever has a task up to the last known one."""
        if self._answer is None:
            self._there = {number: host for number, host in self._there.items() if host.task > last}
            return
        self._there = {}
        self._answer = None
        self._on_lost()
