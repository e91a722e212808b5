"""Joins with a condition beside their keys, against nested loops."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from typing import Any, get_args

import pyarrow as pa
import pytest

from reshape.expressions.rows import Holding
from reshape.expressions.tree import Call, ColumnRef
from reshape.operators.hash_join import BUILD, PROBE, HashJoin, JoinKind, JoinSpec, OutputColumn, Side

LEFT = pa.table({"k": [1, 1, 2, 3, None, 4, 1, 2], "a": [5, 1, 7, 2, 3, None, 9, 0]})
RIGHT = pa.table({"k": [1, 2, 2, 1, 5, None, 4, 1], "b": [4, 8, 1, 6, 2, 3, 1, None]})
# Columns of both sides are numbered one behind the other: a is 1 and b is 3.
LESS = Holding.of(Call("LessThan", (ColumnRef(1, pa.int64()), ColumnRef(3, pa.int64())), pa.bool_()), 2, "a < b")


def spec_of(how: JoinKind) -> JoinSpec:
    output = [OutputColumn("k", left=0), OutputColumn("a", left=1)]
    if how not in ("left_semi", "left_anti"):
        output += [OutputColumn("k2", right=0), OutputColumn("b", right=1)]
    build: Side = "left" if how == "right" else "right"
    return JoinSpec(LEFT.schema, RIGHT.schema, (0,), (0,), how, tuple(output), build, LESS)


def expected(how: str) -> Counter[tuple[Any, ...]]:
    mine, theirs = (list(zip(*table.to_pydict().values(), strict=True)) for table in (LEFT, RIGHT))

    def matches(left: Any, right: Any) -> bool:
        return None not in (left[0], left[1], right[1]) and left[0] == right[0] and left[1] < right[1]

    found = Counter(left + right for left in mine for right in theirs if matches(left, right))
    if how == "left":
        found.update((*left, None, None) for left in mine if not any(matches(left, right) for right in theirs))
    if how == "right":
        found.update((None, None, *right) for right in theirs if not any(matches(left, right) for left in mine))
    if how in ("left_semi", "left_anti"):
        return Counter(left for left in mine if any(matches(left, right) for right in theirs) == (how == "left_semi"))
    return found


@pytest.mark.parametrize("how", ["inner", "left", "right", "left_semi", "left_anti"])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_equals_nested_loops(how: JoinKind, rows: int) -> None:
    spec: JoinSpec = pickle.loads(pickle.dumps(spec_of(how)))
    operator = HashJoin(spec, output_rows=rows)
    build, probe = (RIGHT, LEFT) if spec.build_side == "right" else (LEFT, RIGHT)
    for batch in build.to_batches(rows):
        assert list(operator.add(BUILD, batch)) == []
    operator.end_port(BUILD)
    made = [out for batch in probe.to_batches(rows) for out in operator.add(PROBE, batch)]
    operator.end_port(PROBE)
    made += operator.finish()
    assert all(batch.num_rows <= rows for batch in made)
    columns = pa.Table.from_batches(made, spec.output_schema).columns
    assert Counter(zip(*(column.to_pylist() for column in columns), strict=True)) == expected(how)


def test_columns_of_the_condition_are_not_pruned() -> None:
    spec = spec_of("left_semi")
    assert spec.needs([0]) == ({0, 1}, {0, 1})
    wide = pa.schema([pa.field("x", pa.string()), *LEFT.schema])
    shifted = replace(
        spec,
        left=wide,
        left_keys=(1,),
        output=(OutputColumn("k", left=1),),
        condition=LESS.renumbered(lambda n: n + 1, int),
    )
    narrow = shifted.narrowed([0], [[1, 2], [0, 1]], [LEFT.schema, RIGHT.schema]).spec
    assert isinstance(narrow, JoinSpec)
    assert narrow.condition == LESS


@pytest.mark.parametrize("how", [how for how in get_args(JoinKind) if how != "inner"])
def test_a_side_that_is_shown_without_a_match_is_not_kept(how: JoinKind) -> None:
    """Its rows are marked by key."""
    other: Side = "left" if how in ("left", "left_semi", "left_anti") else "right"
    with pytest.raises(ValueError, match=f"a {how} join with a condition cannot keep its {other} side"):
        replace(spec_of("inner"), how=how, build_side=other)
