"""Columns that nothing needs are not sent: the need of each operator is passed down to what feeds it, and to Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reshape.operators.spec import chosen
from reshape.plan.analysis import analyzed, as_column
from reshape.plan.nodes import MapNode, Node, OperatorNode, RowFunction, SourceNode, UnionNode
from reshape.plan.tree import Tree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A node, and which of its former columns it still gives, by their former numbers, in order.
Narrowed = tuple[Node, list[int]]


def pruned(tree: Tree) -> Tree:
    """The same rows, with only those columns sent between tasks that somebody reads."""
    pruning = _Pruning(tree.sources)
    node, _ = pruning.narrow(tree.node, range(len(tree.schema)))
    return Tree(node, tuple(pruning.sources))


class _Pruning:
    def __init__(self, sources: Sequence[DataFrame]) -> None:
        self.sources = list(sources)

    def narrow(self, node: Node, wanted: Iterable[int]) -> Narrowed:
        """A node that gives these columns, and maybe more; all columns come back as they were."""
        need = sorted(set(wanted))
        match node:
            case SourceNode():
                return self._source(node, need)
            case UnionNode():
                return self._union(node, need)
            case OperatorNode():
                return self._operator(node, need)
            case MapNode() if isinstance(node.function, RowFunction):
                return self._function(node, node.function, need)
            case MapNode():
                return replace(node, child=self.narrow(node.child, _all(node.child))[0]), _all(node)

    def _source(self, node: SourceNode, need: list[int]) -> Narrowed:
        if need == _all(node):
            return node, need
        df = self.sources[node.number]
        columns = analyzed(df).output()
        self.sources[node.number] = df.select(*(as_column(columns.apply(number)) for number in need))
        return SourceNode(node.number, chosen(node.schema, need)), need

    def _union(self, node: UnionNode, need: list[int]) -> Narrowed:
        if not _exact(node):
            need = _all(node)
        left, right = self.narrow(node.left, need)[0], self.narrow(node.right, need)[0]
        return UnionNode(left, right, chosen(node.schema, need)), need

    def _operator(self, node: OperatorNode, need: list[int]) -> Narrowed:
        needs = node.spec.needs(need)
        children = [self.narrow(child, columns) for child, columns in zip(node.inputs, needs, strict=True)]
        inputs = tuple(child for child, _ in children)
        made = node.spec.narrowed(need, [kept for _, kept in children], [child.schema for child in inputs])
        return replace(node, inputs=inputs, spec=made.spec), made.gives

    def _function(self, node: MapNode, function: RowFunction, need: list[int]) -> Narrowed:
        child, kept = self.narrow(node.child, function.needs(need))
        made, gives = function.narrowed(need, kept, child.schema)
        return MapNode(child, made, made.schema), gives


def _exact(node: Node) -> bool:
    """Whether a node can give some of its columns and no others."""
    match node:
        case SourceNode():
            return True
        case OperatorNode():
            return node.spec.exact
        case UnionNode():
            return _exact(node.left) and _exact(node.right)
        case MapNode():
            return isinstance(node.function, RowFunction) and node.function.exact


def _all(node: Node) -> list[int]:
    return list(range(len(node.schema)))
