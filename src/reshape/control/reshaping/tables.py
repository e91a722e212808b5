"""Routing tables between brain and routers: which version all routers use, and when one is sent once more."""

from __future__ import annotations

from math import inf

from reshape.control.events import RoutingApplied
from reshape.control.outbox import Outbox


class PublishedTables:
    def __init__(self, out: Outbox, timeout_s: float) -> None:
        self._out = out
        self._timeout_s = timeout_s
        self._unapplied: dict[int, float] = {}  # version -> when it was sent
        self._send_again_at = inf
        self.applied_version = 0

    def publish(self) -> None:
        """Send a new table, or once more the one that not all routers have acknowledged in time: never both."""
        table, now = self._out.publish(), self._out.time
        if table is not None:
            self._unapplied[table.version] = now
            self._send_again_at = now + self._timeout_s
        elif self._unapplied and now >= self._send_again_at:
            self._send_again_at = now + self._timeout_s
            self._out.send_again(self._out.routing.current)

    def applied(self, event: RoutingApplied) -> float | None:
        """Book an acknowledgement; the seconds that the table took, None if nobody waited for it."""
        sent = self._unapplied.get(event.version)
        if sent is None:
            return None
        self.applied_version = max(self.applied_version, event.version)
        self._unapplied = {version: at for version, at in self._unapplied.items() if version > event.version}
        return max(0.0, event.time - sent)

    def stop(self) -> None:
        """The input has ended: no router needs a table any more."""
        self._unapplied.clear()
        self.applied_version = self._out.routing.current.version
