"""What runs: operators with their inputs, placed on hosts. Frozen data that travels to the tasks with the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from reshape.control.balancing import REPORT_S, Balancing
from reshape.control.profile import Split
from reshape.control.strategies import STRATEGIES
from reshape.errors import FlowError
from reshape.kernels.ordering import Ordering
from reshape.operators.first_rows import FirstRows
from reshape.operators.spec import Combiner, Spec

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Port:
    """One input of an operator: rows find their owner by the hash of key columns or by their place in an order; with
    both, by the hash unless a key is heavy (:class:`reshape.operators.spec.PortSpec`).

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
    combine: Combiner | None = None  # what senders do to rows before they send them
    report_s: float = REPORT_S


@dataclass(frozen=True, slots=True)
class PhysicalOperator:
    """``target`` is the (operator, port) that its output goes to; None for the last one, whose output is the result.

    ``cost_s_per_row`` emulates an expensive operator, for experiments only.
    """

    id: int
    label: str
    logic: Spec
    ports: tuple[Port, ...]
    output: pa.Schema
    target: tuple[int, int] | None = None
    functions: tuple[ArrowFunction, ...] = ()
    cost_s_per_row: float = 0.0
    combine: bool = False  # whether senders may combine rows, if there is a way to
    mitigation: Balancing = field(default_factory=Balancing)
    ordered: str | None = None  # the function behind it that needs the rows of a key in their order

    def logic_of(self, owner: int) -> Spec:
        """What runs for the partition of this worker."""
        return self.logic.at(owner)

    def passes_on(self, port: int) -> bool:
        """Do rows of this input leave the operator while they come in?"""
        return not self.ports[port].mutable


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """How rows of one partition may be divided (§3.1), and why."""

    split: Split
    reason: str


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """Operators in the order of the flow. Every operator has the same workers, in contiguous ranges per host."""

    name: str
    operators: tuple[PhysicalOperator, ...]
    hosts: int
    workers: int
    buckets_per_worker: int = 16  # mini-partitions, the unit of Flux
    report_s: float = REPORT_S  # tasks report, and brains look at it, so often
    ordered: bool = False  # whether the running result needs the rows of a key in their order
    spare_hosts: int = 0  # tasks that start with the hosts and leave at once

    def workers_of(self, host: int) -> range:
        """The workers of a host; hosts differ by one worker at most."""
        return range(host * self.workers // self.hosts, (host + 1) * self.workers // self.hosts)

    def host_of_workers(self) -> tuple[int, ...]:
        return tuple(host for host in range(self.hosts) for _ in self.workers_of(host))

    def split(self, operator: PhysicalOperator, port: int) -> SplitChoice:
        """By records, unless something downstream needs the order of its input."""
        if not operator.passes_on(port):
            return SplitChoice(Split.BY_RECORDS, "the operator gives its rows at the end, in an order of its own")
        below: PhysicalOperator | None = operator
        while below is not None:
            if below.ordered is not None:
                return SplitChoice(Split.BY_KEYS, f"{below.ordered} needs the rows of a key in their order")
            if self.ordered and (below.target is None or self._shows(below.target)):
                return SplitChoice(Split.BY_KEYS, "the running result needs the rows of a key in their order")
            if below.target is None:
                break
            number, at = below.target
            below = self.operators[number]
            if not below.passes_on(at):
                break
        return SplitChoice(Split.BY_RECORDS, "nothing downstream needs the order of rows")

    def _shows(self, target: tuple[int, int]) -> bool:
        """Does this input feed groups whose running values are the result?"""
        operator = self.operators[target[0]]
        return operator.target is None and operator.logic.group_keys > 0

    def edge(self, operator: int, port: int) -> Edge:
        target = self.operators[operator]
        # A strategy that was added in the driver is unknown to the tasks: they count everything for it.
        strategy = STRATEGIES.get(target.mitigation.strategy)
        by_keys = self.split(target, port).split is Split.BY_KEYS
        return Edge(
            operator,
            port,
            target.ports[port],
            self.host_of_workers(),
            count_keys=strategy is None or strategy.keys or (by_keys and target.mitigation.strategy != "none"),
            count_buckets=strategy is None or strategy.buckets,
            buckets_per_worker=self.buckets_per_worker,
            combine=target.logic.combiner() if target.combine else None,
            report_s=self.report_s,
        )

    def port_label(self, operator: int, port: int) -> str:
        """What an input is called for people."""
        at = self.operators[operator]
        if len(at.ports) == 1:
            return at.label
        return f"{at.label}, {'build' if at.ports[port].after is None else 'probe'} side"

    @property
    def output(self) -> pa.Schema:
        """The rows of the result."""
        return next(operator.output for operator in self.operators if operator.target is None)

    @property
    def enough_rows(self) -> int | None:
        """How many rows of the result, whichever come first, are enough; None if all are wanted."""
        last = [operator for operator in self.operators if operator.target is None]
        cuts = [cut for operator in last for cut in operator.functions[-1:] if isinstance(cut, FirstRows)]
        return max(cut.rows for cut in cuts) if cuts and len(cuts) == len(last) else None

    @property
    def result_keys(self) -> int:
        """How many columns at the front of the result tell its rows apart: the keys of a last group-by."""
        last = [operator for operator in self.operators if operator.target is None]
        return last[0].logic.group_keys if len(last) == 1 and not last[0].functions else 0

    def source_target(self, source: int) -> tuple[int, int]:
        """The (operator, port) that a source feeds."""
        for operator in self.operators:
            for index, port in enumerate(operator.ports):
                if source in port.sources:
                    return operator.id, index
        raise FlowError(f"no operator of flow {self.name!r} takes rows of source {source}")

    def source_job(self, source: int) -> str:
        """What a source's job is called in Spark's UI."""
        operator, _ = self.source_target(source)
        return f"reshape {self.name}: source {source} for {self.operators[operator].label}"
