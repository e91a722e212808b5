"""The working thread of a host: takes waiting rows, lets operators process them, sends on what they give.

One thread does all of it, so operators need no locks. It never waits for another host: rows for others go through
:class:`Outbound`, and an operator whose output has no room is not run until it has. Orders are obeyed between batches.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from reshape.errors import FlowFailed
from reshape.exchange.queues import HostQueues
from reshape.exchange.worker_queue import Item
from reshape.host.moves.moves import HostMoves
from reshape.host.outbound import Outbound
from reshape.host.reporter import Preview, Report
from reshape.host.results import Results
from reshape.host.worker import Cell, CellCounts
from reshape.plan.physical import PhysicalOperator, PhysicalPlan
from reshape.protocol.errors import Aborted
from reshape.protocol.link import Order, from_text
from reshape.protocol.tables import unpack_table
from reshape.sender.edges import AnyRouter
from reshape.sender.flushing import FLUSH_S
from reshape.sender.ranges import RangeRouter

# After the end of an input the driver waits for the last rows: a host that has nothing to do says so at once, almost.
IDLE_REPORT_S = 0.01
# A person sees a chart move four times a second; more rows than these fit no screen.
PREVIEW_S = 0.25
PREVIEW_ROWS = 1_000
# How long the loop sleeps when nothing can be done; whatever changes wakes it earlier.
IDLE_S = 0.02
# A worker with an emulated cost that is later than this for its turn has lost the time, as on a machine that stalls.
LATE_S = 0.5


class HostLoop:
    def __init__(
        self,
        plan: PhysicalPlan,
        host: int,
        queues: HostQueues,
        outbound: Outbound,
        results: Results,
        *,
        previews: bool = True,
    ) -> None:
        self._shows = previews
        self._plan = plan
        self._host = host
        self._queues = queues
        self._outbound = outbound
        self._results = results
        self._orders: deque[Order] = deque()
        self._ended_ports: set[tuple[int, int]] = set()
        self._ending: set[tuple[int, int]] = set()  # all rows have been sent; some may wait
        self._said_done: set[int] = set()
        self._routers: dict[int, AnyRouter] = {}
        self.on_operator_done: Callable[[int], None] = lambda _: None
        self.on_table: Callable[[int, Order], None] = lambda _operator, _order: None
        self.on_report: Callable[[Report], None] = lambda _: None
        self.transfers: HostMoves | None = None
        self._calls: deque[Callable[[], None]] = deque()
        self._report_at = 0.0
        self._preview_at = 0.0
        self._last_shown: dict[int, pa.RecordBatch] = {}  # by cell; what is shown of workers that are done
        self._idle_report_at = 0.0
        self._worked = False  # since the last report
        self._flush_at = 0.0
        self.cells: list[Cell] = []
        for operator in plan.operators:
            for worker in plan.workers_of(host):
                self.cells.append(Cell(operator, worker, len(self.cells)))
        # Later operators first: what is nearest to the result moves on, and queues stay short.
        self._turns = [
            deque(cell for cell in self.cells if cell.operator is operator) for operator in reversed(plan.operators)
        ]

    def cell_index(self, operator: int, worker: int) -> int:
        workers = self._plan.workers_of(self._host)
        return operator * len(workers) + worker - workers.start

    def cell(self, operator: int, worker: int) -> Cell:
        return self.cells[self.cell_index(operator, worker)]

    def soon(self, call: Callable[[], None]) -> None:
        """Run something in the working thread, between two batches; any thread may call this."""
        self._calls.append(call)
        self._queues.wake()

    def add_router(self, operator: int, router: AnyRouter) -> None:
        self._routers[operator] = router

    def obey(self, order: Order) -> None:
        """Take an order; any thread may call this."""
        self._orders.append(order)
        self._queues.wake()

    def run(self, stop: threading.Event) -> None:
        """Work until all operators are done, an order aborts the run, or ``stop`` is set."""
        while not stop.is_set():
            self._take_orders()
            self._transfer()
            self._report()
            self._flush()
            if len(self._said_done) == len(self._plan.operators):
                self._report_at = self._preview_at = 0.0
                self._report()  # what is shown from now on is complete
                return
            if self._step():
                self._worked = True
            else:
                self._idle()

    def _transfer(self) -> None:
        while self._calls:
            self._calls.popleft()()
        if self.transfers is not None:
            self.transfers.step()

    def _report(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if now < (self._idle_report_at if at_once else self._report_at):
            return
        self._report_at, self._idle_report_at = now + self._plan.report_s, now + IDLE_REPORT_S
        self._worked = False
        previews: list[Preview] | None = None
        if self._shows and now >= self._preview_at:
            self._preview_at = now + PREVIEW_S
            previews = self._previews()
        self.on_report(Report(self.progress(), previews, self.router_counts()))

    def _previews(self) -> list[Preview]:
        """What the last operator's workers can show so far. Groups are partial rows: helpers have parts of them too."""
        shown = []
        for cell in self.cells:
            if cell.operator.target is not None:
                continue
            batch = self._last_shown.get(cell.index) or self._preview(cell)
            if batch is not None and batch.num_rows:
                shown.append((cell.operator.id, cell.worker, batch))
        return shown

    def _preview(self, cell: Cell) -> pa.RecordBatch | None:
        parts = [part for logic in cell.logics.values() if (part := logic.preview_part(PREVIEW_ROWS)) is not None]
        return pa.concat_batches(parts) if parts else None

    def _flush(self) -> None:
        """Rows of an operator that gives few must not lie in a half-full message while others are busy."""
        now = time.monotonic()
        if now >= self._flush_at:
            self._flush_at = now + FLUSH_S
            for router in self._routers.values():
                router.flush()

    def _idle(self) -> None:
        if self._worked and any(self._is_through(*port) for port in self._ending):
            self._report(at_once=True)
        now = time.monotonic()
        # Free workers wait for rows, which wake the loop; the others for the end of their emulated cost.
        waits = [cell.free_at - now for cell in self.cells if not cell.done and cell.free_at > now]
        self._queues.wait_for_rows(min([IDLE_S, *waits]))

    def _is_through(self, operator: int, port: int) -> bool:
        """Has everything that came here for an input been processed?"""
        now = time.monotonic()
        cells = [cell for cell in self.cells if cell.operator.id == operator]
        return not any(self._queues.waiting(cell.index)[port] or cell.pending(now) for cell in cells)

    def _take_orders(self) -> None:
        while self._orders:
            order = self._orders.popleft()
            if self.transfers is not None and self.transfers.obeys(order):
                continue
            if order["kind"] == "ending":
                self._ending.add((order["operator"], order["port"]))
                self._worked = True  # perhaps its last rows are done already, and nobody has said so
            elif order["kind"] == "end":
                self._ending.discard((order["operator"], order["port"]))
                self._ended_ports.add((order["operator"], order["port"]))
            elif order["kind"] == "bounds":
                self._set_bounds((order["operator"], order["port"]), from_text(order["rows"]))
            elif order["kind"] == "routing":
                self._use_table(order)
            elif order["kind"] == "abort":
                raise Aborted(order.get("where", "another task"), order["cause"])

    def _set_bounds(self, target: tuple[int, int], bounds: pa.RecordBatch) -> None:
        for operator in self._plan.operators:
            router = self._routers.get(operator.id)
            if operator.target == target and isinstance(router, RangeRouter):
                router.set_bounds(bounds)
                self._say_done(operator.id)

    def _use_table(self, order: Order) -> None:
        """Routers of operators here that feed the input that the table is for use it from their next batch on."""
        for sender in self._plan.operators:
            if sender.target != (order["operator"], order["port"]):
                continue
            router = self._routers.get(sender.id)
            if router is not None and sender.id not in self._said_done:
                router.use(unpack_table(order["table"]))
                self.on_table(sender.id, order)

    def _step(self) -> bool:
        """Let one cell do one piece of work; False if none can."""
        now = time.monotonic()
        for cells in self._turns:
            if not self._has_room(cells[0].operator):
                continue
            for _ in range(len(cells)):
                cell = cells[0]
                cells.rotate(-1)
                if not cell.done and cell.free_at <= now and self._work(cell):
                    return True
        return False

    def _has_room(self, operator: PhysicalOperator) -> bool:
        return self._results.has_room() if operator.target is None else self._outbound.has_room()

    def _work(self, cell: Cell) -> bool:
        if cell.output is not None:
            self._emit_next(cell)
            return True
        for port in range(len(cell.operator.ports)):
            after = cell.operator.ports[port].after
            if cell.ended[port] or (after is not None and not cell.ended[after]):
                continue
            item = self._queues.take(cell.index, port)
            if item is not None:
                self._process(cell, port, item)
                return True
            if (cell.operator.id, port) in self._ended_ports:
                own = cell.own  # made before it hears of the end
                assert list(cell.logics) == [cell.worker], "scattered parts are with their owners by now"
                cell.ended[port] = True
                self._start_output(cell, partial(own.end_port, port))
                return True
        if all(cell.ended) and not cell.finishing and self._may_finish(cell):
            cell.finishing = True
            if self._shows and cell.operator.target is None and (batch := self._preview(cell)) is not None:
                self._last_shown[cell.index] = batch
            self._start_output(cell, cell.own.finish)
            if cell.output is None:
                self._finished(cell)
            return True
        cell.free_at = 0.0  # nothing to do: it is not late for the rows that come next
        return False

    def _may_finish(self, cell: Cell) -> bool:
        """An ordered result leaves worker by worker."""
        if cell.operator.target is not None or cell.operator.ports[0].ordering is None:
            return True
        return all(other.done for other in self.cells if other.operator is cell.operator and other.worker < cell.worker)

    def _process(self, cell: Cell, port: int, item: Item) -> None:
        batch = item.batch
        assert batch is not None
        if cell.lacks_state_of(item.owner, port):
            where = f"{cell.operator.label}, worker {cell.worker}"
            raise FlowFailed(where, f"rows of worker {item.owner}'s partition came before its state")
        most = cell.rows_per_step()
        if batch.num_rows > most:
            self._queues.put_back(cell.index, item, batch.slice(most))
            batch = batch.slice(0, most)
        started = time.monotonic()
        logic = cell.logic(item.owner)
        self._start_output(cell, lambda: logic.add(port, batch))
        cell.count(port, item.owner, batch.num_rows, time.monotonic() - started)
        if cell.operator.cost_s_per_row:
            # A worker that had rows and was late for its turn makes up for it: emulated workers have their own cores.
            begun = max(cell.free_at, started - LATE_S) if cell.free_at else started
            cell.free_at = begun + cell.operator.cost_s_per_row * batch.num_rows

    def _start_output(self, cell: Cell, make: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        """Run an operator; errors in it name the operator and the worker."""
        try:
            output = make()
            first = next(output, None)
        except Exception as error:
            raise self._failed(cell, error) from error
        if first is not None:
            self._emit(cell, first)
            cell.output = output

    def _emit_next(self, cell: Cell) -> None:
        assert cell.output is not None
        try:
            batch = next(cell.output, None)
        except Exception as error:
            raise self._failed(cell, error) from error
        if batch is not None:
            self._emit(cell, batch)
            return
        cell.output = None
        if cell.finishing:
            self._finished(cell)

    def _emit(self, cell: Cell, batch: pa.RecordBatch) -> None:
        if not cell.operator.functions:
            self._pass_on(cell, batch)
            return
        batches = iter((batch,))
        for function in cell.operator.functions:
            batches = function(batches)
        try:
            for made in batches:
                self._pass_on(cell, _as_promised(made, cell.operator.output))
        except FlowFailed:
            raise
        except Exception as error:
            raise self._failed(cell, error) from error

    def _pass_on(self, cell: Cell, batch: pa.RecordBatch) -> None:
        cell.emitted += batch.num_rows
        if batch.num_rows == 0:
            return
        if cell.operator.target is None:
            self._results.put(batch)
        else:
            self._routers[cell.operator.id].route(batch)

    def _finished(self, cell: Cell) -> None:
        cell.done = True
        cell.logics.clear()
        self._say_done(cell.operator.id)

    def _say_done(self, operator: int) -> None:
        """Tell the driver when all workers here have finished an operator and all its rows are with their receivers:
        it ends the next operator's input when all hosts have said so."""
        if not all(cell.done for cell in self.cells if cell.operator.id == operator) or operator in self._said_done:
            return
        router = self._routers.get(operator)
        if router is not None:
            router.flush()
            if isinstance(router, RangeRouter) and router.waiting:
                return  # its bounds are on their way, and bring us here again
        self._said_done.add(operator)
        self._outbound.end(operator, lambda: self.on_operator_done(operator))

    def _failed(self, cell: Cell, error: Exception) -> FlowFailed:
        where = f"{cell.operator.label}, worker {cell.worker}"
        return FlowFailed(where, f"{type(error).__name__}: {error}")

    def sent(self, operator: int) -> dict[str, Any] | None:
        """The last counts of an operator's router."""
        router = self._routers.get(operator)
        return router.report() if router is not None else None

    def router_counts(self) -> dict[int, dict[str, Any]]:
        """What the routers of operators here have sent so far."""
        return {
            operator: router.report() for operator, router in self._routers.items() if operator not in self._said_done
        }

    def progress(self) -> list[CellCounts]:
        """Counts per cell, for the driver."""
        now = time.monotonic()
        return [cell.counts(self._queues.waiting(cell.index), now) for cell in self.cells]


def _as_promised(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """What a user's function gave, as the schema that was promised for it; columns are found by name."""
    if batch.schema.equals(schema):
        return batch
    if set(batch.schema.names) != set(schema.names):
        raise ValueError(f"the function gave the columns {batch.schema.names}, but promised {schema.names}")
    return batch.select(schema.names).cast(schema)
