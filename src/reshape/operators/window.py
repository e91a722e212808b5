"""Windows: every row keeps its columns and gets others that depend on the rows of its partition, in an order.

The state is sorted runs of whole rows (Table 1), by partition and order. Helpers sort what they get; the owner merges
their runs (§5.4), and all partitions are computed at once. Of a partition that is too large for one worker, as that of
all rows is, each worker has a range of its order, and they compute it together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices, Rows, record_batch
from reshape.kernels.hashing import U64, hash_rows
from reshape.kernels.keys import KeyColumns, check_keys
from reshape.kernels.ordering import Ordering, SortKey
from reshape.kernels.segments import Around, Segments
from reshape.operators.base import OUTPUT_ROWS, KeySet, bounded
from reshape.operators.ranged import Beside, Edges, RangedOperator
from reshape.operators.sorted_runs import RUN_ROWS, SortedRuns
from reshape.operators.spec import Narrowed, PortSpec, Spec
from reshape.operators.windows.carried import pack, unpack
from reshape.operators.windows.description import OPERATOR, WindowFunction
from reshape.operators.windows.frame import Stretch, Windows, changes
from reshape.operators.windows.partition import Computed, OwnRange, Partition, end_of_peers, in_order, own_ranges

# Rows that are computed together, of small partitions or of a large one: enough that the fixed cost of a function is
# little, few enough for a cache.
_PIECE_ROWS = 131_072

# Functions may look at so many rows of the ranges beside their own: these go through the driver.
_MOST_BEYOND = 1_024

# Rows that a preview looks at: the values it shows are those of so many of the first rows.
_PREVIEW_ROWS = 16_384


@dataclass(frozen=True)
class WindowSpec(Spec):
    """Partitions by key columns, or one of all rows; an order in them, if there is one; and what to compute."""

    schema: pa.Schema
    keys: tuple[int, ...]
    ordering: Ordering | None
    functions: tuple[WindowFunction, ...]
    divides: bool = True  # whether workers may share the partition of a heavy key

    @classmethod
    def examples(cls, schema: pa.Schema) -> tuple[Spec, ...]:
        from reshape.operators.windows.ranks import Rank, RowNumber
        from reshape.operators.windows.sums import Count, Sum

        # By all columns: what a row gets must not depend on which of two equal ones came first.
        order = Ordering((SortKey.descending(1), *(SortKey(number) for number in range(2, len(schema)))))
        return (
            cls(schema, (0,), order, (RowNumber("place"), Rank("rank"), Sum("so far", 1))),
            cls(schema, (0,), None, (Count("rows"),)),
            cls(schema, (), order, (Rank("rank"),)),
            cls(schema, (), None, (Count("rows"),)),
        )

    @property
    def label(self) -> str:
        return "window"

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return (self.schema,)

    @property
    def ports(self) -> tuple[PortSpec, ...]:
        # Each once: heavy keys are found by the hash of the columns that their bounds have.
        keys = tuple(dict.fromkeys(self.keys))
        return (PortSpec(keys=keys, ordering=None if self.looks_beyond is None else self.sorted_by),)

    @property
    def looks_beyond(self) -> int | None:
        """Workers have ranges of one partition, or of those of heavy keys, where all functions can be computed so."""
        reach, sorted_by = self.reach, self.sorted_by
        if reach is None or reach > _MOST_BEYOND or sorted_by is None:
            return None
        # Rows of a key that are all equal in the order cannot be parted.
        may_part = not self.keys or (self.divides and len(sorted_by.keys) > len(set(self.keys)))
        return reach if may_part else None

    def undivided(self) -> WindowSpec:
        return replace(self, divides=False)

    @property
    def carries(self) -> bool:
        return any(function.carries for function in self.functions)

    @property
    def output_schema(self) -> pa.Schema:
        made = [
            pa.field(function.name, function.output_type(self.fields(function)), nullable=function.nullable)
            for function in self.functions
        ]
        return pa.schema([*self.schema, *made])

    def fields(self, function: WindowFunction) -> list[pa.Field]:
        """The columns that a function reads."""
        return [self.schema.field(column) for column in function.reads]

    @property
    def sorted_by(self) -> Ordering | None:
        """The partition first, then the order; None where neither says anything."""
        keys = {key: SortKey(key) for key in self.keys}
        # A column that is the same in all rows of a partition does not order them.
        order = () if self.ordering is None else (key for key in self.ordering.keys if key.column not in keys)
        every = (*keys.values(), *order)
        return Ordering(every) if every else None

    @property
    def reach(self) -> int | None:
        """How far functions look beyond the peers of a row, if a large partition can be computed in stretches."""
        found = [function.reach for function in self.functions]
        if self.ordering is None or None in found:
            return None
        return max((reach for reach in found if reach is not None), default=0)

    @property
    def combinable(self) -> bool:
        return False

    def build(self, *, scattered: bool = False) -> Window:
        return Window(self, scattered=scattered)

    def merged_preview(self, parts: Sequence[pa.RecordBatch], limit: int) -> list[pa.RecordBatch]:
        """Windows over the first rows of all workers together: helpers have some rows of a partition."""
        whole = self.build()
        whole.merge_state(parts)
        shown = whole.preview(limit)
        return [] if shown is None else [shown]

    def passes(self, port: int, column: int) -> int | None:
        return column

    def needs(self, wanted: Sequence[int]) -> tuple[set[int], ...]:
        width = len(self.schema)
        read = {column for number in wanted if number >= width for column in self.functions[number - width].reads}
        order = () if self.ordering is None else self.ordering.columns
        needed = {*self.keys, *order, *read, *(number for number in wanted if number < width)}
        # Rows without any column could not be counted.
        return (needed or {0},)

    def narrowed(self, wanted: Sequence[int], kept: Sequence[list[int]], schemas: Sequence[pa.Schema]) -> Narrowed:
        width, number = len(self.schema), kept[0].index
        functions = [n for n in range(len(self.functions)) if width + n in wanted]
        ordering = self.ordering
        if ordering is not None:
            ordering = Ordering(tuple(replace(key, column=number(key.column)) for key in ordering.keys))
        spec = replace(
            self,
            schema=schemas[0],
            keys=tuple(map(number, self.keys)),
            ordering=ordering,
            functions=tuple(self.functions[n].renumbered(number) for n in functions),
        )
        return Narrowed(spec, [*kept[0], *(width + n for n in functions)])

    def facts(self, shown: Callable[[pa.Field], str]) -> list[str]:
        keys = ", ".join(shown(self.schema.field(key)) for key in self.keys)
        shares = self.looks_beyond is not None
        at = "and each worker has a range of it" if shares else "at worker 0"
        heavy = "; of a heavy key each worker has a range" if shares else ""
        lines = [f"keys: {keys}{heavy}" if keys else f"keys: none; all rows are one partition, {at}"]
        if self.ordering is not None:
            order = (
                f"{self.schema.field(key.column).name} {'asc' if key.ascending else 'desc'} "
                f"nulls {'first' if key.nulls_first else 'last'}"
                for key in self.ordering.keys
            )
            lines.append(f"order: {', '.join(order)}")
        texts = (
            f"{function.text([field.name for field in self.fields(function)])} AS {function.name}"
            for function in self.functions
        )
        return [*lines, f"functions: {', '.join(texts)}"]


class Window(RangedOperator):
    """The partitions whose keys one worker owns, and its ranges of those that workers share."""

    name: ClassVar[str] = OPERATOR

    def __init__(
        self,
        spec: WindowSpec,
        *,
        scattered: bool = False,
        output_rows: int = OUTPUT_ROWS,
        run_rows: int = RUN_ROWS,
        piece_rows: int = _PIECE_ROWS,
    ) -> None:
        super().__init__(spec.output_schema, scattered=scattered, output_rows=output_rows)
        check_keys(self.name, spec.schema, spec.keys if spec.ordering is None else (*spec.keys, *spec.ordering.columns))
        self.spec = spec
        self._runs = SortedRuns(spec.schema, spec.sorted_by, run_rows)
        self._piece_rows = piece_rows
        self._ranges: list[OwnRange] = []

    def add(self, port: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._check_open(port)
        self._runs.add(batch)
        return iter(())

    def finish(self) -> Iterator[pa.RecordBatch]:
        self._check_finish()
        return chain.from_iterable(bounded(piece, self.output_rows) for piece in self._pieces())

    def share(self, keys: pa.RecordBatch | None) -> int:
        rows, order = self._runs.merged()
        if keys is None:
            self._ranges = [OwnRange(0, len(rows))]
        else:
            shared = KeyColumns(keys.columns, keys.num_rows)
            self._ranges = own_ranges(shared, self._keys(dict.fromkeys(self.spec.keys)), order, self._partitions)
        return len(self._ranges)

    def edges(self, partition: int) -> Edges:
        own = self._ranges[partition]
        size = own.end - own.begin
        reach = min(self.spec.looks_beyond or 0, size)
        return Edges(size, self._edge(own.begin, reach), self._edge(own.end - reach, reach))

    def _edge(self, at: int, count: int) -> pa.RecordBatch:
        """Some rows of the order. They travel through the driver: columns that no other range looks at are null."""
        rows, order = self._runs.merged()
        looked_at = {column for function in self.spec.functions if function.reach for column in function.reads}
        columns = [
            in_order([column], order, at, at + count)[0] if number in looked_at else pa.nulls(count, column.type)
            for number, column in enumerate(rows.columns)
        ]
        return record_batch(self.spec.schema, columns, count)

    def meet(self, partition: int, beside: Beside) -> None:
        for rows in (beside.ahead, beside.behind):
            self._check_schema(rows, self.spec.schema)
        self._ranges[partition].beside = beside

    def carry(self, partition: int, before: pa.RecordBatch | None) -> pa.RecordBatch:
        functions = self.spec.functions
        left: Mapping[Hashable, Any] = {} if before is None else unpack(before, functions)
        read = {column for function in functions for column in function.reads}
        own = self._ranges[partition]
        own.computed = []
        for computed in self._stretches(own.of(*self._runs.merged()), left, read):
            left = computed.after
            own.computed.append(replace(computed, columns={}))  # taken again when they leave, with the others
        return pack(left, functions)

    @property
    def state_bytes(self) -> int:
        return self._runs.nbytes

    def export_state(self, keys: KeySet | None, remove: bool) -> Iterator[pa.RecordBatch]:
        """Sorted runs in slices."""
        return self._runs.export(keys, self._hashes, remove, self.output_rows)

    def merge_state(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._check_schema(batch, self.spec.schema)
            self._runs.add_run(batch)

    def preview(self, limit: int) -> pa.RecordBatch | None:
        """The first rows in order, with their windows over those that have come."""
        head = self._runs.head(max(limit, _PREVIEW_ROWS))
        if head is None:
            return None
        rows = Rows.of(self.spec.schema, [head])
        return self._whole(rows, None, 0, len(rows)).slice(0, limit)

    def preview_part(self, limit: int) -> pa.RecordBatch | None:
        """The first rows as they came, to be shown together with those that other workers have."""
        return self._runs.head(limit)

    def _keys(self, numbers: Iterable[int]) -> KeyColumns:
        rows, _ = self._runs.merged()
        return KeyColumns([rows.columns[number] for number in numbers], len(rows))

    @cached_property
    def _partitions(self) -> Segments:
        rows, order = self._runs.merged()
        return Segments.of_changes(
            changes(self._keys(self.spec.keys), np.arange(len(rows)) if order is None else order)
        )

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        """All rows in their order."""
        at = 0
        for own in sorted(self._ranges, key=lambda own: (own.begin, own.end)):
            if own.beside is not None:
                yield from self._wholes(at, own.begin)
                yield from self._range(own)
                at = own.end
        yield from self._wholes(at, len(self._runs.merged()[0]))

    def _wholes(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Whole partitions: small ones together, a large one in stretches where its functions allow it."""
        if first >= last:
            return
        (rows, order), reach = self._runs.merged(), self.spec.reach
        for start, stop in self._partitions.between(first, last).pieces(self._piece_rows):
            begin, end = first + start, first + stop
            if reach is None or reach > self._piece_rows or end - begin <= 2 * self._piece_rows:
                yield self._whole(rows, order, begin, end)
            else:
                # Its first rows leave at once, and what is computed stays in the cache.
                partition = Partition(rows, order, begin, end, begin, end)
                yield from map(self._batch, self._stretches(partition, {}, range(len(self.spec.schema))))

    def _range(self, own: OwnRange) -> Iterator[pa.RecordBatch]:
        """The worker's own range of a partition."""
        every, partition = range(len(self.spec.schema)), own.of(*self._runs.merged())
        if own.computed is None:
            yield from map(self._batch, self._stretches(partition, {}, every))
            return
        for computed in own.computed:
            yield self._batch(replace(computed, columns=partition.columns(every, computed.first, computed.end)))

    def _whole(self, rows: Rows, order: Indices | None, begin: int, end: int) -> pa.RecordBatch:
        """Some whole partitions with their functions."""
        columns = in_order(rows.columns, order, begin, end)
        by = () if self.spec.ordering is None else self.spec.ordering.keys
        keys, ordered_by = [columns[key] for key in self.spec.keys], [columns[key.column] for key in by]
        windows = Windows.of(keys, ordered_by, by, end - begin)
        made = [self._values(function, windows, columns.__getitem__) for function in self.spec.functions]
        return record_batch(self.output_schema, [*columns, *made], end - begin)

    def _stretches(
        self, partition: Partition, before: Mapping[Hashable, Any], numbers: Iterable[int]
    ) -> Iterator[Computed]:
        """A partition bit by bit. ``numbers``: the columns that are taken, with those that order the rows."""
        ordering, reach = self.spec.ordering, self.spec.reach
        assert ordering is not None
        assert reach is not None
        numbers = {*numbers, *ordering.columns}
        ordered_by = [partition.rows.columns[column] for column in ordering.columns]
        start = partition.first
        while start < partition.end:
            stop = min(start + self._piece_rows, partition.end)
            stop = end_of_peers(ordered_by, partition.order, stop, partition.end)
            first, last = max(partition.begin, start - reach), min(partition.stop, stop + reach)
            around = partition.columns(numbers, first, last)
            columns = {number: column.slice(start - first, stop - start) for number, column in around.items()}
            after: dict[Hashable, Any] = {}
            size = stop - start
            keys = KeyColumns([columns[column] for column in ordering.columns], size)
            peers = Segments.of_changes(changes(keys, np.arange(size)))
            near = Stretch(Around(partition.begin - start, partition.stop - start, size), peers, before, after)
            # Functions that look at other rows have no use for peers.
            whole = Around(partition.begin - first, partition.stop - first, last - first)
            far = Stretch(whole, whole, before, after)
            made = [
                self._values(function, far, around.__getitem__).slice(start - first, size)
                if function.reach
                else self._values(function, near, columns.__getitem__)
                for function in self.spec.functions
            ]
            yield Computed(start, stop, columns, made, after)
            before, start = after, stop

    def _batch(self, computed: Computed) -> pa.RecordBatch:
        columns = [computed.columns[number] for number in range(len(self.spec.schema))]
        return record_batch(self.output_schema, [*columns, *computed.made], computed.end - computed.first)

    def _values(self, function: WindowFunction, windows: Windows, column: Callable[[int], pa.Array]) -> pa.Array:
        return function.compute(windows, [column(number) for number in function.reads], self.spec.fields(function))

    def _hashes(self, run: pa.RecordBatch) -> U64:
        port = self.spec.ports[0]
        columns = port.keys if port.ordering is None else port.ordering.columns
        if not columns:
            return np.zeros(run.num_rows, dtype=np.uint64)
        return hash_rows([run.column(column) for column in columns])
