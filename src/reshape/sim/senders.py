"""The sending side of a simulated operator: routes groups of rows, and waits where a queue is full."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reshape.sim.agenda import Agenda
from reshape.sim.router import SimulatedRouter
from reshape.sim.source import Group
from reshape.sim.worker import Chunk, Worker


class SimulatedSenders:
    """``queue_rows`` is the bound of a worker's queue, None for no bound."""

    def __init__(
        self,
        router: SimulatedRouter,
        workers: Sequence[Worker],
        queue_rows: int | None,
        agenda: Agenda,
        link_latency_s: float,
    ) -> None:
        self._router = router
        self._workers = workers
        self._queue_rows = queue_rows
        self._agenda = agenda
        self._link_latency_s = link_latency_s
        self.waiting: dict[int, Chunk] = {}  # rows that found a full queue, by worker
        self.sent = 0

    def offer(self, group: Group) -> float | None:
        """Route a group. None when all of it is on its way, else the moment to call :meth:`retry`."""
        bound = self._router.route(group)
        if self._queue_rows is not None:
            self.waiting = bound
            return self.retry()
        self._send(bound)
        return None

    def retry(self) -> float | None:
        """Send what found a full queue, as far as there is room now."""
        moments = [self._send_what_fits(index, chunk) for index, chunk in list(self.waiting.items())]
        return min((moment for moment in moments if moment is not None), default=None)

    def _send_what_fits(self, index: int, chunk: Chunk) -> float | None:
        """Send all of the chunk, or a full queue's worth, once there is room; when to try again, if ever."""
        limit = self._queue_rows
        assert limit is not None
        worker = self._workers[index]
        worker.advance(self._agenda.now)
        room = limit - (self._router.received[index] - worker.processed - chunk.rows)
        wanted = min(chunk.rows, limit)
        if room >= wanted:
            rest, first = chunk.split(chunk.rows - wanted, lambda _: True)
            self._send({index: Chunk(first)})
            del self.waiting[index]
            if not rest:
                return None
            room -= wanted
            self.waiting[index] = Chunk(rest)
            wanted = min(chunk.rows - wanted, limit)
        return self._room_at(worker, wanted - room)

    def _room_at(self, worker: Worker, rows: int) -> float:
        """When the worker will have processed so many more rows, be they in its queue or on their way."""
        if worker.queued >= rows:
            return worker.finish_time(rows)
        return self._agenda.now + self._link_latency_s + rows / worker.speed

    def _send(self, bound: dict[int, Chunk]) -> None:
        if bound:
            self.sent += sum(chunk.rows for chunk in bound.values())
            self._agenda.after(self._link_latency_s, partial(self._deliver, bound))

    def _deliver(self, bound: dict[int, Chunk]) -> None:
        now = self._agenda.now
        for index, chunk in bound.items():
            self._workers[index].arrive(now, chunk)
