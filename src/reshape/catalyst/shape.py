"""Running results in the shape of the whole query: what Spark will do behind the flow, done by Arrow on a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.catalyst.columns import Shaping
from reshape.catalyst.rows import Rows, SparkRows, UnionRows
from reshape.errors import ReshapeError
from reshape.expressions.errors import NotExact
from reshape.expressions.evaluate import evaluate
from reshape.expressions.families.booleans import truth
from reshape.expressions.translate import translate
from reshape.expressions.tree import ColumnRef, Expression, Literal
from reshape.kernels.ordering import Ordering, SortKey
from reshape.kernels.sort_keys import sorted_order
from reshape.observe.representativeness import Shown
from reshape.plan.analysis import kind, scala_list
from reshape.plan.nodes import MapNode, Node, RowFunction, UnionNode

RowNumbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shaped:
    """Rows to show, and which of the flow's rows they are."""

    table: pa.Table
    rows: RowNumbers


@dataclass(frozen=True)
class _Compute:
    expressions: tuple[Expression, ...]

    def __call__(self, batch: pa.RecordBatch, rows: RowNumbers) -> tuple[pa.RecordBatch, RowNumbers]:
        columns = [evaluate(expression, batch) for expression in self.expressions]
        return _batch(columns), rows


@dataclass(frozen=True)
class _Keep:
    predicate: Expression

    def __call__(self, batch: pa.RecordBatch, rows: RowNumbers) -> tuple[pa.RecordBatch, RowNumbers]:
        kept = np.flatnonzero(truth(evaluate(self.predicate, batch)))
        return batch.take(pa.array(kept)), rows[kept]


@dataclass(frozen=True)
class _Order:
    """By expressions, each ascending or not and with its nulls first or not."""

    keys: tuple[tuple[Expression, bool, bool], ...]

    def __call__(self, batch: pa.RecordBatch, rows: RowNumbers) -> tuple[pa.RecordBatch, RowNumbers]:
        columns = [evaluate(expression, batch) for expression, _, _ in self.keys]
        keys = (SortKey(number, up, first) for number, (_, up, first) in enumerate(self.keys))
        order = sorted_order(columns, Ordering(tuple(keys)))
        return batch.take(pa.array(order)), rows[order]


@dataclass(frozen=True)
class _Cut:
    most: int

    def __call__(self, batch: pa.RecordBatch, rows: RowNumbers) -> tuple[pa.RecordBatch, RowNumbers]:
        return batch.slice(0, self.most), rows[: self.most]


_Step: TypeAlias = _Compute | _Keep | _Order | _Cut


@dataclass(frozen=True)
class Shape:
    """What is done to the rows of the flow: some of its columns are picked, steps follow, and columns get the query's
    names. ``of_flow`` says for each column of the query which of the flow's it is, None for one that is computed."""

    picked: tuple[int, ...]
    steps: tuple[_Step, ...]
    names: tuple[str, ...]
    of_flow: tuple[int | None, ...]

    def of(self, table: pa.Table) -> Shaped | None:
        """None where values that are not there yet make Spark's expressions fail."""
        rows = np.arange(len(table), dtype=np.int64)
        batches = table.combine_chunks().to_batches()
        if not batches:
            return None
        batch = batches[0].select(list(self.picked))
        try:
            for step in self.steps:
                batch, rows = step(batch, rows)
        except ReshapeError:
            return None
        return Shaped(pa.table(batch.columns, names=list(self.names)), rows)

    def keys(self, of_flow: int) -> int:
        """How many columns at the front tell rows apart, if so many of the flow's do."""
        return of_flow if self.of_flow[:of_flow] == tuple(range(of_flow)) else 0

    def applied(self, shown: Shown) -> Shown | None:
        """The whole of a running result."""
        made = self.of(shown.table)
        if made is None:
            return None
        rows = made.rows.tolist()
        completeness = shown.completeness and tuple(shown.completeness[row] for row in rows)
        estimates = {}
        for name, number in zip(self.names, self.of_flow, strict=True):
            known = None if number is None else shown.estimates.get(shown.table.column_names[number])
            if known is not None:
                estimates[name] = known if isinstance(known, str) else tuple(known[row] for row in rows)
        return replace(shown, table=made.table, completeness=completeness, estimates=estimates)


def shape_of(shaping: Shaping, rows: Rows, names: Sequence[str]) -> Shape | None:
    """None where more follows the flow than projections, filters, sorts and limits that Arrow knows."""
    reading = _Reading(shaping)
    try:
        found = reading.read(rows)
    except NotExact:
        return None
    if found is None:
        return None
    of_flow: list[int | None] = list(reading.picked)
    for step in reading.steps:
        if isinstance(step, _Compute):
            passed = [each.number if isinstance(each, ColumnRef) else None for each in step.expressions]
            of_flow = [None if number is None else of_flow[number] for number in passed]
    return Shape(reading.picked, tuple(reading.steps), tuple(names), tuple(of_flow))


class _Reading:
    """Follows the plan from the flow upwards; ``read`` gives the columns by id, None if the plan has something else."""

    def __init__(self, shaping: Shaping) -> None:
        self._shaping = shaping
        self.picked: tuple[int, ...] = ()
        self.steps: list[_Step] = []

    def read(self, rows: Rows) -> dict[int, int] | None:
        if not isinstance(rows, SparkRows):
            if isinstance(rows, UnionRows) and any(isinstance(branch, SparkRows) for branch in rows.branches):
                return None
            finished = self._shaping.finished(rows)
            if _is_behind_users_function(finished.tree.node):
                return None
            self.picked = finished.numbers
            return {attribute.id: place for place, attribute in enumerate(rows.attributes)}
        numbers = self.read(rows.children[0]) if len(rows.children) == 1 else None
        return None if numbers is None else self._node(rows.plan, numbers)

    def _node(self, node: Any, numbers: dict[int, int]) -> dict[int, int] | None:
        match kind(node):
            case "Project":
                named = scala_list(node.projectList())
                self.steps.append(_Compute(tuple(self._translated(one, numbers) for one in named)))
                return {int(one.exprId().id()): place for place, one in enumerate(named)}
            case "Filter":
                self.steps.append(_Keep(self._translated(node.condition(), numbers)))
            case "Sort":
                self.steps.append(
                    _Order(
                        tuple(
                            (
                                self._translated(order.child(), numbers),
                                str(order.direction().sql()) == "ASC",
                                str(order.nullOrdering().sql()) == "NULLS FIRST",
                            )
                            for order in scala_list(node.order())
                        )
                    )
                )
            case "GlobalLimit" | "LocalLimit":
                most = self._translated(node.limitExpr(), numbers)
                if not isinstance(most, Literal):
                    return None
                self.steps.append(_Cut(int(most.value)))
            case _:
                return None
        return numbers

    def _translated(self, expression: Any, numbers: dict[int, int]) -> Expression:
        return translate(expression, numbers, self._shaping.gateway.facts)


def _is_behind_users_function(node: Node) -> bool:
    """Whether what is shown of a flow is not yet its result: functions of users are not run for it."""
    match node:
        case MapNode():
            return not isinstance(node.function, RowFunction) or _is_behind_users_function(node.child)
        case UnionNode():
            return _is_behind_users_function(node.left) or _is_behind_users_function(node.right)
        case _:
            return False


def _batch(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), names=[str(number) for number in range(len(columns))])
