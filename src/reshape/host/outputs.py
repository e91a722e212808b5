"""Where the rows of a host's operators go: to the workers of the next operator, or into the result."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from reshape.exchange.tally import RouterCounts
from reshape.host.outbound import Outbound
from reshape.host.results import Results
from reshape.host.worker import Worker, Workers
from reshape.plan.physical import PhysicalOperator, PhysicalPlan
from reshape.protocol.orders import UseBounds, UseTable
from reshape.protocol.reports import Fenced, OperatorDone, Report, TableApplied
from reshape.sender.edges import AnyRouter, router_name
from reshape.sender.ranges import RangeRouter


class Outputs:
    """Used by the working thread. ``routers`` are those of the operators that feed others; ``report`` tells the driver
    what must not be lost, without waiting."""

    def __init__(
        self,
        plan: PhysicalPlan,
        host: int,
        workers: Workers,
        routers: dict[int, AnyRouter],
        outbound: Outbound,
        results: Results,
        report: Callable[[Report], None],
    ) -> None:
        self._plan = plan
        self._host = host
        self._workers = workers
        self._routers = routers
        self._outbound = outbound
        self._results = results
        self._report = report
        self._done: set[int] = set()  # operators that have been reported as done

    def has_room(self, operator: PhysicalOperator) -> bool:
        return self._results.has_room() if operator.target is None else self._outbound.has_room()

    def pass_on(self, worker: Worker, batch: pa.RecordBatch) -> None:
        worker.emitted += batch.num_rows
        if batch.num_rows == 0:
            return
        if worker.operator.target is None:
            self._results.put(batch)
        else:
            self._routers[worker.operator.id].route(batch)

    def tick(self) -> None:
        for router in self._routers.values():
            router.tick()

    def counts(self) -> dict[int, RouterCounts]:
        """What the routers of operators here have sent so far."""
        return {operator: router.counts() for operator, router in self._routers.items() if operator not in self._done}

    def unsent(self) -> dict[int, int]:
        """Rows that operators have given and that those counts do not account for yet."""
        return {operator: router.unsent for operator, router in self._routers.items() if operator not in self._done}

    @property
    def all_done(self) -> bool:
        return len(self._done) == len(self._plan.operators)

    def set_bounds(self, order: UseBounds) -> None:
        for operator in self._senders(order.operator, order.port):
            router = self._routers.get(operator.id)
            if isinstance(router, RangeRouter):
                router.set_bounds(order.rows)
                self.report_done(operator.id)

    def use_table(self, order: UseTable) -> None:
        """Routers of operators here that feed the input that the table is for use it from their next batch on. With a
        fence, they also say when all that they sent before has been taken."""
        for sender in self._senders(order.operator, order.port):
            router = self._routers.get(sender.id)
            if router is None or sender.id in self._done:
                continue
            router.use(order.table)
            facts = (order.operator, order.port, router_name(sender.id, self._host), order.table.version)
            self._report(TableApplied(*facts))
            if order.fence:
                fenced = Fenced(*facts)
                self._outbound.fence(sender.id, order.table.version, lambda fenced=fenced: self._report(fenced))  # type: ignore[misc]

    def report_done(self, operator: int) -> None:
        """Tell the driver when all workers here have finished an operator and all its rows are with their receivers:
        it ends the next operator's input when all hosts have said so."""
        if operator in self._done or not all(worker.done for worker in self._workers.of(operator)):
            return
        router = self._routers.get(operator)
        if router is not None:
            router.flush()
            if isinstance(router, RangeRouter) and router.waiting:
                return  # its bounds are on their way, and bring us here again
        self._done.add(operator)
        counts = None if router is None else router.counts()
        self._outbound.end(operator, lambda: self._report(OperatorDone(operator, self._host, counts)))

    def _senders(self, operator: int, port: int) -> list[PhysicalOperator]:
        return [sender for sender in self._plan.operators if sender.target == (operator, port)]
