"""Hash join: the build side is kept, the probe side streams past it.

Port 0 is the build side, port 1 the probe side. During the build phase the state is mutable; during the probe phase it
is immutable (Table 1) and may be replicated at helpers. A join that shows unmatched (or matched) build rows keeps one
flag for each build row besides. A helper's flags go back to the owner by row id, are OR-ed there, and only the owner
shows such rows, at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices, Rows, record_batch, take
from reshape.kernels.hashing import U64, Mask, hash_rows, is_injective
from reshape.kernels.key_index import KeyIndex
from reshape.kernels.keys import KeyColumns, check_keys
from reshape.operators.base import OUTPUT_ROWS, KeySet, Operator, bounded
from reshape.operators.build_rows import BuildRows
from reshape.operators.errors import KeyTypesDiffer, PortError
from reshape.operators.probe_rows import PairCondition, Probe
from reshape.operators.spec import Narrowed, PortSpec, Spec

JoinKind = Literal["inner", "left", "right", "full", "left_semi", "left_anti"]
Side = Literal["left", "right"]

BUILD, PROBE = 0, 1

_INPUT: dict[Side, int] = {"left": 0, "right": 1}

# Enough for a table that a person looks at.
_KEPT_FOR_PREVIEW = 1_000


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the result: of the left side, of the right side, or, with both, the first that is not missing.

    The last is the key of a full join on names, of which Spark shows one column.
    """

    name: str
    left: int | None = None
    right: int | None = None

    def of(self, side: Side) -> int | None:
        """The column of this side that it shows."""
        return self.left if side == "left" else self.right


@dataclass(frozen=True)
class JoinSpec(Spec):
    """What to join. Keys are columns by number; both sides of a key have the same type."""

    left: pa.Schema
    right: pa.Schema
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    how: JoinKind
    output: tuple[OutputColumn, ...]
    build_side: Side = "right"
    condition: PairCondition | None = None  # what has to hold for a match beside equal keys

    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_keys("hash join", self.left, self.left_keys)
        check_keys("hash join", self.right, self.right_keys)
        for mine, theirs in zip(self.left_keys, self.right_keys, strict=True):
            left, right = self.left.field(mine), self.right.field(theirs)
            if left.type != right.type:
                raise KeyTypesDiffer("hash join", left.name, str(left.type), right.name, str(right.type))
        if self.condition is not None and self.tracks_matches:
            # Rows are marked by key, and here two of one key may differ.
            raise ValueError(f"a {self.how} join with a condition cannot keep its {self.build_side} side")

    @classmethod
    def examples(cls, schema: pa.Schema) -> tuple[Spec, ...]:
        left = tuple(OutputColumn(f"left {name}", left=number) for number, name in enumerate(schema.names))
        right = tuple(OutputColumn(f"right {name}", right=number) for number, name in enumerate(schema.names))
        key = (OutputColumn("key", left=0, right=0),)
        return (
            cls(schema, schema, (0,), (0,), "inner", left + right[1:]),
            *(cls(schema, schema, (0,), (0,), how, left + right) for how in get_args(JoinKind)[:3]),
            cls(schema, schema, (0,), (0,), "full", key + left[1:] + right),
            *(cls(schema, schema, (0, 1), (0, 1), how, left) for how in get_args(JoinKind)[4:]),
            cls(schema, schema, (0,), (0,), "left", left + right, build_side="left"),
        )

    @property
    def label(self) -> str:
        return f"{self.how} join"

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return (self.left, self.right)

    @property
    def ports(self) -> tuple[PortSpec, ...]:
        build, probe = self.build_side, self.probe_side
        return (
            PortSpec(_INPUT[build], self.keys_of(build), role=f"{build}, kept in memory"),
            PortSpec(_INPUT[probe], self.keys_of(probe), after=BUILD, mutable=False, role=f"{probe}, streams past it"),
        )

    def build(self, *, scattered: bool = False) -> HashJoin:
        return HashJoin(self, scattered=scattered)

    def gives_at_once(self, port: int) -> bool:
        return port == PROBE and not self.tracks_matches

    def passes(self, port: int, column: int) -> int | None:
        side, other = (self.build_side, self.probe_side) if port == BUILD else (self.probe_side, self.build_side)
        mine = [output.of(side) for output in self.output]
        if column in mine:
            return mine.index(column)
        # The key of the other side holds the same value where both are there.
        if column not in self.keys_of(side) or self.how != "inner":
            return None
        theirs = [output.of(other) for output in self.output]
        equal = self.keys_of(other)[self.keys_of(side).index(column)]
        return theirs.index(equal) if equal in theirs else None

    def needs(self, wanted: Sequence[int]) -> tuple[set[int], ...]:
        shown = [self.output[number] for number in wanted]
        left = {output.left for output in shown if output.left is not None}
        right = {output.right for output in shown if output.right is not None}
        if self.condition is not None:
            left, right = left.union(self.condition.left), right.union(self.condition.right)
        return {*self.left_keys, *left}, {*self.right_keys, *right}

    def narrowed(self, wanted: Sequence[int], kept: Sequence[list[int]], schemas: Sequence[pa.Schema]) -> Narrowed:
        left, right = kept
        output = tuple(
            OutputColumn(
                column.name,
                None if column.left is None else left.index(column.left),
                None if column.right is None else right.index(column.right),
            )
            for column in (self.output[number] for number in wanted)
        )
        spec = replace(
            self,
            left=schemas[0],
            right=schemas[1],
            left_keys=tuple(left.index(key) for key in self.left_keys),
            right_keys=tuple(right.index(key) for key in self.right_keys),
            output=output,
            condition=None if self.condition is None else self.condition.renumbered(left.index, right.index),
        )
        return Narrowed(spec, list(wanted))

    def facts(self, shown: Callable[[pa.Field], str]) -> list[str]:
        pairs = (
            f"{shown(self.left.field(mine))} = {shown(self.right.field(theirs))}"
            for mine, theirs in zip(self.left_keys, self.right_keys, strict=True)
        )
        also = [] if self.condition is None else [f"and where: {self.condition}"]
        return [f"keys: {', '.join(pairs)}", *also]

    @property
    def probe_side(self) -> Side:
        return "left" if self.build_side == "right" else "right"

    def schema_of(self, side: Side) -> pa.Schema:
        return self.left if side == "left" else self.right

    def keys_of(self, side: Side) -> tuple[int, ...]:
        return self.left_keys if side == "left" else self.right_keys

    def preserves(self, side: Side) -> bool:
        """Whether rows of this side without a match appear, with nulls for the other side."""
        return self.how in ("full", side)

    @property
    def filters_left(self) -> bool:
        """Whether the result is left rows, each at most once, by whether they have a match."""
        return self.how in ("left_semi", "left_anti")

    @property
    def tracks_matches(self) -> bool:
        """Whether the end of the join depends on which build rows had a match."""
        return self.preserves(self.build_side) or (self.filters_left and self.build_side == "left")

    @property
    def output_schema(self) -> pa.Schema:
        fields = []
        for column in self.output:
            side: Side = "right" if column.left is None else "left"
            number = column.right if column.left is None else column.left
            assert number is not None
            field = self.schema_of(side).field(number)
            other: Side = "left" if side == "right" else "right"
            extended = self.preserves(other)
            fields.append(field.with_name(column.name).with_nullable(field.nullable or extended))
        return pa.schema(fields)


class HashJoin(Operator):
    """The join of one partition."""

    name: ClassVar[str] = "hash join"
    ports: ClassVar[int] = 2

    def __init__(
        self,
        spec: JoinSpec,
        *,
        scattered: bool = False,
        output_rows: int = OUTPUT_ROWS,
        hash_function: Callable[[Sequence[pa.Array]], U64] = hash_rows,
    ) -> None:
        super().__init__(spec.output_schema, scattered=scattered, output_rows=output_rows)
        self.spec = spec
        self._hash = hash_function
        build_schema = spec.schema_of(spec.build_side)
        build_keys = spec.keys_of(spec.build_side)
        types = [build_schema.field(key).type for key in build_keys]
        self._probe_keys = spec.keys_of(spec.probe_side)
        self._build = BuildRows(
            build_schema,
            build_keys,
            operator=self.name,
            hash_function=hash_function,
            exact=hash_function is hash_rows and is_injective(types),
            keeps_null_keys=spec.tracks_matches,
        )
        self._last: pa.RecordBatch | None = None

    def add(self, port: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._check_open(port)
        if port == BUILD:
            self._build.append(batch)
            return iter(())
        if not self._ended[BUILD]:
            raise PortError(self.name, PROBE, "got rows before the build port has ended")
        if batch.num_rows == 0:
            return iter(())
        # Taken now: build rows may come or go while the result is being read.
        index, rows = self._build.index, self._build.rows
        slots = self._slots(index, batch)
        if self.spec.tracks_matches:
            self._build.mark(slots[slots >= 0])
        if self.spec.condition is not None:
            return self._watched(self._joined_where(self.spec.condition, batch, slots, index, rows))
        return self._watched(self._joined(batch, slots, index, rows))

    def finish(self) -> Iterator[pa.RecordBatch]:
        self._check_finish()
        spec = self.spec
        if not spec.tracks_matches:
            return iter(())
        matched = self._build.matched()
        wanted = matched if spec.how == "left_semi" else ~matched
        return self._watched(self._build_rows_alone(self._build.rows, np.flatnonzero(wanted)))

    @property
    def state_bytes(self) -> int:
        return self._build.nbytes

    def export_state(self, keys: KeySet | None, remove: bool) -> Iterator[pa.RecordBatch]:
        return self._bounded(self._build.export(keys, remove=remove))

    def export_scattered(self) -> Iterator[pa.RecordBatch]:
        """Build rows that came here first go to the owner; of its own rows it gets back those that found a match."""
        return self._bounded(self._build.export_scattered())

    def merge_state(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._build.merge(batches)

    def preview(self, limit: int) -> pa.RecordBatch | None:
        return None if self._last is None else self._last.slice(0, limit)

    def _slots(self, index: KeyIndex, batch: pa.RecordBatch) -> Indices:
        """The key slot of each probe row in the build rows, -1 where there is none."""
        columns = [batch.column(key) for key in self._probe_keys]
        keys = KeyColumns(columns, batch.num_rows)
        slots = index.find(lambda: self._hash(columns), keys)
        nulls = keys.nulls()
        if nulls is not None:
            slots[nulls] = -1
        return slots

    def _joined(self, batch: pa.RecordBatch, slots: Indices, index: KeyIndex, rows: Rows) -> Iterator[pa.RecordBatch]:
        spec = self.spec
        if spec.filters_left:
            if spec.build_side == "left":
                return  # Left rows appear at the end, when all matches are known.
            probe = Probe(batch, np.flatnonzero(slots >= 0 if spec.how == "left_semi" else slots < 0))
            for start in range(0, len(probe), self.output_rows):
                yield self._output(probe.part(start, self.output_rows), rows, None)
            return
        if spec.preserves(spec.probe_side):
            probe = Probe(batch, None)
        else:
            probe = Probe(batch, np.flatnonzero(slots >= 0))
            slots = slots if probe.rows is None else slots[probe.rows]
        for chosen, build_rows, absent in self._pairs(probe, slots, index):
            yield self._output(chosen, rows, build_rows, absent)

    def _joined_where(
        self, condition: PairCondition, batch: pa.RecordBatch, slots: Indices, index: KeyIndex, rows: Rows
    ) -> Iterator[pa.RecordBatch]:
        """Pairs of equal keys for which the condition holds; a probe row without any such pair has no match."""
        spec = self.spec
        found = np.flatnonzero(slots >= 0)
        matched = np.zeros(batch.num_rows, dtype=np.bool_)
        for probe, build_rows, _ in self._pairs(Probe.only(batch, found), slots[found], index):
            held = np.flatnonzero(self._holds(condition, probe, rows, build_rows))
            pairs = Probe.only(batch, probe.numbers[held])
            matched[pairs.numbers] = True
            if len(held) and not spec.filters_left:
                yield self._output(pairs, rows, build_rows[held])
        if not spec.filters_left and not spec.preserves(spec.probe_side):
            return
        rest = Probe.only(batch, np.flatnonzero(matched if spec.how == "left_semi" else ~matched))
        for start in range(0, len(rest), self.output_rows):
            part = rest.part(start, self.output_rows)
            build = None if spec.filters_left else np.zeros(len(part), dtype=np.int64)
            yield self._output(part, rows, build, np.ones(len(part), dtype=np.bool_))

    def _holds(self, condition: PairCondition, probe: Probe, rows: Rows, build_rows: Indices) -> Mask:
        numbers, chosen = pa.array(probe.numbers), pa.array(build_rows)
        builds_right = self.spec.build_side == "right"
        probed, built = (condition.left, condition.right) if builds_right else (condition.right, condition.left)
        of_probe = [take(probe.batch.column(number), numbers) for number in probed]
        of_build = [take(rows.columns[number], chosen) for number in built]
        return condition.holds([*of_probe, *of_build] if builds_right else [*of_build, *of_probe], len(build_rows))

    def _pairs(self, probe: Probe, slots: Indices, index: KeyIndex) -> Iterator[tuple[Probe, Indices, Mask | None]]:
        """Every probe row with every build row of its slot; slot -1 gives the probe row once, its build row absent."""
        missing = slots < 0
        some_missing = bool(missing.any())
        if index.unique:
            for start in range(0, len(slots), self.output_rows):
                part = slice(start, start + self.output_rows)
                build_rows = index.rows_of(slots[part]) if len(index) else np.zeros(len(slots[part]), np.int64)
                yield probe.part(start, self.output_rows), build_rows, missing[part] if some_missing else None
            return
        counts, starts = index.counts[slots], index.starts[slots]
        if some_missing:
            counts, starts = np.where(missing, 1, counts), np.where(missing, 0, starts)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for begin in range(0, total, self.output_rows):
            end = min(begin + self.output_rows, total)
            first = int(np.searchsorted(ends, begin, side="right"))
            last = int(np.searchsorted(ends, end, side="left")) + 1
            part = slice(first, last)
            row_begins = ends[part] - counts[part]
            # A probe row may have more matches than fit one batch: only the share that falls into this one.
            shares = np.minimum(ends[part], end) - np.maximum(row_begins, begin)
            # Rows of one slot lie side by side: the first build row of each probe row, and from there one by one.
            build_rows = index.ordered[np.repeat(starts[part] - row_begins, shares) + np.arange(begin, end)]
            absent = np.repeat(missing[part], shares) if some_missing else None
            yield probe.repeated(first, shares), build_rows, absent

    def _output(
        self, probe: Probe, rows: Rows, build_rows: Indices | None, absent: Mask | None = None
    ) -> pa.RecordBatch:
        """A batch of pairs; build rows marked as absent give nulls. Without build rows only the probe side appears."""
        probe_indices = None if probe.rows is None else pa.array(probe.rows)
        build_indices = None if build_rows is None else pa.array(build_rows, mask=absent)
        columns = []
        for output in self.spec.output:
            probed, build = (
                (output.left, output.right) if self.spec.build_side == "right" else (output.right, output.left)
            )
            if probed is not None:  # Every pair has a probe row, so a shared key is never missing there.
                column = probe.batch.column(probed)
                columns.append(column if probe_indices is None else take(column, probe_indices))
            else:
                assert build is not None
                columns.append(take(rows.columns[build], build_indices))
        return record_batch(self.output_schema, columns, len(probe))

    def _build_rows_alone(self, rows: Rows, wanted: Indices) -> Iterator[pa.RecordBatch]:
        """Build rows at the end of the join, with nulls for the probe side."""
        for start in range(0, len(wanted), self.output_rows):
            indices = pa.array(wanted[start : start + self.output_rows])
            columns = []
            for output, field in zip(self.spec.output, self.output_schema, strict=True):
                build = output.right if self.spec.build_side == "right" else output.left
                columns.append(
                    pa.nulls(len(indices), field.type) if build is None else take(rows.columns[build], indices)
                )
            yield record_batch(self.output_schema, columns, len(indices))

    def _watched(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._last = batch.slice(0, _KEPT_FOR_PREVIEW)
            yield batch

    def _bounded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from bounded(batch, self.output_rows)
