"""A user's function of whole groups: applyInPandas and applyInArrow. Rows are kept until the input ends; then the
function is called once for each group, where its owner has all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from reshape.kernels.codes import order_of_codes
from reshape.kernels.columns import Rows
from reshape.kernels.hashing import U64, hash_rows
from reshape.kernels.keys import KeyColumns, check_keys
from reshape.operators.base import OUTPUT_ROWS, KeySet, Operator, bounded
from reshape.operators.errors import GroupFunctionFailed
from reshape.operators.spec import PortSpec, Spec

# From all rows of a group to rows of the result.
GroupFunction = Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]]

# What a preview calls the function with: it may be slow, and is called again for each preview.
_PREVIEW_ROWS = 1_024


@dataclass(frozen=True)
class GroupMapSpec(Spec):
    """What to group, the function, and the rows that it gives. Without keys there is one group of all rows."""

    schema: pa.Schema
    keys: tuple[int, ...]
    function: GroupFunction
    gives: pa.Schema
    label: str = "apply"

    @classmethod
    def examples(cls, schema: pa.Schema) -> tuple[Spec, ...]:
        sizes = pa.schema([pa.field("rows", pa.int64())])
        return (cls(schema, (0,), _size, sizes), cls(schema, (), _size, sizes))

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return (self.schema,)

    @property
    def ports(self) -> tuple[PortSpec, ...]:
        return (PortSpec(keys=self.keys),)

    @property
    def output_schema(self) -> pa.Schema:
        return self.gives

    def build(self, *, scattered: bool = False) -> GroupMap:
        return GroupMap(self, scattered=scattered)

    @property
    def combinable(self) -> bool:
        return False

    def facts(self, shown: Callable[[pa.Field], str]) -> list[str]:
        names = ", ".join(shown(self.schema.field(key)) for key in self.keys)
        return [f"keys: {names}" if names else "keys: none; all rows are one group, at worker 0"]


class GroupMap(Operator):
    """The rows of one partition."""

    name: ClassVar[str] = "apply"

    def __init__(self, spec: GroupMapSpec, *, scattered: bool = False, output_rows: int = OUTPUT_ROWS) -> None:
        check_keys(self.name, spec.schema, spec.keys)
        super().__init__(spec.output_schema, scattered=scattered, output_rows=output_rows)
        self.spec = spec
        self._rows_schema = pa.schema([field.with_type(_plain_type(field.type)) for field in spec.schema])
        self._held: list[pa.RecordBatch] = []

    def add(self, port: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._check_open(port)
        if batch.num_rows:
            self._held.append(batch.cast(self._rows_schema) if _has_dictionaries(batch) else batch)
        return iter(())

    def finish(self) -> Iterator[pa.RecordBatch]:
        self._check_finish()
        held, self._held = self._held, []
        return self._gathered(self._applied(held))

    @property
    def state_bytes(self) -> int:
        return sum(batch.nbytes for batch in self._held)

    def export_state(self, keys: KeySet | None, remove: bool) -> Iterator[pa.RecordBatch]:
        given, kept = self._held, []
        if keys is not None:
            given = []
            for batch in self._held:
                chosen = keys.holds(self._hashes(batch))
                given.append(batch.filter(pa.array(chosen)))
                kept.append(batch.filter(pa.array(~chosen)))
        if remove:
            self._held = [batch for batch in kept if batch.num_rows]
        return (part for batch in given for part in bounded(batch, self.output_rows))

    def merge_state(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._check_schema(batch, self._rows_schema)
            if batch.num_rows:
                self._held.append(batch)

    def preview(self, limit: int) -> pa.RecordBatch | None:
        """What the function makes of the first rows; nothing where it cannot do with some of them."""
        some: list[pa.RecordBatch] = []
        for batch in self._held:
            some.append(batch.slice(0, _PREVIEW_ROWS - sum(part.num_rows for part in some)))
            if sum(part.num_rows for part in some) >= _PREVIEW_ROWS:
                break
        try:
            shown = next(self._gathered(self._applied(some)), None)
        except GroupFunctionFailed:
            return None
        return None if shown is None else shown.slice(0, limit)

    def _applied(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not batches:
            return
        rows = Rows.of(self._rows_schema, batches)
        codes, first = KeyColumns([rows.columns[key] for key in self.spec.keys], len(rows)).codes()
        order = order_of_codes(codes, len(first))
        start = 0
        for size in np.bincount(codes, minlength=len(first)).tolist():
            group = rows.take_batch(order[start : start + size])
            start += size
            try:
                yield from (self._promised(made) for made in self.spec.function(group))
            except Exception as error:  # a user's function may raise anything
                cause = f"{type(error).__name__}: {error}"
                raise GroupFunctionFailed(self.name, self.spec.label, cause) from error

    def _promised(self, made: pa.RecordBatch) -> pa.RecordBatch:
        wanted = self.output_schema
        return made if made.schema.equals(wanted) else made.rename_columns(wanted.names).cast(wanted)

    def _gathered(self, made: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Few batches of many small ones: most groups are small."""
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in made:
            waiting.append(batch)
            rows += batch.num_rows
            if max(rows, len(waiting)) >= self.output_rows:
                yield from self._together(waiting)
                waiting, rows = [], 0
        yield from self._together(waiting)

    def _together(self, waiting: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return Rows.of(self.output_schema, waiting).batches(self.output_rows)

    def _hashes(self, batch: pa.RecordBatch) -> U64:
        if not self.spec.keys:
            return np.zeros(batch.num_rows, dtype=np.uint64)
        return hash_rows([batch.column(key) for key in self.spec.keys])


def _size(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """How many rows a group has."""
    yield pa.record_batch([pa.array([rows.num_rows], pa.int64())], names=["rows"])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pat.is_dictionary(kind) else kind


def _has_dictionaries(batch: pa.RecordBatch) -> bool:
    return any(pat.is_dictionary(kind) for kind in batch.schema.types)
