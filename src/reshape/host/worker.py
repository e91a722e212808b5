"""A worker of one operator on a host: its state for its own partition, and for those that it helps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

import pyarrow as pa

from reshape.operators.base import Operator
from reshape.plan.physical import PhysicalOperator

# A batch is cut so that a step of one worker takes about so long: orders and other workers never wait for more.
STEP_S = 0.02
# With an emulated cost a worker only waits, and nobody waits for it: longer steps save the time of the host.
EMULATED_STEP_S = 0.1
ROWS_PER_STEP = 16_384
LEAST_ROWS_PER_STEP = 16


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


class CellCounts(NamedTuple):
    """How a worker of one operator is doing. Reports are frequent, so on the wire it is a list of these values."""

    operator: int
    worker: int
    waiting: list[int]  # per port, as the next two
    processed: list[int]
    of_owner: list[dict[int, int]]  # processed rows, by whose they were
    state_bytes: int
    emitted: int
    busy_s: float
    done: bool


@dataclass(slots=True)
class Cell:
    """One worker of one operator on this host."""

    operator: PhysicalOperator
    worker: int
    index: int
    logics: dict[int, Operator] = field(default_factory=dict)  # by owner
    copies: dict[int, Copied] = field(default_factory=dict)  # immutable state of others, by owner
    ended: list[bool] = field(default_factory=list)  # ports that the logic has been told about
    output: Iterator[pa.RecordBatch] | None = None  # what an add, an end or the finish still has to give
    finishing: bool = False
    done: bool = False
    free_at: float = 0.0  # emulated cost: not run before
    step: tuple[int, int, int] = (0, 0, 0)  # emulated cost: port, owner and rows of the newest step
    processed: list[int] = field(default_factory=list)
    of_owner: list[dict[int, int]] = field(default_factory=list)  # rows processed per port, by whose they were
    emitted: int = 0
    busy_s: float = 0.0
    seconds_per_row: float = 0.0

    def __post_init__(self) -> None:
        ports = len(self.operator.ports)
        self.ended = [False] * ports
        self.processed = [0] * ports
        self.of_owner = [{} for _ in range(ports)]

    def logic(self, owner: int) -> Operator:
        """The state for a partition; made when it is first needed."""
        logic = self.logics.get(owner)
        if logic is None:
            logic = self.operator.logic_of(owner).build(scattered=owner != self.worker)
            for port, ended in enumerate(self.ended):
                if ended:
                    for _ in logic.end_port(port):
                        pass  # an empty state has nothing to say
            self.logics[owner] = logic
        return logic

    @property
    def own(self) -> Operator:
        return self.logic(self.worker)

    def is_open(self, port: int) -> bool:
        """Has the worker heard of the end of the input before this one?"""
        after = self.operator.ports[port].after
        return after is None or self.ended[after]

    def rows_per_step(self) -> int:
        rows = float(ROWS_PER_STEP)
        if self.seconds_per_row > 0:
            rows = min(rows, STEP_S / self.seconds_per_row)
        if self.operator.cost_s_per_row > 0:
            rows = min(rows, EMULATED_STEP_S / self.operator.cost_s_per_row)
        return max(LEAST_ROWS_PER_STEP, int(rows))

    def count(self, port: int, owner: int, rows: int, seconds: float) -> None:
        """Book rows that were processed. The speed follows the newest steps."""
        self.processed[port] += rows
        self.of_owner[port][owner] = self.of_owner[port].get(owner, 0) + rows
        self.busy_s += max(seconds, self.operator.cost_s_per_row * rows)
        self.step = (port, owner, rows)
        self.seconds_per_row = 0.7 * self.seconds_per_row + 0.3 * seconds / rows

    def pending(self, now: float) -> int:
        """Rows of the newest step whose emulated cost is still to come."""
        if self.free_at <= now or not self.operator.cost_s_per_row:
            return 0
        return min(self.step[2], ceil((self.free_at - now) / self.operator.cost_s_per_row))

    def counts(self, waiting: list[int], now: float) -> CellCounts:
        """A row is processed when its emulated cost is over, not when its step begins."""
        processed, of_owner = self.processed.copy(), [counts.copy() for counts in self.of_owner]
        if pending := self.pending(now):
            port, owner, _ = self.step
            processed[port] -= pending
            of_owner[port][owner] -= pending
            waiting[port] += pending
        return CellCounts(
            self.operator.id,
            self.worker,
            waiting,
            processed,
            of_owner,
            sum([logic.state_bytes for logic in self.logics.values()]),
            self.emitted,
            round(self.busy_s, 6),
            self.done,
        )

    def lacks_state_of(self, owner: int, port: int) -> bool:
        """Would rows of this owner meet no state here? A worker that helps must have got a copy before (§5.2)."""
        return owner != self.worker and self.operator.ports[port].after is not None and owner not in self.copies
