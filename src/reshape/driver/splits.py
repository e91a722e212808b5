"""Splits of the sources that hosts read by themselves: dealt out one by one, to whichever host has room."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Mapping

from reshape.driver.port_control import Post
from reshape.errors import FlowFailed
from reshape.protocol.errors import MessageRefused, TaskLost
from reshape.protocol.orders import ReadSource
from reshape.protocol.reports import SourceRead, SplitGiven
from reshape.scan.scan import Scan

# The same order in every run of a flow; which host gets which split still differs.
_SEED = 20
# How often to look whether hosts are still there.
LOOK_S = 5.0


class SplitDealer:
    """Of one attempt. In a shuffled order, so that early results stand for the whole input, not for its first files;
    ``in_order`` where the running result is to follow the input, as a line does that grows."""

    def __init__(
        self,
        scans: Mapping[int, Scan],
        hosts: int,
        post: Post,
        silent: Callable[[], str | None],
        *,
        in_order: bool = False,
    ) -> None:
        """``silent`` names a host that has not been heard of for too long, if there is one."""
        self._hosts = hosts
        self._post = post
        self._silent = silent
        self._news = threading.Condition()
        self._closed = False
        self._left = {source: _dealt(len(scan.splits), in_order) for source, scan in scans.items()}
        self._rows: dict[int, dict[int, int]] = {source: {} for source in scans}  # by source and host that is through

    def run(self, source: int) -> int:
        """Let hosts read a source; its number of rows when they are all with their workers."""
        self._post("hosts", ReadSource(source))
        read = self._rows[source]
        with self._news:
            while not self._closed and len(read) < self._hosts:
                # Hosts that fail say so, and Spark starts those anew that it has lost: either ends this wait. Only if
                # Spark has given up, nobody says anything.
                if not self._news.wait(LOOK_S) and (host := self._silent()) is not None:
                    raise TaskLost(host, f"the driver has not heard of it while it was reading source {source}")
            if self._closed:  # hosts that have asked since then take what they have for all
                raise FlowFailed(f"source {source}", "the flow has ended before all of it was read")
            return sum(read.values())

    def next(self, source: int) -> SplitGiven:
        """The next split for a host that has room."""
        with self._news:
            left = self._left.get(source)
            if left is None:
                raise MessageRefused("SplitWanted.source", f"one of {sorted(self._left)}", str(source))
            return SplitGiven(left.popleft() if left and not self._closed else None)

    def read(self, report: SourceRead) -> None:
        """A host has sent on all that it has read of a source."""
        with self._news:
            if report.source not in self._rows:
                raise MessageRefused("SourceRead.source", f"one of {sorted(self._rows)}", str(report.source))
            self._rows[report.source][report.host] = report.rows
            self._news.notify_all()

    def enough(self) -> None:
        """No more splits are wanted; those that are being read are the last."""
        with self._news:
            for left in self._left.values():
                left.clear()

    def close(self) -> None:
        """The attempt has failed: no more splits."""
        with self._news:
            self._closed = True
            self._news.notify_all()


def _dealt(count: int, in_order: bool) -> deque[int]:
    return deque(range(count)) if in_order else deque(random.Random(_SEED).sample(range(count), count))
