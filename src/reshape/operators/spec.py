"""What an operator is to a plan. A spec says all there is to say about its operator: what it takes, what it gives, how
it is described to people, which columns it needs, and how it is built where rows are.

Frozen data that travels to tasks. Plans know operators by this alone: a new one needs no change anywhere in `plan/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.kernels.ordering import Ordering
from reshape.operators.base import Operator


@dataclass(frozen=True, slots=True)
class PortSpec:
    """One port of an operator, fed by one of its inputs.

    Rows find their owner by the hash of key columns, by their place in an order, or, with neither, at worker 0. With
    both, an order that begins with the keys, it is by the hash of the key unless that is too heavy for one worker.
    ``after`` is the port that has to end first, as the probe side of a join waits for the build side. ``mutable``: its
    rows change the state that they meet (Table 1). ``role`` tells people what the input is to the operator.
    """

    input: int = 0
    keys: tuple[int, ...] = ()
    ordering: Ordering | None = None
    after: int | None = None
    mutable: bool = True
    role: str = ""


class Combiner(Protocol):
    """Makes fewer rows of many before they are sent. The operator takes them on the same port; they begin with the key
    columns of that port, in their order, and hash as the rows they were made of."""

    @property
    def keys(self) -> tuple[int, ...]:
        """The key columns of combined rows; none when all go to worker 0."""
        ...

    def combine(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Combined rows of a batch."""
        ...

    def merge(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Combined rows of several batches, combined once more."""
        ...


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Groups of a running result as sums that grow with the input: ``rows`` of the result, and for each of them the
    hash of its key (0 without keys) and its sums.

    ``of`` says for each column of the result that can be estimated which columns of ``sums`` it is made of: one for a
    count or a sum, two for a mean, which is the first over the second.
    """

    rows: pa.RecordBatch
    hashes: npt.NDArray[np.uint64]
    sums: npt.NDArray[np.float64]  # rows x columns
    of: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Narrowed:
    """A spec over narrower inputs, and which of its former output columns it still gives, in order."""

    spec: Spec
    gives: list[int]


class Spec(ABC):
    """One operator of a flow. Columns are known by number; `inputs` are the schemas they count in."""

    # Whether it can give some of its output columns and no others.
    exact: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def examples(cls, schema: pa.Schema) -> tuple[Spec, ...]:
        """Operators of this kind over rows whose first column is a key and second a whole number.

        What holds for all operators is checked on these, so that a new one is checked with the others.
        """

    @property
    @abstractmethod
    def label(self) -> str:
        """What people call the operator."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[pa.Schema, ...]:
        """The rows of each input, as users gave them: the left one first."""

    @property
    @abstractmethod
    def ports(self) -> tuple[PortSpec, ...]:
        """How the inputs reach the operator; a port is numbered by its place."""

    @property
    @abstractmethod
    def output_schema(self) -> pa.Schema:
        """The rows that it gives."""

    @abstractmethod
    def build(self, *, scattered: bool = False) -> Operator:
        """The operator of one partition; ``scattered`` for a helper's part of it."""

    def at(self, owner: int) -> Spec:
        """What runs for the partition of this worker, where that is not the same for all."""
        return self

    @property
    def combinable(self) -> bool:
        """Whether two partial states of a key are combined at a small cost, without keeping all their rows."""
        return True

    @property
    def looks_beyond(self) -> int | None:
        """So many rows of the ranges beside its own a worker has to know before it can finish, for the operator is a
        :class:`reshape.operators.ranged.RangedOperator`; None where each worker finishes by itself."""
        return None

    def undivided(self) -> Spec:
        """The same where all rows of a key are at one worker when it finishes."""
        return self

    @property
    def carries(self) -> bool:
        """Whether such ranges are computed one after the other, each from what the one before has left."""
        return False

    def combiner(self) -> Combiner | None:
        """What senders do to rows before they send them; None where that would not make less to send."""
        return None

    def merged_preview(self, parts: Sequence[pa.RecordBatch], limit: int) -> list[pa.RecordBatch]:
        """What all workers' `Operator.preview_part` show together, in at most so many rows where parts overlap."""
        return list(parts)

    def merged_sums(self, parts: Sequence[pa.RecordBatch], limit: int) -> GroupSums | None:
        """The same as sums that grow with the input; None where the output is no such thing."""
        return None

    @property
    def group_keys(self) -> int:
        """How many columns at the front of the output tell its rows apart; 0 where none do."""
        return 0

    def gives_at_once(self, port: int) -> bool:
        """Whether all that comes of a port's row is given when it comes, so that a part of the rows gives its part of
        the output."""
        return False

    def passes(self, port: int, column: int) -> int | None:
        """The output column that holds a column of a port's input unchanged; None where there is none."""
        return None

    def needs(self, wanted: Sequence[int]) -> tuple[set[int], ...]:
        """The columns of each input without which these output columns cannot be given."""
        return tuple(set(range(len(schema))) for schema in self.inputs)

    def narrowed(self, wanted: Sequence[int], kept: Sequence[list[int]], schemas: Sequence[pa.Schema]) -> Narrowed:
        """The operator over inputs of which some columns are left: those that it needs, maybe more.

        ``kept`` are their former numbers, in order, and ``schemas`` what the inputs are now.
        """
        return Narrowed(self, list(range(len(self.output_schema))))

    def facts(self, shown: Callable[[pa.Field], str]) -> list[str]:
        """Lines for `explain`; ``shown`` writes a column with its type as Spark's users know it."""
        port = self.ports[0]
        schema = self.inputs[port.input]
        return [f"keys: {', '.join(shown(schema.field(key)) for key in port.keys)}"]


def chosen(schema: pa.Schema, numbers: Sequence[int]) -> pa.Schema:
    """Some columns of a schema."""
    return pa.schema([schema.field(number) for number in numbers])
