"""A Join of Spark's plan as a hash join."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow.types as pat

from reshape.catalyst.columns import Columns, Shaping
from reshape.catalyst.errors import LeftToSpark
from reshape.catalyst.gateway import attributes_of, size_of
from reshape.catalyst.rows import FlowRows, Rows, SparkRows, may_be_scanned
from reshape.expressions.errors import NotExact
from reshape.expressions.rows import Computed, Holding
from reshape.expressions.table import may_raise
from reshape.expressions.translate import translate
from reshape.expressions.tree import Call, ColumnRef, Expression
from reshape.operators.hash_join import JoinKind, JoinSpec, OutputColumn, Side
from reshape.plan.analysis import join_kind, plain_key, words_of
from reshape.plan.nodes import MapNode, OperatorNode
from reshape.plan.tree import Tree

# Rows whose size Spark cannot tell, such as those made of Python's own, count as the largest there is
# (spark.sql.defaultSizeInBytes, 8 EiB), less what projections take away. No table has this many bytes.
_UNKNOWN_BYTES = 1 << 55


def label(node: Any) -> str:
    return f"{join_kind(node.joinType()) or node.joinType().toString()} join"


def joined(shaping: Shaping, node: Any, left: Rows, right: Rows) -> Rows:
    """Raises LeftToSpark for joins that are more than equal keys."""
    equal = shaping.gateway.equi_join(node)
    if equal is None:
        raise LeftToSpark("it has no equal keys, so every row would have to meet every other")
    how = join_kind(equal.how)
    if how is None:
        raise LeftToSpark(f"a join of kind {equal.how.toString()} is Spark's own")
    if equal.residual is not None and how == "full":
        raise LeftToSpark(f"a full join with more than equal keys: {words_of(equal.residual)}")
    mine = shaping.columns(left, [plain_key(key) for key in equal.left_keys], keep=True)
    theirs = shaping.columns(right, [plain_key(key) for key in equal.right_keys], keep=True)
    spec = JoinSpec(
        mine.tree.schema,
        theirs.tree.schema,
        mine.asked,
        theirs.asked,
        how,
        _output(shaping, node, mine, theirs, len(shaping.attributes(left))),
        _build_side(node, how, inside := equal.residual is not None and how != "inner"),
        _condition(shaping, how, equal.residual, mine, theirs) if inside else None,
    )
    left_node, right_node, sources = mine.tree.beside(theirs.tree)
    shown = attributes_of(node)
    tree = Tree(OperatorNode((left_node, right_node), spec), sources)
    rows = FlowRows(tree, shown, {attribute.id: place for place, attribute in enumerate(shown)})
    return rows if equal.residual is None or inside else _filtered(shaping, node, rows, equal.residual)


def sharing_keys(rows: FlowRows) -> FlowRows:
    """The rows of a projection. Where it shows the two sides of a key as one column, as a full join on names does, the
    join itself does so: it knows which of its rows have which side."""
    node = rows.tree.node
    if not (isinstance(node, MapNode) and isinstance(node.function, Computed)):
        return rows
    join = node.child
    if not (isinstance(join, OperatorNode) and isinstance(join.spec, JoinSpec)):
        return rows
    expressions, output = list(node.function.expressions), list(join.spec.output)
    for place, (expression, field) in enumerate(zip(expressions, node.schema, strict=True)):
        shared = _shared_key(join.spec, expression, field.name)
        if shared is not None:
            expressions[place] = ColumnRef(len(output), field.type)
            output.append(shared)
    join = replace(join, spec=replace(join.spec, output=tuple(output)))
    places = [each.number for each in expressions if isinstance(each, ColumnRef)]
    if len(places) == len(expressions):  # nothing is left to compute
        numbers = {identity: places[number] for identity, number in rows.numbers.items()}
        return replace(rows, tree=Tree(join, rows.tree.sources), numbers=numbers)
    function = Computed(node.schema, tuple(expressions))
    return replace(rows, tree=Tree(MapNode(join, function, node.schema), rows.tree.sources))


def _shared_key(spec: JoinSpec, expression: Expression, name: str) -> OutputColumn | None:
    """An expression that is the first present one of a key's two sides, as a column of the join."""
    match expression:
        case Call("Coalesce", (ColumnRef(first), ColumnRef(second))):
            left, right = spec.output[first].left, spec.output[second].right
        case _:
            return None
    if left is None or right is None or (left, right) not in zip(spec.left_keys, spec.right_keys, strict=True):
        return None
    # A pair shows the value of its probe row, and of equal floats two may differ: 0.0 and -0.0.
    may_differ = pat.is_floating(expression.type) or pat.is_nested(expression.type)
    return None if may_differ and spec.probe_side == "right" else OutputColumn(name, left, right)


def scans_larger_side(node: Any, left: Rows, right: Rows) -> bool:
    """Whether hosts may read the larger side."""
    return may_be_scanned(left if size_of(node.left()) >= size_of(node.right()) else right)


def _output(shaping: Shaping, node: Any, left: Columns, right: Columns, of_left: int) -> tuple[OutputColumn, ...]:
    shown = attributes_of(node)
    names = [shaping.names.of(attribute) for attribute in shown]
    output = []
    for place, (attribute, name) in enumerate(zip(shown, names, strict=True)):
        if place < of_left:
            output.append(OutputColumn(name, left=left.numbers[attribute.id]))
        else:
            output.append(OutputColumn(name, right=right.numbers[attribute.id]))
    if not output:  # rows that are only counted
        output = [OutputColumn(left.tree.schema.names[0], left=0)]
    return tuple(output)


def _condition(shaping: Shaping, how: JoinKind, residual: Any, left: Columns, right: Columns) -> Holding:
    """What a match needs beside equal keys; raises NotExact where Arrow cannot tell."""
    of_left = len(left.tree.schema)
    numbers = left.numbers | {one: number + of_left for one, number in right.numbers.items()}
    predicate = translate(residual, numbers, shaping.gateway.facts)
    if how in ("left_semi", "left_anti") and may_raise(predicate):
        raise LeftToSpark(f"Spark stops at the first match, and {words_of(residual)} may fail at a later one")
    return Holding.of(predicate, of_left, words_of(residual))


def _build_side(node: Any, how: JoinKind, conditional: bool) -> Side:
    """The side that is kept in memory: the smaller one, by Spark's estimate, or the right one where there is none. With
    a condition it is the one whose rows appear with a match only."""
    if conditional:
        return "left" if how == "right" else "right"
    left, right = size_of(node.left()), size_of(node.right())
    return "left" if left < right < _UNKNOWN_BYTES else "right"


def _filtered(shaping: Shaping, node: Any, rows: FlowRows, residual: Any) -> Rows:
    """What else an inner join asks for, as a filter behind it."""
    try:
        return shaping.filtered(rows, residual)
    except NotExact:
        return SparkRows(shaping.gateway.filter(residual, node), (rows,))
