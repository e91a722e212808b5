"""Tells the driver how a host is doing, and what it has done, without ever holding up the working thread."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from reshape.host.worker import CellCounts
from reshape.protocol.errors import DriverLost
from reshape.protocol.link import ControlLink, to_text

Preview = tuple[int, int, pa.RecordBatch]  # operator, worker, rows


@dataclass(frozen=True, slots=True)
class Report:
    """Counts per cell, the running result of each worker that is displayed, and counts of the routers here.

    ``previews`` None: what the report before showed still holds.
    """

    cells: list[CellCounts]
    previews: list[Preview] | None
    routers: dict[int, dict[str, Any]]


class Reporter:
    """Sends messages in their order, and the newest report; a report that was not sent in time is dropped."""

    def __init__(self, link: ControlLink, host: int, on_lost: Callable[[Exception], None] = lambda _: None) -> None:
        """``on_lost``: called when a message could not be told, which the flow cannot go on without."""
        self._link = link
        self._host = host
        self._news = threading.Condition()
        self._messages: deque[tuple[str, dict[str, Any]]] = deque()
        self._report: Report | None = None
        self._closed = False
        self._on_lost = on_lost
        self._thread = threading.Thread(target=self._send, name=f"reshape-report-{host}", daemon=True)
        self._thread.start()

    def leave(self, report: Report) -> None:
        with self._news:
            # What was to be shown still is, unless there is something newer.
            if self._report is not None and report.previews is None:
                report = Report(report.cells, self._report.previews, report.routers)
            self._report = report
            self._news.notify()

    def tell(self, kind: str, **facts: Any) -> None:
        """Say something that must not be lost."""
        with self._news:
            self._messages.append((kind, facts))
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
                while self._report is None and not self._messages and not self._closed:
                    self._news.wait()
                messages, self._messages = self._messages, deque()
                report, self._report = self._report, None
            if report is None and not messages:
                return
            try:
                if messages:
                    # In one call: a transfer to many helpers is over as soon as the last of them has answered.
                    self._link.tell("several", messages=[{"kind": kind, **facts} for kind, facts in messages])
            except (pa.ArrowException, DriverLost) as error:
                self._on_lost(error)
                return
            # A report that is lost is followed by the next one.
            with contextlib.suppress(pa.ArrowException, DriverLost):
                if report is not None:
                    self._tell_report(report)

    def _tell_report(self, report: Report) -> None:
        shown = None
        if report.previews is not None:
            shown = [{"operator": o, "worker": w, "rows": to_text(batch)} for o, w, batch in report.previews]
        self._link.note("progress", host=self._host, cells=report.cells, previews=shown, routers=report.routers)
