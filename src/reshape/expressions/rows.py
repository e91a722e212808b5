"""Expressions behind an operator: functions from batches to batches, exact as those of scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.expressions.evaluate import evaluate, filter_batch
from reshape.expressions.families.booleans import truth
from reshape.expressions.tree import ColumnRef, Expression, columns_of, renumbered


@dataclass(frozen=True)
class Computed:
    """One column for each expression."""

    schema: pa.Schema
    expressions: tuple[Expression, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [evaluate(expression, batch) for expression in self.expressions]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @property
    def exact(self) -> bool:
        return True

    def needs(self, wanted: Sequence[int]) -> set[int]:
        """The columns that it reads for some of its own. Rows without any column could not be counted."""
        return set().union(*(columns_of(self.expressions[number]) for number in wanted)) or {0}

    def narrowed(self, wanted: Sequence[int], kept: Sequence[int], schema: pa.Schema) -> tuple[Computed, list[int]]:
        """The same over rows of which some columns are left, and which of its columns it still gives."""
        mapping = {old: new for new, old in enumerate(kept)}
        expressions = tuple(renumbered(self.expressions[number], mapping) for number in wanted)
        return Computed(pa.schema([self.schema.field(number) for number in wanted]), expressions), list(wanted)

    def passes(self, column: int) -> int | None:
        """The column that holds one of its input unchanged."""
        for number, expression in enumerate(self.expressions):
            if isinstance(expression, ColumnRef) and expression.number == column:
                return number
        return None

    def __str__(self) -> str:
        new = [
            field.name
            for field, expression in zip(self.schema, self.expressions, strict=True)
            if not isinstance(expression, ColumnRef)
        ]
        return f"then computes: {', '.join(new)}" if new else f"then keeps: {', '.join(self.schema.names)}"


@dataclass(frozen=True)
class Expanded:
    """Each row several times, once for each list of expressions: grouping sets, and several distinct aggregates."""

    schema: pa.Schema
    lists: tuple[tuple[Expression, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for expressions in self.lists:
                columns = [evaluate(expression, batch) for expression in expressions]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @property
    def exact(self) -> bool:
        return True

    def needs(self, wanted: Sequence[int]) -> set[int]:
        return set().union(*(columns_of(each[number]) for each in self.lists for number in wanted)) or {0}

    def narrowed(self, wanted: Sequence[int], kept: Sequence[int], schema: pa.Schema) -> tuple[Expanded, list[int]]:
        mapping = {old: new for new, old in enumerate(kept)}
        lists = tuple(tuple(renumbered(each[number], mapping) for number in wanted) for each in self.lists)
        return Expanded(pa.schema([self.schema.field(number) for number in wanted]), lists), list(wanted)

    def passes(self, column: int) -> int | None:
        """None: it may be null in one of the rows."""
        return None

    def __str__(self) -> str:
        return f"then each row {len(self.lists)} times: {', '.join(self.schema.names)}"


@dataclass(frozen=True)
class Kept:
    """The rows for which a predicate is true; ``text`` is how people write it."""

    schema: pa.Schema
    predicate: Expression
    text: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kept = filter_batch(self.predicate, batch)
            if kept.num_rows:
                yield kept

    @property
    def exact(self) -> bool:
        return False

    def needs(self, wanted: Sequence[int]) -> set[int]:
        return {*wanted, *columns_of(self.predicate)} or {0}

    def narrowed(self, wanted: Sequence[int], kept: Sequence[int], schema: pa.Schema) -> tuple[Kept, list[int]]:
        mapping = {old: new for new, old in enumerate(kept)}
        return Kept(schema, renumbered(self.predicate, mapping), self.text), list(kept)

    def passes(self, column: int) -> int | None:
        return column

    def __str__(self) -> str:
        return f"then keeps rows where {self.text}"


@dataclass(frozen=True)
class Holding:
    """What has to hold for two rows to match. The predicate is over the columns of the left row, then of the right."""

    predicate: Expression
    left: tuple[int, ...]
    right: tuple[int, ...]
    text: str

    @classmethod
    def of(cls, predicate: Expression, left: int, text: str) -> Holding:
        """Of a predicate over all columns of both sides, of which so many are the left one's."""
        read = sorted(columns_of(predicate))
        own = renumbered(predicate, {number: place for place, number in enumerate(read)})
        mine = tuple(number for number in read if number < left)
        return cls(own, mine, tuple(number - left for number in read if number >= left), text)

    def renumbered(self, left: Callable[[int], int], right: Callable[[int], int]) -> Holding:
        return replace(self, left=tuple(map(left, self.left)), right=tuple(map(right, self.right)))

    def holds(self, columns: Sequence[pa.Array], rows: int) -> npt.NDArray[np.bool_]:
        names = [str(number) for number in range(len(columns))]
        # A batch without columns has no rows, and a constant needs to know how many there are.
        batch = pa.RecordBatch.from_arrays([*columns, pa.nulls(rows)], names=[*names, "rows"])
        return np.asarray(truth(evaluate(self.predicate, batch)))

    def __str__(self) -> str:
        return self.text
