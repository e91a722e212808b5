"""Tells the driver how a host is doing, and what it has done, without ever holding up the working thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from reshape.exchange.errors import CallError
from reshape.protocol.errors import DriverLost
from reshape.protocol.link import ControlLink
from reshape.protocol.newest import newest_progress
from reshape.protocol.reports import Progress, Report


class Reporter:
    """Sends reports in their order, and the newest progress; progress that was not sent in time is dropped."""

    def __init__(self, link: ControlLink, host: int, on_lost: Callable[[Exception], None]) -> None:
        """``on_lost``: called when a report could not be told, which the flow cannot go on without."""
        self._link = link
        self._news = threading.Condition()
        self._reports: list[Report] = []
        self._progress: Progress | None = None
        self._closed = False
        self._on_lost = on_lost
        self._thread = threading.Thread(target=self._send, name=f"reshape-report-{host}", daemon=True)
        self._thread.start()

    def show(self, progress: Progress) -> None:
        """How the host is doing now."""
        with self._news:
            self._progress = newest_progress(self._progress, progress)
            self._news.notify()

    def report(self, report: Report) -> None:
        """Say something that must not be lost."""
        with self._news:
            self._reports.append(report)
            self._news.notify()

    def close(self) -> None:
        """Send what is left and stop."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join(5.0)

    def _send(self) -> None:
        while True:
            with self._news:
                while self._progress is None and not self._reports and not self._closed:
                    self._news.wait()
                reports, self._reports = self._reports, []
                progress, self._progress = self._progress, None
            if progress is None and not reports:
                return
            try:
                if reports:
                    # In one call: a transfer to many helpers is over as soon as the last of them has answered.
                    self._link.report(*reports)
            except (CallError, DriverLost) as error:
                self._on_lost(error)
                return
            # Progress that is lost is followed by the next one.
            with contextlib.suppress(CallError, DriverLost):
                if progress is not None:
                    self._link.note(progress)
