"""A planned scan: what is read from which files, and what is made of it. Holds no object of the JVM: it is pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from reshape.expressions.tree import Expression
from reshape.operators.hash_join import JoinSpec


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A column that files hold or their folders give, named and typed as Spark wants it."""

    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class ReadFacts:
    """The settings that decide what Spark makes of the same bytes.

    `widening` says whether a file's narrower type may be read as a wider one: Spark's vectorized reader does so, its
    other one has rules of its own. The rebase modes hold for files that do not name a version of Spark as their writer.
    """

    case_sensitive: bool
    widening: bool
    datetime_rebase: str
    int96_rebase: str
    int96_conversion: bool


@dataclass(frozen=True, slots=True)
class Keep:
    """Keeps the rows for which the predicate is true."""

    predicate: Expression


@dataclass(frozen=True, slots=True)
class Compute:
    """Makes the columns of the next step from those of the one before."""

    expressions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Expand:
    """Gives each row several times, once for each list of expressions: grouping sets, and several distinct counts."""

    lists: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True, slots=True)
class LookUp:
    """Joins rows with those of a small scan, which every host reads for itself: what Spark broadcasts."""

    scan: Scan
    join: JoinSpec


Step: TypeAlias = Keep | Compute | Expand | LookUp


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file. Its rows are those of the row groups whose middle byte lies in it.

    `partition_values` stand in the order of the scan's partition columns; dates are days and timestamps microseconds
    since 1970. `rows` counts the stored rows, before any filter; None where the footer was not looked at.
    """

    path: str
    start: int
    length: int
    partition_values: tuple[Any, ...]
    file_size: int
    modified_ms: int
    rows: int | None = None

    @property
    def end(self) -> int:
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Scan:
    """All that a task needs to read a split. Steps see file columns first, partition columns behind them."""

    schema: pa.Schema
    columns: tuple[ScanColumn, ...]
    partition_columns: tuple[ScanColumn, ...]
    steps: tuple[Step, ...]
    facts: ReadFacts
    splits: tuple[Split, ...]

    @property
    def row_by_row(self) -> bool:
        """Whether each stored row becomes one row."""
        return all(isinstance(step, Compute) for step in self.steps)

    @property
    def looked_up(self) -> tuple[Scan, ...]:
        """The scans whose rows a host has to read before its own."""
        return tuple(step.scan for step in self.steps if isinstance(step, LookUp))
