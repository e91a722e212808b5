"""Expressions behind an operator: functions from batches to batches, exact as those of scans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from reshape.expressions.evaluate import evaluate, filter_batch
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
