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
        self._last: dict[int, Preview] = {}  # of workers that are done, by their index

    def take(self, *, at_once: bool = False) -> tuple[Preview, ...] | None:
        """What can be shown by now; None when it is not time yet. Groups are partial rows: helpers have parts too."""
        now = time.monotonic()
        if not self._wanted or (now < self._due and not at_once):
            return None
        shown = []
        for worker in self._workers:
            preview = self._last.get(worker.index) or _preview(worker)
            if preview is not None:
                shown.append(preview)
        took = time.monotonic() - now
        self._due = now + max(PREVIEW_S, _PAUSE * took)
        return tuple(shown)

    def keep_last(self, worker: Worker) -> None:
        """A worker is about to finish: what it shows now is shown from then on."""
        if self._wanted and worker.operator.target is None and (preview := _preview(worker)) is not None:
            self._last[worker.index] = preview


def _preview(worker: Worker) -> Preview | None:
    logics = list(worker.logics.values())
    shown = [part for logic in logics if (part := logic.preview_part(PREVIEW_ROWS)) is not None and part.num_rows]
    if not shown:
        return None
    left_out = [logic.preview_leaves_out(PREVIEW_ROWS) for logic in logics]
    own = worker.logics.get(worker.number)
    hidden = None if None in left_out else 0 if own is None else own.preview_leaves_out(PREVIEW_ROWS)
    return Preview(worker.operator.id, worker.number, pa.concat_batches(shown), hidden, worker.of_owner[0].copy())
