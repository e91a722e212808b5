"""What an operator is to the runtime: batches in, batches out, and keyed state that can be split and merged (§5.1).

One object is the keyed state of ONE partition at one worker. A helper that works for a skewed worker holds a second
object for that owner, so the states of two owners never mix.

- At the owner, and at a helper that was handed over whole keys (split by keys), an object ends with `finish()`.
- At a helper that shares an owner's keys (split by records) the object is made with ``scattered=True``. It keeps back
  what only the owner can decide, ends with `export_scattered()`, and the owner merges that before its own `finish()`.

State travels as Arrow record batches only. What an `add` changes is changed when it returns; the batches it returns
are made while they are read, so that one row with a million matches needs the memory of one output batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa

from reshape.kernels.hashing import U64, Mask, mini_partitions
from reshape.operators.errors import PortError, StateMismatch

# Large enough that the cost of a batch is that of its rows, small enough for a cache and a prompt control message.
OUTPUT_ROWS = 65_536


class KeySet(Protocol):
    """Some of the keys of a partition, named by their hashes."""

    def holds(self, hashes: U64) -> Mask:
        """Which of the hashes belong to the set."""
        ...


@dataclass(frozen=True, slots=True)
class HashedKeys:
    """Keys one by one."""

    hashes: frozenset[int]

    def holds(self, hashes: U64) -> Mask:
        return np.isin(hashes, np.fromiter(self.hashes, dtype=np.uint64, count=len(self.hashes)))


@dataclass(frozen=True, slots=True)
class MiniPartitions:
    """All keys of some mini-partitions, of which each worker owns `per_worker`."""

    ids: frozenset[int]
    workers: int
    per_worker: int

    def holds(self, hashes: U64) -> Mask:
        ids = np.fromiter(self.ids, dtype=np.int64, count=len(self.ids))
        return np.isin(mini_partitions(hashes, self.workers, self.per_worker), ids)


@dataclass(frozen=True, slots=True)
class AllBut:
    """All keys that are not in a set."""

    others: KeySet

    def holds(self, hashes: U64) -> Mask:
        return ~self.others.holds(hashes)


@dataclass(frozen=True, slots=True)
class Either:
    """Keys that are in one of two sets."""

    first: KeySet
    second: KeySet

    def holds(self, hashes: U64) -> Mask:
        return self.first.holds(hashes) | self.second.holds(hashes)


class Operator(ABC):
    """The state and the work of one operator for one partition."""

    name: ClassVar[str]
    ports: ClassVar[int] = 1

    def __init__(self, output_schema: pa.Schema, *, scattered: bool, output_rows: int) -> None:
        self.output_schema = output_schema
        self.scattered = scattered
        self.output_rows = output_rows
        self._ended = [False] * self.ports

    @abstractmethod
    def add(self, port: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes a batch in; gives what can already be said for good. The result must be read to its end."""

    def end_port(self, port: int) -> Iterator[pa.RecordBatch]:
        """No more rows come through this port."""
        self._check_open(port)
        self._ended[port] = True
        return iter(())

    @abstractmethod
    def finish(self) -> Iterator[pa.RecordBatch]:
        """The rest of the output, once all ports have ended and all scattered parts have been merged."""

    @property
    @abstractmethod
    def state_bytes(self) -> int:
        """Memory that the state holds, about."""

    @abstractmethod
    def export_state(self, keys: KeySet | None, remove: bool) -> Iterator[pa.RecordBatch]:
        """The state of these keys (None: of all): a copy to replicate, or, with `remove`, the state itself."""

    @abstractmethod
    def merge_state(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Takes in exported state. Parts may come in any order and meet state that is already there."""

    def export_scattered(self) -> Iterator[pa.RecordBatch]:
        """All that this object adds to its owner's state; leaves the object empty."""
        return self.export_state(None, remove=True)

    @abstractmethod
    def preview(self, limit: int) -> pa.RecordBatch | None:
        """Up to `limit` rows of the output as it stands, for people to look at; None when there is nothing."""

    def preview_part(self, limit: int) -> pa.RecordBatch | None:
        """What this object adds to a preview of the whole output, for `Spec.merged_preview` to put together."""
        return None if self.scattered else self.preview(limit)

    def preview_leaves_out(self, limit: int) -> int | None:
        """Rows that a preview of so many does not show; None when it does not show all that has been processed."""
        return 0

    def _check_open(self, port: int) -> None:
        if not 0 <= port < self.ports:
            raise PortError(self.name, port, f"does not exist; there are {self.ports}")
        if self._ended[port]:
            raise PortError(self.name, port, "has ended")

    def _check_finish(self) -> None:
        for port, ended in enumerate(self._ended):
            if not ended:
                raise PortError(self.name, port, "has not ended, so the operator cannot finish")
        if self.scattered:
            raise PortError(self.name, 0, "holds a scattered part, which is merged at its owner, not finished here")

    def _check_schema(self, batch: pa.RecordBatch, wanted: pa.Schema) -> None:
        """State of another operator must not be taken for ours; names and types decide, nullability does not."""
        if batch.schema.names != wanted.names or batch.schema.types != wanted.types:
            raise StateMismatch(self.name, str(batch.schema), str(wanted))


def bounded(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most so many rows; nothing when it is empty."""
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
