"""The working thread of a host: takes waiting rows, lets operators process them, sends on what they give.

One thread does all of it, so operators need no locks. It never waits for another host: rows for others go through
:class:`Outbound`, and an operator whose output has no room is not run until it has. Orders are obeyed between batches.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal

import pyarrow as pa

from reshape.errors import FlowFailed
from reshape.exchange.queues import HostQueues
from reshape.exchange.worker_queue import Item
from reshape.host.inbox import Inbox
from reshape.host.moves.moves import HostMoves
from reshape.host.outputs import Outputs
from reshape.host.previews import Previews
from reshape.host.worker import Worker, Workers
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.errors import Aborted
from reshape.protocol.orders import (
    Abort,
    EndInput,
    Enough,
    InputEnding,
    Order,
    Pause,
    ReadSource,
    Resume,
    UseBounds,
    UseTable,
)
from reshape.protocol.reports import Progress
from reshape.sender.flushing import FLUSH_S

# After the end of an input the driver waits for the last rows: a host that has nothing to do says so at once, almost.
IDLE_REPORT_S = 0.01
# How long the loop sleeps when nothing can be done; whatever changes wakes it earlier.
IDLE_S = 0.02
_END = object()


class HostLoop:
    """``read`` starts to read a source by its number; ``show`` gets the host's progress, as often as the plan says."""

    def __init__(
        self,
        plan: PhysicalPlan,
        host: int,
        workers: Workers,
        queues: HostQueues,
        inbox: Inbox,
        outputs: Outputs,
        moves: HostMoves,
        previews: Previews,
        read: Callable[[int], None],
        show: Callable[[Progress], None],
    ) -> None:
        self._host = host
        self._workers = workers
        self._queues = queues
        self._inbox = inbox
        self._outputs = outputs
        self._moves = moves
        self._previews = previews
        self._read = read
        self._progress = _ProgressClock(plan.report_s, show)
        self._ended_ports: set[tuple[int, int]] = set()
        self._ending: set[tuple[int, int]] = set()  # all rows have been sent; some may wait
        self._worked = False  # since the last progress
        self._mode: Literal["work", "pause", "drop"] = "work"  # the last: no more rows are wanted
        self._flush_at = 0.0
        # Later operators first: what is nearest to the result moves on, and queues stay short.
        self._turns = [deque(workers.of(operator.id)) for operator in reversed(plan.operators)]

    def run(self, stop: threading.Event) -> None:
        """Work until all operators are done, an order aborts the run, or ``stop`` is set."""
        try:
            self._run(stop)
        finally:
            for worker in self._workers:
                worker.close()

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            for order in self._inbox.orders():
                self._obey(order)
            self._inbox.run_calls()
            self._moves.step()
            self._show_progress()
            self._flush()
            if self._outputs.all_done:
                self._progress.show(self._progress_now(last=True))  # what is shown from now on is complete
                return
            if self._mode == "pause":
                self._queues.wait_for_rows(IDLE_S)
            elif self._step():
                self._worked = True
            else:
                self._idle()

    def _obey(self, order: Order) -> None:
        match order:
            case InputEnding():
                self._ending.add((order.operator, order.port))
                self._worked = True  # perhaps its last rows are done already, and nobody has said so
            case EndInput():
                self._ending.discard((order.operator, order.port))
                self._ended_ports.add((order.operator, order.port))
            case ReadSource():
                self._read(order.source)
            case UseBounds():
                self._outputs.set_bounds(order)
                self._moves.set_bounds(order)
            case UseTable():
                self._outputs.use_table(order)
            case Pause() | Resume():
                self._pause(isinstance(order, Pause))
            case Enough():
                self._pause(False)
                self._mode = "drop"
                for worker in self._workers:
                    worker.drop_output()
            case Abort():
                raise Aborted(order.where, order.cause)
            case _:
                self._moves.obey(order)

    def _pause(self, paused: bool) -> None:
        if self._mode != "drop":
            self._mode = "pause" if paused else "work"
        self._queues.pause(self._mode == "pause")
        self._worked = True  # those who look at a paused flow see how it stands

    def _show_progress(self, *, at_once: bool = False) -> None:
        if self._progress.is_due(at_once=at_once):
            self._worked = False
            self._progress.show(self._progress_now())

    def _progress_now(self, *, last: bool = False) -> Progress:
        now = time.monotonic()
        counts = tuple(worker.counts(self._queues.waiting(worker.index), now) for worker in self._workers)
        shown, queues = self._previews.take(at_once=last), self._queues
        sent, unsent = self._outputs.counts(), self._outputs.unsent()
        return Progress(self._host, counts, shown, sent, queues.memory, queues.on_disk, unsent)

    def _flush(self) -> None:
        """Rows of an operator that gives few must not lie in a half-full message while others are busy."""
        now = time.monotonic()
        if now >= self._flush_at:
            self._flush_at = now + FLUSH_S
            self._outputs.tick()

    def _idle(self) -> None:
        if self._worked and any(self._is_through(*port) for port in self._ending):
            self._show_progress(at_once=True)
        now = time.monotonic()
        # Free workers wait for rows, which wake the loop; the others for the end of their emulated cost.
        waits = [w.cost.free_at - now for w in self._workers if not w.done and w.cost.free_at > now]
        self._queues.wait_for_rows(min([IDLE_S, *waits]))

    def _is_through(self, operator: int, port: int) -> bool:
        """Has everything that came here for an input been processed?"""
        now = time.monotonic()
        workers = self._workers.of(operator)
        return not any(self._queues.waiting(worker.index)[port] or worker.cost.pending(now) for worker in workers)

    def _step(self) -> bool:
        """Let one worker do one piece of work; False if none can."""
        now = time.monotonic()
        for workers in self._turns:
            if not self._outputs.has_room(workers[0].operator):
                continue
            for _ in range(len(workers)):
                worker = workers[0]
                workers.rotate(-1)
                if not worker.done and worker.cost.free_at <= now and self._work(worker):
                    return True
        return False

    def _work(self, worker: Worker) -> bool:
        if worker.output is not None:
            self._emit_next(worker)
            return True
        for port in range(len(worker.operator.ports)):
            if worker.ended[port] or not worker.is_open(port):
                continue
            item = self._queues.take(worker.index, port, worker.rows_per_step())
            if item is not None:
                self._process(worker, port, item)
                return True
            if (worker.operator.id, port) in self._ended_ports:
                own = worker.own  # made before it hears of the end
                assert list(worker.logics) == [worker.number], "scattered parts are with their owners by now"
                worker.ended[port] = True
                self._start_output(worker, partial(own.end_port, port))
                return True
        if all(worker.ended) and not worker.finishing and self._may_finish(worker):
            worker.finishing = True
            self._previews.keep_last(worker)
            self._start_output(worker, worker.own.finish)
            return True
        worker.cost.free_at = 0.0  # nothing to do: it is not late for the rows that come next
        return False

    def _may_finish(self, worker: Worker) -> bool:
        """Some workers have to know of each other before; a result in one order leaves worker by worker."""
        if self._mode == "drop":
            return True
        operator, started = worker.operator, time.monotonic()
        with _named(worker):
            knows_others = self._moves.may_finish(worker)
        worker.steps.spend(time.monotonic() - started)
        port = operator.ports[0]
        if not knows_others or operator.target is not None or port.ordering is None or port.keys:
            return knows_others
        return all(other.done for other in self._workers.of(operator.id) if other.number < worker.number)

    def _process(self, worker: Worker, port: int, item: Item) -> None:
        batch = item.batch
        assert batch is not None
        if worker.lacks_state_of(item.owner, port):
            raise FlowFailed(worker.name, f"rows of worker {item.owner}'s partition came before its state")
        most = worker.rows_per_step()
        if batch.num_rows > most:
            self._queues.put_back(worker.index, item, batch.slice(most))
            batch = batch.slice(0, most)
        logic = worker.logic(item.owner)
        worker.begin_step(port, item.owner, batch.num_rows, time.monotonic())
        self._start_output(worker, lambda: logic.add(port, batch))

    def _start_output(self, worker: Worker, make: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        """Run an operator, up to the first that it gives."""
        started = time.monotonic()
        with _named(worker):
            output = iter(()) if self._mode == "drop" else make()
        worker.steps.spend(time.monotonic() - started)
        functions = None if self._mode == "drop" else worker.functions
        worker.output = output if functions is None else functions.through(output, last=worker.finishing)
        self._emit_next(worker)

    def _emit_next(self, worker: Worker) -> None:
        """Pass on the next that an operator gives. Its end is the end of a step."""
        assert worker.output is not None
        started = time.monotonic()
        with _named(worker):
            batch = next(worker.output, _END)
        worker.steps.spend(time.monotonic() - started)
        if isinstance(batch, pa.RecordBatch):
            self._outputs.pass_on(worker, batch)
        elif batch is _END:
            worker.output = None
            worker.steps.end()
            if worker.finishing:
                self._finished(worker)

    def _finished(self, worker: Worker) -> None:
        worker.done = True
        worker.logics.clear()
        self._outputs.report_done(worker.operator.id)


class _ProgressClock:
    """When a host shows how it is doing."""

    def __init__(self, every_s: float, show: Callable[[Progress], None]) -> None:
        self.show = show
        self._every_s = every_s
        self._due = 0.0
        self._idle_due = 0.0

    def is_due(self, *, at_once: bool) -> bool:
        """``at_once``: the driver waits for it; asked again and again, it is still not due more often than that."""
        now = time.monotonic()
        if now < (self._idle_due if at_once else self._due):
            return False
        self._due, self._idle_due = now + self._every_s, now + IDLE_REPORT_S
        return True


@contextmanager
def _named(worker: Worker) -> Iterator[None]:
    """Errors in operators, and in functions behind them, name the operator and the worker."""
    try:
        yield
    except FlowFailed:
        raise
    except Exception as error:
        raise FlowFailed(worker.name, f"{type(error).__name__}: {error}") from error
