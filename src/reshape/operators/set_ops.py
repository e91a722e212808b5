"""Hash-based set operations with SQL's DISTINCT semantics: union (and distinct), intersection, difference.

A row is its own key. A result row appears when it is first known to be one, not at the end. Which rows have appeared is
part of the state: an object with a scattered part shows nothing, its rows go to the owner, and the owner shows at its
end those that had not appeared yet. Rows that have appeared are known again at their owner for good, also when their
state has been handed over: rows that waited elsewhere may come back to the owner alone. So every row appears once,
however the input was split and wherever its rows waited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reshape.kernels.columns import record_batch
from reshape.kernels.hashing import Mask, hash_rows
from reshape.kernels.keys import check_keys
from reshape.operators.base import OUTPUT_ROWS, KeySet, Operator, bounded
from reshape.operators.errors import KeyTypesDiffer, PortError
from reshape.operators.row_set import HashFunction, RowSet
from reshape.operators.spec import PortSpec, Spec

BUILD, PROBE = 0, 1

_KEPT_FOR_PREVIEW = 1_000

# Which set a row of exported state belongs to, and its flag.
_FLAG_FIELDS = [pa.field("__build", pa.bool_()), pa.field("__flag", pa.bool_())]


@dataclass(frozen=True)
class DistinctSpec(Spec):
    """The different rows of all that comes in: distinct, and union distinct of any number of inputs on one port."""

    schema: pa.Schema

    @classmethod
    def examples(cls, schema: pa.Schema) -> tuple[Spec, ...]:
        return (cls(schema),)

    @property
    def label(self) -> str:
        return "distinct"

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return (self.schema,)

    @property
    def ports(self) -> tuple[PortSpec, ...]:
        return (PortSpec(keys=tuple(range(len(self.schema)))),)

    @property
    def output_schema(self) -> pa.Schema:
        return self.schema

    def build(self, *, scattered: bool = False) -> Distinct:
        return Distinct(self, scattered=scattered)

    def passes(self, port: int, column: int) -> int | None:
        return column


@dataclass(frozen=True)
class SetProbeSpec(Spec):
    """Left rows that are also right rows (intersect), or that are not (subtract). Right is the build side."""

    schema: pa.Schema
    kind: Literal["intersect", "subtract"]
    right: pa.Schema | None = None

    def __post_init__(self) -> None:
        for left, right in zip(self.schema, self.right or self.schema, strict=True):
            if left.type != right.type:
                raise KeyTypesDiffer(self.kind, left.name, str(left.type), right.name, str(right.type))

    @classmethod
    def examples(cls, schema: pa.Schema) -> tuple[Spec, ...]:
        return (cls(schema, "intersect"), cls(schema, "subtract"))

    @property
    def label(self) -> str:
        return self.kind

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return (self.schema, self.right or self.schema)

    @property
    def ports(self) -> tuple[PortSpec, ...]:
        """As in Table 1. That a left row has appeared is kept apart, as a scattered part if need be."""
        keys = tuple(range(len(self.schema)))
        return (
            PortSpec(1, keys, role="right, kept in memory"),
            PortSpec(0, keys, after=BUILD, mutable=False, role="left, streams past it"),
        )

    @property
    def output_schema(self) -> pa.Schema:
        return self.schema

    def build(self, *, scattered: bool = False) -> SetProbe:
        return SetProbe(self, scattered=scattered)

    def passes(self, port: int, column: int) -> int | None:
        return column


class _SetOperator(Operator):
    """What all have in common: the set of result rows. Its flag says whether a row has appeared.

    ``_given``: rows that have appeared here, and whose state somebody else has got since.
    """

    def __init__(self, schema: pa.Schema, scattered: bool, output_rows: int, hash_function: HashFunction) -> None:
        super().__init__(schema, scattered=scattered, output_rows=output_rows)
        check_keys(self.name, schema, range(len(schema)))
        self._shown = RowSet(schema, meeting="or", hash_function=hash_function)
        self._given = RowSet(schema, meeting="or", hash_function=hash_function)
        self._state_schema = pa.schema([*_FLAG_FIELDS, *schema])
        self._last: pa.RecordBatch | None = None

    def finish(self) -> Iterator[pa.RecordBatch]:
        self._check_finish()
        if self._shown.all_flagged:
            return iter(())
        rows, shown = self._shown.rows()
        pending = np.flatnonzero(~shown)
        return rows.batches(self.output_rows, pending)

    def preview(self, limit: int) -> pa.RecordBatch | None:
        return None if self._last is None else self._last.slice(0, limit)

    @property
    def state_bytes(self) -> int:
        return self._shown.nbytes + self._given.nbytes

    def _show(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of the result that are new, unless only the owner can tell."""
        if len(self._given):
            batch = batch.filter(pa.array(~self._given.holds(batch)))
        new = self._shown.add(batch, flag=not self.scattered)
        if self.scattered or not new.num_rows:
            return iter(())
        self._last = new.slice(0, _KEPT_FOR_PREVIEW)
        return bounded(new, self.output_rows)

    def _exported(self, rows: RowSet, keys: KeySet | None, *, build: bool, remove: bool) -> list[pa.RecordBatch]:
        chosen = rows.chosen(keys)
        block, flags = rows.rows()
        wanted = np.flatnonzero(chosen)
        parts = []
        if len(wanted):
            columns = block.take(wanted)
            marks = [pa.array(np.full(len(wanted), build)), pa.array(flags[wanted])]
            parts.append(record_batch(self._state_schema, [*marks, *columns], len(wanted)))
        if remove:
            rows.keep(~chosen)
        return parts

    def _exported_shown(self, keys: KeySet | None, *, remove: bool) -> list[pa.RecordBatch]:
        parts = self._exported(self._shown, keys, build=False, remove=remove)
        if remove and not self.scattered:
            for _, rows, flags in self._parts(parts):
                self._given.add(rows.filter(pa.array(flags)), flag=True)
        return parts

    def _bounded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (part for batch in batches for part in bounded(batch, self.output_rows))

    def _parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[bool, pa.RecordBatch, Mask]]:
        """Exported state: whether it is of the build side, its rows, their flags."""
        for batch in batches:
            self._check_schema(batch, self._state_schema)
            for build in (True, False):
                part = batch.filter(batch.column(0) if build else pc.invert(batch.column(0)))
                if part.num_rows:
                    rows = record_batch(self.output_schema, part.columns[2:], part.num_rows)
                    yield build, rows, part.column(1).to_numpy(zero_copy_only=False)


class Distinct(_SetOperator):
    """Every different row, when it first comes."""

    name: ClassVar[str] = "distinct"

    def __init__(
        self,
        spec: DistinctSpec,
        *,
        scattered: bool = False,
        output_rows: int = OUTPUT_ROWS,
        hash_function: HashFunction = hash_rows,
    ) -> None:
        super().__init__(spec.schema, scattered, output_rows, hash_function)
        self.spec = spec

    def add(self, port: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._check_open(port)
        return self._show(batch) if batch.num_rows else iter(())

    def export_state(self, keys: KeySet | None, remove: bool) -> Iterator[pa.RecordBatch]:
        return self._bounded(self._exported_shown(keys, remove=remove))

    def merge_state(self, batches: Iterable[pa.RecordBatch]) -> None:
        for _, rows, flags in self._parts(batches):
            self._shown.merge(rows, flags)


class SetProbe(_SetOperator):
    """Intersection or difference: port 0 builds a set of the right rows, port 1 probes it with the left ones.

    The flag of a build row says that it is a replica, which its owner still has.
    """

    name: ClassVar[str] = "set operation"
    ports: ClassVar[int] = 2

    def __init__(
        self,
        spec: SetProbeSpec,
        *,
        scattered: bool = False,
        output_rows: int = OUTPUT_ROWS,
        hash_function: HashFunction = hash_rows,
    ) -> None:
        super().__init__(spec.schema, scattered, output_rows, hash_function)
        self.spec = spec
        self._build = RowSet(spec.schema, meeting="and", hash_function=hash_function)

    def add(self, port: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._check_open(port)
        if port == BUILD:
            if batch.num_rows:
                self._build.add(batch, flag=False)
            return iter(())
        if not self._ended[BUILD]:
            raise PortError(self.name, PROBE, "got rows before the build port has ended")
        found = self._build.holds(batch)
        kept = batch.filter(pa.array(found if self.spec.kind == "intersect" else ~found))
        return self._show(kept) if kept.num_rows else iter(())

    @property
    def state_bytes(self) -> int:
        return self._build.nbytes + super().state_bytes

    def export_state(self, keys: KeySet | None, remove: bool) -> Iterator[pa.RecordBatch]:
        """Handed over: all that is known of these keys. Replicated: what a scattered part needs, the build rows."""
        parts = self._exported(self._build, keys, build=True, remove=remove)
        if remove:
            parts += self._exported_shown(keys, remove=True)
        else:
            parts = [part.set_column(1, _FLAG_FIELDS[1], pa.array(np.ones(part.num_rows, np.bool_))) for part in parts]
        return self._bounded(parts)

    def export_scattered(self) -> Iterator[pa.RecordBatch]:
        """Build rows that the owner does not have, and the left rows that would have appeared."""
        _, replicas = self._build.rows()
        self._build.keep(~replicas)
        return self.export_state(None, remove=True)

    def merge_state(self, batches: Iterable[pa.RecordBatch]) -> None:
        for build, rows, flags in self._parts(batches):
            (self._build if build else self._shown).merge(rows, flags)
