"""A worker of one operator on a host: its state for its own partition, and for those that it helps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

import pyarrow as pa

from reshape.host.functions import WorkerFunctions
from reshape.host.pace import MOST_ROWS_PER_CALL, Pace, Steps
from reshape.operators.base import Operator
from reshape.plan.nodes import RowFunction
from reshape.plan.physical import PhysicalOperator, PhysicalPlan
from reshape.protocol.reports import WorkerCounts

# With an emulated cost a worker only waits, and nobody waits for it: longer steps save the time of the host.
EMULATED_STEP_S = 0.1
# A worker with an emulated cost that is later than this for its turn has lost the time, as on a machine that stalls.
LATE_S = 0.5


@dataclass(frozen=True, slots=True)
class Copied:
    """What a worker has of another one's immutable state: by key, by mini-partition, or all of it."""

    keys: frozenset[int] = frozenset()
    buckets: frozenset[int] = frozenset()
    everything: bool = False

    def __or__(self, other: Copied) -> Copied:
        return Copied(self.keys | other.keys, self.buckets | other.buckets, self.everything or other.everything)

    def covers(self, other: Copied) -> bool:
        """Surely; a key that is there with its mini-partition is not found."""
        if self.everything or other.everything:
            return self.everything
        return other.keys <= self.keys and other.buckets <= self.buckets


@dataclass(slots=True)
class EmulatedCost:
    """An expensive operator, for experiments only: after a step its worker is not run before ``free_at``."""

    s_per_row: float
    free_at: float = 0.0
    step: tuple[int, int, int] = (0, 0, 0)  # port, owner and rows of the newest step

    def begin(self, port: int, owner: int, rows: int, started: float) -> None:
        """A step has begun. A worker that had rows and was late for its turn makes up for it: emulated workers have
        their own cores."""
        self.step = (port, owner, rows)
        if self.s_per_row:
            begun = max(self.free_at, started - LATE_S) if self.free_at else started
            self.free_at = begun + self.s_per_row * rows

    def pending(self, now: float) -> int:
        """Rows of the newest step whose emulated cost is still to come."""
        if self.free_at <= now or not self.s_per_row:
            return 0
        return min(self.step[2], ceil((self.free_at - now) / self.s_per_row))


@dataclass(slots=True)
class Worker:
    """One worker of one operator on this host. ``index`` is its place among all workers of the host."""

    operator: PhysicalOperator
    number: int
    index: int
    logics: dict[int, Operator] = field(default_factory=dict)  # by owner
    copies: dict[int, Copied] = field(default_factory=dict)  # immutable state of others, by owner
    ended: list[bool] = field(default_factory=list)  # ports that the logic has been told about
    output: Iterator[pa.RecordBatch | None] | None = None  # what an add, an end or the finish still has to give
    finishing: bool = False
    done: bool = False
    cost: EmulatedCost = field(init=False)
    processed: list[int] = field(default_factory=list)
    of_owner: list[dict[int, int]] = field(default_factory=list)  # rows processed per port, by whose they were
    emitted: int = 0
    steps: Steps = field(default_factory=Steps)
    functions: WorkerFunctions | None = None  # behind the operator

    def __post_init__(self) -> None:
        if functions := self.operator.functions:
            # Expressions of Spark's by Arrow cost next to nothing; cut into small pieces they would cost more.
            known = all(isinstance(function, RowFunction) for function in functions)
            pace = Pace() if known else Pace(MOST_ROWS_PER_CALL)
            self.functions = WorkerFunctions(functions, self.operator.output, pace)
        ports = len(self.operator.ports)
        self.ended = [False] * ports
        self.processed = [0] * ports
        self.of_owner = [{} for _ in range(ports)]
        self.cost = EmulatedCost(self.operator.cost_s_per_row)

    def logic(self, owner: int) -> Operator:
        """The state for a partition; made when it is first needed."""
        logic = self.logics.get(owner)
        if logic is None:
            logic = self.operator.logic_of(owner).build(scattered=owner != self.number)
            for port, ended in enumerate(self.ended):
                if ended:
                    for _ in logic.end_port(port):
                        pass  # an empty state has nothing to say
            self.logics[owner] = logic
        return logic

    @property
    def own(self) -> Operator:
        return self.logic(self.number)

    def drop_output(self) -> None:
        """Nobody wants what its newest step still has to give, nor that its rows cost what they are to cost."""
        self.output = None if self.output is None else iter(())
        self.cost = EmulatedCost(0.0)

    def close(self) -> None:
        """Let go of functions that are still at work."""
        if self.functions is not None:
            self.functions.close()

    @property
    def name(self) -> str:
        return f"{self.operator.label}, worker {self.number}"

    def is_open(self, port: int) -> bool:
        """Has the worker heard of the end of the input before this one?"""
        after = self.operator.ports[port].after
        return after is None or self.ended[after]

    def rows_per_step(self) -> int:
        rows = self.steps.taken.rows()
        if self.cost.s_per_row > 0:
            rows = max(1, min(rows, int(EMULATED_STEP_S / self.cost.s_per_row)))
        return rows

    def begin_step(self, port: int, owner: int, rows: int, started: float) -> None:
        """Rows are processed in this step; their cost, if it is not emulated, is told with each part of it."""
        self.processed[port] += rows
        self.of_owner[port][owner] = self.of_owner[port].get(owner, 0) + rows
        self.steps.begin(rows)
        self.steps.busy_s += self.cost.s_per_row * rows
        self.cost.begin(port, owner, rows, started)

    def counts(self, waiting: list[int], now: float) -> WorkerCounts:
        """A row is processed when its emulated cost is over, not when its step begins."""
        processed, of_owner = self.processed.copy(), [counts.copy() for counts in self.of_owner]
        if pending := self.cost.pending(now):
            port, owner, _ = self.cost.step
            processed[port] -= pending
            of_owner[port][owner] -= pending
            waiting[port] += pending
        return WorkerCounts(
            self.operator.id,
            self.number,
            tuple(waiting),
            tuple(processed),
            tuple(of_owner),
            sum([logic.state_bytes for logic in self.logics.values()]),
            self.emitted,
            round(self.steps.busy_s, 6),
            self.done,
        )

    def lacks_state_of(self, owner: int, port: int) -> bool:
        """Would rows of this owner meet no state here? A worker that helps must have got a copy before (§5.2)."""
        return owner != self.number and self.operator.ports[port].after is not None and owner not in self.copies


class Workers:
    """All workers of a host, those of one operator side by side."""

    def __init__(self, plan: PhysicalPlan, host: int) -> None:
        self._numbers = plan.workers_of(host)
        self._workers: list[Worker] = []
        for operator in plan.operators:
            for number in self._numbers:
                self._workers.append(Worker(operator, number, len(self._workers)))

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers)

    def index(self, operator: int, number: int) -> int:
        """The place of a worker in the queues of its host."""
        return operator * len(self._numbers) + number - self._numbers.start

    def get(self, operator: int, number: int) -> Worker:
        return self._workers[self.index(operator, number)]

    def of(self, operator: int) -> list[Worker]:
        first = operator * len(self._numbers)
        return self._workers[first : first + len(self._numbers)]
