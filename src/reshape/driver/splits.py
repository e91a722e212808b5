"""Splits of the sources that hosts read by themselves: dealt out one by one, to whichever host has room."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Mapping

from reshape.driver.port_control import Post
from reshape.errors import FlowFailed
from reshape.protocol.errors import MessageRefused
from reshape.protocol.orders import ReadSource
from reshape.protocol.reports import SourceRead, SplitGiven
from reshape.scan.scan import Scan

# The same order in every run of a flow; which host gets which split still differs.
_SEED = 20


class SplitDealer:
    """Of one attempt. In a shuffled order, so that early results stand for the whole input, not for its first files."""

    def __init__(self, scans: Mapping[int, Scan], hosts: int, post: Post) -> None:
        self._hosts = hosts
        self._post = post
        self._news = threading.Condition()
        self._closed = False
        self._left = {source: _shuffled(len(scan.splits)) for source, scan in scans.items()}
        self._rows: dict[int, dict[int, int]] = {source: {} for source in scans}  # by source and host that is through

    def run(self, source: int) -> int:
        """Let hosts read a source; its number of rows when they are all with their workers."""
        self._post("hosts", ReadSource(source))
        with self._news:
            # Hosts that fail say so, and those that are lost are missed by Spark: either ends this wait.
            self._news.wait_for(lambda: self._closed or len(self._rows[source]) == self._hosts)
            if len(self._rows[source]) < self._hosts:
                raise FlowFailed(f"source {source}", "the flow has ended before all of it was read")
            return sum(self._rows[source].values())

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

    def close(self) -> None:
        """The attempt has failed: no more splits."""
        with self._news:
            self._closed = True
            self._news.notify_all()


def _shuffled(count: int) -> deque[int]:
    return deque(random.Random(_SEED).sample(range(count), count))
