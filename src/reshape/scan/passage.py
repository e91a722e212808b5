"""From nodes of Spark's physical plan to the steps that a scan's rows pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from reshape.errors import ReshapeError
from reshape.expressions.rows import Holding
from reshape.expressions.table import may_raise
from reshape.expressions.translate import SessionFacts, translate
from reshape.expressions.tree import ColumnRef, Expression
from reshape.operators.hash_join import JoinSpec, OutputColumn
from reshape.plan.analysis import join_kind, kind, plain_key, scala_list, words_of
from reshape.scan.errors import NotReadable
from reshape.scan.physical import BroadcastJoin
from reshape.scan.scan import Compute, Expand, Keep, LookUp, Scan, Step


class Passage:
    """The steps so far, and the columns behind them: by the ids of Spark's attributes, and their types."""

    def __init__(self, attributes: Sequence[Any], types: Sequence[pa.DataType], facts: SessionFacts) -> None:
        self.steps: list[Step] = []
        self._numbers = _numbers(attributes)
        self._types = list(types)
        self._facts = facts

    @property
    def schema(self) -> pa.Schema:
        """The columns, with numbers for names."""
        return _numbered(self._types)

    def take(self, node: Any) -> None:
        """A node that asks for one row at a time; raises NotExact."""
        match kind(node):
            case "FilterExec":
                self.steps.append(Keep(self._translated(node.condition())))
            case "ProjectExec":
                named = scala_list(node.projectList())
                self._become(named, (tuple(map(self._translated, named)),))
            case _:
                rows = map(scala_list, scala_list(node.projections()))
                lists = tuple(tuple(map(self._translated, expressions)) for expressions in rows)
                self._become(scala_list(node.output()), lists)

    def look_up(self, join: BroadcastJoin, scan: Scan) -> None:
        """A join with all rows of another scan; raises NotExact, or NotReadable for a join that is more than that."""
        how = join_kind(join.node.joinType())
        if how is None or join.node.isNullAwareAntiJoin():
            raise NotReadable("it has a join of a kind that hosts do not look up")
        other = Passage(join.broadcast.output, scan.schema.types, self._facts)
        left, right = (other, self) if join.builds_left else (self, other)
        of_left, of_right = len(left._types), len(right._types)
        condition = _condition(join, left, right) if join.node.condition().isDefined() else None
        left_keys = left._with(join.node.leftKeys())
        right_keys = right._with(join.node.rightKeys())
        shown = [OutputColumn(str(number), left=number) for number in range(of_left)]
        if how not in ("left_semi", "left_anti"):
            shown += [OutputColumn(str(of_left + number), right=number) for number in range(of_right)]
        try:
            spec = JoinSpec(
                left.schema,
                right.schema,
                left_keys,
                right_keys,
                how,
                tuple(shown) or (OutputColumn("row", left=left_keys[0]),),
                "left" if join.builds_left else "right",
                condition,
            )
        except (ReshapeError, ValueError) as error:
            raise NotReadable(f"hosts do not look up such rows: {error}") from None
        if spec.tracks_matches:
            raise NotReadable(f"it has a {how} join whose rows without a match are those that are broadcast")
        scan = replace(scan, schema=other.schema, steps=(*scan.steps, *other.steps))
        self.steps.append(LookUp(scan, spec))
        self._numbers, self._types = _numbers(scala_list(join.node.output())), list(spec.output_schema.types)

    def _become(self, attributes: Sequence[Any], lists: tuple[tuple[Expression, ...], ...]) -> None:
        types = [expression.type for expression in lists[0]]
        if any([expression.type for expression in expressions] != types for expressions in lists):
            raise NotReadable("its rows differ in type")
        self.steps.append(Compute(lists[0]) if len(lists) == 1 else Expand(lists))
        self._numbers, self._types = _numbers(attributes), types

    def _with(self, keys: Any) -> tuple[int, ...]:
        """Where the keys of a join are, behind all other columns unless they are columns already."""
        asked = [self._translated(plain_key(key)) for key in scala_list(keys)]
        columns: list[Expression] = [ColumnRef(number, kind_) for number, kind_ in enumerate(self._types)]
        new = [one for one in dict.fromkeys(asked) if one not in columns]
        if new:
            columns += new
            self.steps.append(Compute(tuple(columns)))
            self._types += [one.type for one in new]
        return tuple(map(columns.index, asked))

    def _translated(self, expression: Any) -> Expression:
        return translate(expression, self._numbers, self._facts)


def _condition(join: BroadcastJoin, left: Passage, right: Passage) -> Holding:
    asked, of_left = join.node.condition().get(), len(left._types)
    numbers = left._numbers | {one: of_left + number for one, number in right._numbers.items()}
    predicate = translate(asked, numbers, left._facts)
    if may_raise(predicate):
        raise NotReadable(f"it has a join, and Spark may never ask for {words_of(asked)}, which may fail")
    return Holding.of(predicate, of_left, words_of(asked))


def _numbers(attributes: Sequence[Any]) -> dict[int, int]:
    return {attribute.exprId().id(): number for number, attribute in enumerate(attributes)}


def _numbered(types: Sequence[pa.DataType]) -> pa.Schema:
    return pa.schema([(str(number), kind_) for number, kind_ in enumerate(types)])
