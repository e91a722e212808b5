"""Where two flows meet: joins, unions and set operations, with Spark's rules for types, names and order of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from reshape.errors import FlowError
from reshape.kernels.keys import check_keys
from reshape.operators.hash_join import JoinKind, JoinSpec, OutputColumn
from reshape.operators.set_ops import SetProbeSpec
from reshape.plan.nodes import OperatorNode, UnionNode
from reshape.plan.tree import Tree, recast
from reshape.plan.types import key_type, row_types, shown_key_type, type_name, unused

_HOW: dict[str, JoinKind] = {
    "inner": "inner",
    "left": "left",
    "leftouter": "left",
    "right": "right",
    "rightouter": "right",
    "full": "full",
    "outer": "full",
    "fullouter": "full",
    "semi": "left_semi",
    "leftsemi": "left_semi",
    "anti": "left_anti",
    "leftanti": "left_anti",
}


def join(left: Tree, right: Tree, on: object, how: str) -> Tree:
    """Rows of both with equal keys. A key that has to be cast is a hidden column."""
    kind = _HOW.get(how.lower().replace(" ", "").replace("_", ""))
    if kind is None:
        raise FlowError(f"join: how = {how!r} is not one of {', '.join(sorted(set(_HOW.values())))}")
    pairs = _pairs(on)
    keys = [(column_number(left, a, "join"), column_number(right, b, "join")) for a, b in pairs]
    for a, b in keys:
        check_keys("join", left.schema, [a])
        check_keys("join", right.schema, [b])
    types = [key_type(left.spark, left.schema.field(a), right.schema.field(b)) for a, b in keys]
    by_name = all(a == b for a, b in pairs)
    if by_name and kind == "full":
        _check_shown(left, right, keys, types)
    wide_left, left_keys = _with_keys(left, [a for a, _ in keys], types)
    wide_right, right_keys = _with_keys(right, [b for _, b in keys], types)
    compared = list(zip(left_keys, right_keys, strict=True))
    columns = _join_output(left.schema, right.schema, keys, compared, kind, by_name)
    spec = JoinSpec(wide_left.schema, wide_right.schema, left_keys, right_keys, kind, columns)
    mine, theirs, sources = wide_left.beside(wide_right)
    return Tree(OperatorNode((mine, theirs), spec), sources)


def _check_shown(left: Tree, right: Tree, keys: Sequence[tuple[int, int]], types: Sequence[pa.DataType]) -> None:
    for (a, b), kind in zip(keys, types, strict=True):
        mine, theirs = left.schema.field(a), right.schema.field(b)
        if mine.type != theirs.type and shown_key_type(left.spark, mine, theirs) != kind:
            raise FlowError(
                f"join: key {mine.name!r} is {type_name(mine.type)} on the left and {type_name(theirs.type)} on the "
                f"right; Spark would compare it as {type_name(kind)} and show it as "
                f"{type_name(shown_key_type(left.spark, mine, theirs))}. Cast one of them in the DataFrame that the "
                "flow reads"
            )


def union(left: Tree, right: Tree) -> Tree:
    """Rows of both by position. Two DataFrames are united by Spark itself, as one source."""
    types = row_types(left.spark, "union", left.schema, right.schema)
    if left.df is not None and right.df is not None:
        return Tree.reading(left.df.union(right.df))
    fields = [
        pa.field(mine.name, kind, mine.nullable or theirs.nullable or kind not in (mine.type, theirs.type))
        for mine, theirs, kind in zip(left.schema, right.schema, types, strict=True)
    ]
    schema, columns = pa.schema(fields), range(len(fields))
    mine, theirs, sources = recast(left, "union", columns, schema).beside(recast(right, "union", columns, schema))
    return Tree(UnionNode(mine, theirs, schema), sources)


def set_operation(left: Tree, right: Tree, kind: Literal["intersect", "subtract"]) -> Tree:
    """Rows of the left side that the right side has, or has not."""
    types = row_types(left.spark, kind, left.schema, right.schema)
    columns = range(len(types))
    check_keys(kind, left.schema, columns)
    check_keys(kind, right.schema, columns)
    wanted = pa.schema([field.with_type(t) for field, t in zip(left.schema, types, strict=True)])
    nullable = [(mine.nullable, theirs.nullable) for mine, theirs in zip(left.schema, right.schema, strict=True)]
    other = pa.schema([field.with_nullable(n) for field, (_, n) in zip(wanted, nullable, strict=True)])
    mine, theirs, sources = recast(left, kind, columns, wanted).beside(recast(right, kind, columns, other))
    if kind == "intersect":  # what is in both has nulls only where both have
        wanted = pa.schema([field.with_nullable(all(n)) for field, n in zip(wanted, nullable, strict=True)])
    return Tree(OperatorNode((mine, theirs), SetProbeSpec(wanted, kind, other)), sources)


def column_number(tree: Tree, name: object, what: str) -> int:
    """The number of the one column of this name; small and capital letters are the same unless Spark is told not."""
    schema = tree.schema
    if not isinstance(name, str):
        known = ", ".join(schema.names)
        raise FlowError(f"{what}: name columns as texts, not as {type(name).__name__}; there are {known}")
    found = schema.get_all_field_indices(name)
    if not found and tree.spark.conf.get("spark.sql.caseSensitive") == "false":
        found = [number for number, known in enumerate(schema.names) if known.lower() == name.lower()]
    if len(found) != 1:
        wrong = "is not" if not found else "is more than once"
        raise FlowError(f"{what}: column {name!r} {wrong} among {', '.join(schema.names)}")
    return int(found[0])


def _pairs(on: object) -> list[tuple[object, object]]:
    if isinstance(on, str):
        return [(on, on)]
    if isinstance(on, tuple) and len(on) == 2 and all(isinstance(name, str) for name in on):
        return [on]
    problem = FlowError(
        "join: on is a column name, a list of names, or a list of pairs of names (left, right) whose values are equal; "
        f"got {on!r}"
    )
    if not isinstance(on, Sequence) or not on:
        raise problem
    pairs: list[tuple[object, object]] = []
    for one in on:
        if isinstance(one, str):
            pairs.append((one, one))
        elif isinstance(one, tuple) and len(one) == 2:
            pairs.append(one)
        else:
            raise problem
    return pairs


def _with_keys(tree: Tree, keys: Sequence[int], types: Sequence[pa.DataType]) -> tuple[Tree, tuple[int, ...]]:
    """The tree with a hidden column for each key that has another type, and the numbers of the keys in it."""
    schema, numbers, columns, fields = tree.schema, [], list(range(len(tree.schema))), list(tree.schema)
    for key, kind in zip(keys, types, strict=True):
        if schema.field(key).type == kind:
            numbers.append(key)
            continue
        numbers.append(len(columns))
        columns.append(key)
        name = unused(f"{schema.field(key).name} as {type_name(kind)}", [field.name for field in fields])
        fields.append(pa.field(name, kind))
    if len(columns) == len(schema):
        return tree, tuple(numbers)
    return recast(tree, "join", columns, pa.schema(fields)), tuple(numbers)


def _join_output(
    left: pa.Schema,
    right: pa.Schema,
    columns: Sequence[tuple[int, int]],
    compared: Sequence[tuple[int, int]],
    how: JoinKind,
    by_name: bool,
) -> tuple[OutputColumn, ...]:
    """Columns as Spark orders them: with names, the keys once and first; with pairs, all of both sides."""
    one_sided = how in ("left_semi", "left_anti")
    left_keys = [a for a, _ in columns] if by_name else []
    right_keys = [b for _, b in columns] if by_name else []
    output = []
    if by_name:
        for (a, b), (mine, theirs) in zip(columns, compared, strict=True):
            name = left.names[a]
            if how == "full":
                output.append(OutputColumn(name, left=mine, right=theirs))
            else:
                output.append(OutputColumn(name, right=b) if how == "right" else OutputColumn(name, left=a))
    output += [OutputColumn(name, left=i) for i, name in enumerate(left.names) if i not in left_keys]
    if not one_sided:
        output += [OutputColumn(name, right=i) for i, name in enumerate(right.names) if i not in right_keys]
    names = [column.name for column in output]
    for names_of_side in (left.names, [] if one_sided else right.names):
        refuse_twice("join", names_of_side, "one side has more than one", "rename one before the join")
    refuse_twice("join", names, "both sides have a", "rename one before the join")
    return tuple(output)


def refuse_twice(what: str, names: Sequence[str], problem: str, advice: str) -> None:
    """Rows of the next operator are found by name, so a name may be there once only."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FlowError(f"{what}: {problem} column {', '.join(map(repr, twice))}; {advice}")
