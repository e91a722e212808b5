"""What the workers of the last operator show while a flow runs."""

from __future__ import annotations

import time

import pyarrow as pa

from reshape.host.worker import Worker, Workers
from reshape.protocol.reports import Preview

# A person sees a chart move four times a second; more rows than these fit no screen.
PREVIEW_S = 0.25
PREVIEW_ROWS = 1_000
# Showing takes at most a twentieth of a host's time: what is costly to show is shown less often.
_PAUSE = 20


class Previews:
    """Used by the working thread. ``wanted``: is there anybody to show a running result to?"""

    def __init__(self, workers: Workers, *, wanted: bool) -> None:
        self._workers = [worker for worker in workers if worker.operator.target is None]
        self._wanted = wanted
        self._due = 0.0
        self._last: dict[int, pa.RecordBatch] = {}  # of workers that are done, by their index

    def take(self, *, at_once: bool = False) -> tuple[Preview, ...] | None:
        """What can be shown by now; None when it is not time yet. Groups are partial rows: helpers have parts too."""
        now = time.monotonic()
        if not self._wanted or (now < self._due and not at_once):
            return None
        shown = []
        for worker in self._workers:
            batch = self._last.get(worker.index) or _preview(worker)
            if batch is not None and batch.num_rows:
                shown.append(Preview(worker.operator.id, worker.number, batch))
        took = time.monotonic() - now
        self._due = now + max(PREVIEW_S, _PAUSE * took)
        return tuple(shown)

    def keep_last(self, worker: Worker) -> None:
        """A worker is about to finish: what it shows now is shown from then on."""
        if self._wanted and worker.operator.target is None and (batch := _preview(worker)) is not None:
            self._last[worker.index] = batch


def _preview(worker: Worker) -> pa.RecordBatch | None:
    shown = [part for logic in worker.logics.values() if (part := logic.preview_part(PREVIEW_ROWS)) is not None]
    return pa.concat_batches(shown) if shown else None
