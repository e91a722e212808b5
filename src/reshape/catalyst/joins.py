"""A Join of Spark's plan as a hash join."""

from __future__ import annotations

from typing import Any

from reshape.catalyst.columns import Columns, Shaping
from reshape.catalyst.errors import LeftToSpark
from reshape.catalyst.gateway import Attribute, attributes_of, size_of
from reshape.catalyst.rows import FlowRows, Rows, SparkRows
from reshape.expressions.errors import NotExact
from reshape.operators.hash_join import JoinKind, JoinSpec, OutputColumn, Side
from reshape.plan.analysis import kind
from reshape.plan.nodes import OperatorNode
from reshape.plan.tree import Tree

_HOW: dict[str, JoinKind] = {
    "Inner": "inner",
    "Cross": "inner",
    "LeftOuter": "left",
    "RightOuter": "right",
    "FullOuter": "full",
    "LeftSemi": "left_semi",
    "LeftAnti": "left_anti",
}

# Keys of hosts are compared so by themselves.
_NORMALISING = ("KnownFloatingPointNormalized", "NormalizeNaNAndZero")


def label(node: Any) -> str:
    how = str(node.joinType().toString())
    return f"{_HOW[how]} join" if how in _HOW else f"{how} join"


def joined(shaping: Shaping, node: Any, left: Rows, right: Rows) -> Rows:
    """Raises LeftToSpark for joins that are more than equal keys."""
    equal = shaping.gateway.equi_join(node)
    if equal is None:
        raise LeftToSpark("it has no equal keys, so every row would have to meet every other")
    how = _HOW.get(equal.how)
    if how is None:
        raise LeftToSpark(f"a join of kind {equal.how} is Spark's own")
    if equal.residual is not None and how != "inner":
        raise LeftToSpark(f"its condition has more than equal keys: {equal.residual.sql()}")
    mine = shaping.columns(left, [_plain(key) for key in equal.left_keys], keep=True)
    theirs = shaping.columns(right, [_plain(key) for key in equal.right_keys], keep=True)
    shown = attributes_of(node)
    rows = _operator(shaping, node, how, mine, theirs, shown, len(shaping.attributes(left)))
    return rows if equal.residual is None else _filtered(shaping, node, rows, equal.residual)


def _operator(
    shaping: Shaping,
    node: Any,
    how: JoinKind,
    left: Columns,
    right: Columns,
    shown: tuple[Attribute, ...],
    of_left: int,
) -> FlowRows:
    names = [shaping.names.of(attribute) for attribute in shown]
    output = []
    for place, (attribute, name) in enumerate(zip(shown, names, strict=True)):
        if place < of_left:
            output.append(OutputColumn(name, left=left.numbers[attribute.id]))
        else:
            output.append(OutputColumn(name, right=right.numbers[attribute.id]))
    if not output:  # rows that are only counted
        output = [OutputColumn(left.tree.schema.names[0], left=0)]
    spec = JoinSpec(
        left.tree.schema, right.tree.schema, left.asked, right.asked, how, tuple(output), _build_side(node, how)
    )
    mine, theirs, sources = left.tree.beside(right.tree)
    tree = Tree(OperatorNode((mine, theirs), spec), sources)
    return FlowRows(tree, shown, {attribute.id: place for place, attribute in enumerate(shown)})


def _build_side(node: Any, how: JoinKind) -> Side:
    """The side that is kept in memory: the smaller one, by Spark's estimate."""
    return "left" if size_of(node.left()) < size_of(node.right()) else "right"


def _filtered(shaping: Shaping, node: Any, rows: FlowRows, residual: Any) -> Rows:
    """What else an inner join asks for, as a filter behind it."""
    try:
        return shaping.filtered(rows, residual)
    except NotExact:
        return SparkRows(shaping.gateway.filter(residual, node), (rows,))


def _plain(key: Any) -> Any:
    while kind(key) in _NORMALISING:
        key = key.child()
    return key
