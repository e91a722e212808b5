"""Tells the driver how a host is doing, a few times a second, without ever holding up the working thread."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pyarrow as pa

from reshape.runtime.link import ControlLink, to_text


class Reporter:
    """Sends the newest report that the loop has left here; older ones that were not sent in time are dropped."""

    def __init__(self, link: ControlLink, host: int) -> None:
        self._link = link
        self._host = host
        self._news = threading.Condition()
        self._report: tuple[list[dict[str, Any]], list[tuple[int, int, pa.RecordBatch]]] | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._send, name=f"reshape-report-{host}", daemon=True)
        self._thread.start()

    def leave(self, cells: list[dict[str, Any]], previews: list[tuple[int, int, pa.RecordBatch]]) -> None:
        """Counts per cell, and the running result of each (operator, worker) that is displayed."""
        with self._news:
            self._report = (cells, previews)
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
                while self._report is None and not self._closed:
                    self._news.wait()
                report, self._report = self._report, None
            if report is None:
                return
            cells, previews = report
            shown = [{"operator": o, "worker": w, "rows": to_text(batch)} for o, w, batch in previews]
            # A report that is lost is followed by the next one; the poll notices when the driver is gone.
            with contextlib.suppress(pa.ArrowException):
                self._link.tell("progress", host=self._host, cells=cells, previews=shown)
