"""A generated flow as frozen data, and how it is built: once with reshape, once with Spark's own DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from .data import Column, Input

How = Literal["inner", "left", "right", "full", "left_semi", "left_anti"]


@dataclass(frozen=True, slots=True)
class Join:
    right: Branch
    on: tuple[tuple[str, str], ...]
    how: How

    @property
    def by_name(self) -> bool:
        return all(left == right for left, right in self.on)

    def __str__(self) -> str:
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.on)
        return f"{self.how} join on {on} with ({self.right})"


@dataclass(frozen=True, slots=True)
class Agg:
    """``function`` is a name in pyspark.sql.functions, ``argument`` what it takes beside its columns."""

    function: str
    columns: tuple[str, ...]
    alias: str
    argument: float | bool | None = None

    def column(self) -> Any:
        arguments = [] if self.argument is None else [self.argument]
        return getattr(F, self.function)(*self.columns, *arguments).alias(self.alias)

    def __str__(self) -> str:
        extra = "" if self.argument is None else f", {self.argument}"
        return f"{self.function}({', '.join(self.columns)}{extra}) as {self.alias}"


@dataclass(frozen=True, slots=True)
class Group:
    keys: tuple[str, ...]
    aggregates: tuple[Agg, ...]

    def __str__(self) -> str:
        return f"group by {', '.join(self.keys)}: {', '.join(map(str, self.aggregates))}"


@dataclass(frozen=True, slots=True)
class SortBy:
    column: str
    form: Literal["asc", "desc", "asc_nulls_first", "asc_nulls_last", "desc_nulls_first", "desc_nulls_last"]

    def __str__(self) -> str:
        return f"{self.column} {self.form}"


@dataclass(frozen=True, slots=True)
class Sort:
    keys: tuple[SortBy, ...]

    def __str__(self) -> str:
        return f"sort by {', '.join(map(str, self.keys))}"


@dataclass(frozen=True, slots=True)
class Distinct:
    def __str__(self) -> str:
        return "distinct"


@dataclass(frozen=True, slots=True)
class Combine:
    """Two branches with the same types of columns."""

    kind: Literal["union", "intersect", "subtract"]
    right: Branch

    def __str__(self) -> str:
        return f"{self.kind} with ({self.right})"


@dataclass(frozen=True, slots=True)
class Repartition:
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"repartition by {', '.join(self.columns)}"


@dataclass(frozen=True, slots=True)
class Map:
    """mapInArrow with one of the functions below; ``schema`` is what it gives."""

    kind: Literal["twice", "drop nulls", "mark nulls"]
    column: str
    schema: tuple[Column, ...]

    def __str__(self) -> str:
        return f"mapInArrow: {self.kind} of {self.column}"


Step = Join | Group | Sort | Distinct | Combine | Repartition | Map


@dataclass(frozen=True, slots=True)
class Branch:
    """An input and what happens to its rows."""

    input: int
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return "; ".join([f"input {self.input}", *map(str, self.steps)])


@dataclass(frozen=True, slots=True)
class Case:
    """A flow, the data it runs on, and how it is spread."""

    seed: int
    inputs: tuple[Input, ...]
    flow: Branch
    columns: tuple[Column, ...]  # of the result
    hosts: int
    workers: int
    partitions: int
    batch_rows: int
    queue_bytes: int
    spill: bool

    @property
    def order(self) -> tuple[str, ...]:
        """The columns by which the result is sorted; none if it is not."""
        for step in reversed(self.flow.steps):
            if isinstance(step, Sort):
                return tuple(key.column for key in step.keys)
            if not isinstance(step, Map):
                return ()
        return ()

    def __str__(self) -> str:
        memory = f"{self.queue_bytes} bytes {'and disk' if self.spill else 'only'}"
        cut = f"{self.partitions} partitions, batches of {self.batch_rows}"
        spread = f"{self.hosts} hosts, {self.workers} workers, {cut}, {memory}"
        inputs = [f"  input {number}: {data}" for number, data in enumerate(self.inputs)]
        return "\n".join([f"flow of seed {self.seed} ({spread})", *inputs, f"  {self.flow}"])


def build(branch: Branch, frames: Sequence[Any], read: Callable[[Any], Any]) -> Any:
    """The flow over these DataFrames. Flows follow PySpark's names, so only ``read`` makes the difference: it is
    ``reshape.flow`` for a flow, and gives the DataFrame itself for Spark's own query."""
    made = read(frames[branch.input])
    for step in branch.steps:
        made = _apply(made, step, frames, read)
    return made


def _apply(rows: Any, step: Step, frames: Sequence[Any], read: Callable[[Any], Any]) -> Any:
    match step:
        case Join():
            return _join(rows, build(step.right, frames, read), step)
        case Group():
            return rows.groupBy(*step.keys).agg(*(aggregate.column() for aggregate in step.aggregates))
        case Sort():
            return rows.orderBy(*(getattr(F.col(key.column), key.form)() for key in step.keys))
        case Distinct():
            return rows.distinct()
        case Combine():
            return getattr(rows, step.kind)(build(step.right, frames, read))
        case Repartition():
            return rows.repartition(*step.columns)
        case Map():
            return rows.mapInArrow(function(step), _ddl(step.schema))


def _join(left: Any, right: Any, step: Join) -> Any:
    if step.by_name:
        return left.join(right, [name for name, _ in step.on], step.how)
    condition = left[step.on[0][0]] == right[step.on[0][1]]
    for a, b in step.on[1:]:
        condition &= left[a] == right[b]
    return left.join(right, condition, step.how)


def function(step: Map) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What the map does; independent of how rows are cut into batches. A closure, which travels to tasks by value."""
    kind, column, last = step.kind, step.column, step.schema[-1].name

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if kind == "twice":
                yield batch.take(np.repeat(np.arange(batch.num_rows), 2))
            elif kind == "drop nulls":
                yield batch.filter(batch.column(column).is_valid())
            else:
                yield batch.append_column(last, batch.column(column).is_null())

    return apply


def _ddl(columns: Sequence[Column]) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([(column.name, column.type) for column in columns]))
