"""What runs: operators with their inputs, placed on hosts. Frozen data that travels to the tasks with the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from reshape.control.balancing import REPORT_S, Balancing
from reshape.control.profile import Split
from reshape.control.strategies import STRATEGIES
from reshape.kernels.ordering import Ordering
from reshape.operators.base import Operator
from reshape.plan.balancing import choose_split

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class LogicSpec(Protocol):
    """Makes the operator of one partition; ``scattered`` for a helper's part of it."""

    def build(self, *, scattered: bool) -> Operator: ...


@dataclass(frozen=True, slots=True)
class Port:
    """One input of an operator: rows find their owner by the hash of key columns or by their place in an order.

    ``sources`` and ``operators`` are the producers; a union has several. ``after`` is the port that has to end first,
    as the probe side of a join waits for the build side. ``mutable``: its rows change the state that they meet (§5.1).
    """

    schema: pa.Schema
    keys: tuple[int, ...] = ()
    ordering: Ordering | None = None
    sources: tuple[int, ...] = ()
    operators: tuple[int, ...] = ()
    after: int | None = None
    mutable: bool = True


@dataclass(frozen=True, slots=True)
class Edge:
    """All that a sender has to know: the input that it feeds and the host of each worker behind it.

    Source tasks get this instead of the plan, and so need none of the operators' code: half of their start-up time.
    """

    operator: int
    port: int
    input: Port
    hosts: tuple[int, ...]
    count_keys: bool = False  # whether the brain chooses among keys
    count_buckets: bool = False
    buckets_per_worker: int = 16
    combine: LogicSpec | None = None  # the group-by whose rows senders may combine before they send them
    report_s: float = REPORT_S


@dataclass(frozen=True, slots=True)
class PhysicalOperator:
    """``target`` is the (operator, port) that its output goes to; None for the last one, whose output is the result.

    ``logic_elsewhere`` is what all workers but the first one run, where that differs: a global aggregate of no rows is
    still one row. ``cost_s_per_row`` emulates an expensive operator, for experiments only.
    """

    id: int
    label: str
    logic: LogicSpec
    ports: tuple[Port, ...]
    output: pa.Schema
    target: tuple[int, int] | None = None
    functions: tuple[ArrowFunction, ...] = ()
    cost_s_per_row: float = 0.0
    combine: bool = False  # whether senders may combine rows of a group-by
    mitigation: Balancing = field(default_factory=Balancing)
    ordered: str | None = None  # the function behind it that needs the rows of a key in their order
    logic_elsewhere: LogicSpec | None = None

    def logic_of(self, owner: int) -> LogicSpec:
        return self.logic if owner == 0 or self.logic_elsewhere is None else self.logic_elsewhere


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """Operators in the order of the flow. Every operator has the same workers, in contiguous ranges per host."""

    name: str
    operators: tuple[PhysicalOperator, ...]
    hosts: int
    workers: int
    buckets_per_worker: int = 16  # mini-partitions, the unit of Flux
    report_s: float = REPORT_S  # tasks report, and brains look at it, so often

    def workers_of(self, host: int) -> range:
        """The workers of a host; hosts differ by one worker at most."""
        return range(host * self.workers // self.hosts, (host + 1) * self.workers // self.hosts)

    def host_of_workers(self) -> tuple[int, ...]:
        return tuple(host for host in range(self.hosts) for _ in self.workers_of(host))

    def edge(self, operator: int, port: int) -> Edge:
        target = self.operators[operator]
        # A strategy that was added in the driver is unknown to the tasks: they count everything for it.
        strategy = STRATEGIES.get(target.mitigation.strategy)
        by_keys = choose_split(self, target, port).split is Split.BY_KEYS
        return Edge(
            operator,
            port,
            target.ports[port],
            self.host_of_workers(),
            count_keys=strategy is None or strategy.keys or (by_keys and target.mitigation.strategy != "none"),
            count_buckets=strategy is None or strategy.buckets,
            buckets_per_worker=self.buckets_per_worker,
            combine=target.logic if target.combine else None,
            report_s=self.report_s,
        )

    def source_target(self, source: int) -> tuple[int, int]:
        """The (operator, port) that a source feeds."""
        for operator in self.operators:
            for index, port in enumerate(operator.ports):
                if source in port.sources:
                    return operator.id, index
        raise KeyError(source)

    def source_job(self, source: int) -> str:
        """What a source's job is called in Spark's UI."""
        operator, _ = self.source_target(source)
        return f"reshape {self.name}: source {source} for {self.operators[operator].label}"
