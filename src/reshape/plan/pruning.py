"""Columns that nothing needs are not sent: the need of each operator is passed down to what feeds it, and to Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from reshape.kernels.ordering import Ordering
from reshape.operators.aggregates import columns_of
from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import OutputColumn
from reshape.operators.recast import Recast
from reshape.plan import aggregates as agg
from reshape.plan.analysis import Input
from reshape.plan.nodes import (
    DistinctNode,
    GroupNode,
    JoinNode,
    MapNode,
    Node,
    RelayNode,
    SetNode,
    SortNode,
    SourceNode,
    UnionNode,
)
from reshape.plan.tree import Tree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A node, and which of its former columns it still gives, by their former numbers.
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
            case JoinNode():
                return self._join(node, need)
            case GroupNode():
                return self._group(node)
            case SortNode():
                return self._sort(node, need)
            case RelayNode():
                child, kept = self.narrow(node.child, {*need, *node.spec.keys})
                keys = tuple(kept.index(key) for key in node.spec.keys)
                return replace(node, child=child, spec=replace(node.spec, schema=child.schema, keys=keys)), kept
            case MapNode() if isinstance(node.function, Recast):
                return self._recast(node, node.function, need)
            case MapNode() | DistinctNode():
                return replace(node, child=self._whole(node.child)), _all(node)
            case SetNode():
                return replace(node, left=self._whole(node.left), right=self._whole(node.right)), _all(node)

    def _whole(self, node: Node) -> Node:
        return self.narrow(node, _all(node))[0]

    def _source(self, node: SourceNode, need: list[int]) -> Narrowed:
        if need == _all(node):
            return node, need
        df = self.sources[node.number]
        source = Input(df, computes=True)
        self.sources[node.number] = df.select(*(source.column(number) for number in need))
        texts = node.projected or tuple(node.schema.names)
        if len(texts) == len(node.schema):
            texts = tuple(texts[number] for number in need)
        return SourceNode(node.number, _chosen(node.schema, need), texts), need

    def _union(self, node: UnionNode, need: list[int]) -> Narrowed:
        if not (_exact(node.left) and _exact(node.right)):
            need = _all(node)
        left, right = self.narrow(node.left, need)[0], self.narrow(node.right, need)[0]
        return UnionNode(left, right, _chosen(node.schema, need)), need

    def _join(self, node: JoinNode, need: list[int]) -> Narrowed:
        spec = node.spec
        shown = [spec.output[number] for number in need]
        left, left_kept = self.narrow(node.left, {*spec.left_keys, *_present(column.left for column in shown)})
        right, right_kept = self.narrow(node.right, {*spec.right_keys, *_present(column.right for column in shown)})
        output = tuple(
            OutputColumn(
                column.name,
                None if column.left is None else left_kept.index(column.left),
                None if column.right is None else right_kept.index(column.right),
            )
            for column in shown
        )
        made = replace(
            spec,
            left=left.schema,
            right=right.schema,
            left_keys=tuple(left_kept.index(key) for key in spec.left_keys),
            right_keys=tuple(right_kept.index(key) for key in spec.right_keys),
            output=output,
        )
        return replace(node, left=left, right=right, spec=made), need

    def _group(self, node: GroupNode) -> Narrowed:
        spec = node.spec
        need = {*spec.keys, *(column for aggregate in spec.aggregates for column in columns_of(aggregate))}
        # Rows without any column could not be counted.
        child, kept = self.narrow(node.child, need or {0})
        made = GroupBySpec(
            _chosen(spec.schema, kept),
            tuple(kept.index(key) for key in spec.keys),
            tuple(_renumbered(aggregate, kept) for aggregate in spec.aggregates),
        )
        return replace(node, child=child, spec=made), _all(node)

    def _sort(self, node: SortNode, need: list[int]) -> Narrowed:
        spec = node.spec
        shown = len(spec.schema) - spec.hidden
        if spec.hidden and not _exact(node.child):
            need = list(range(shown))
        child, kept = self.narrow(node.child, {*need, *spec.ordering.columns, *range(shown, len(spec.schema))})
        keys = tuple(replace(key, column=kept.index(key.column)) for key in spec.ordering.keys)
        made = replace(spec, schema=child.schema, ordering=Ordering(keys))
        return replace(node, child=child, spec=made), [number for number in kept if number < shown]

    def _recast(self, node: MapNode, function: Recast, need: list[int]) -> Narrowed:
        child, kept = self.narrow(node.child, {function.columns[number] for number in need})
        schema = _chosen(function.schema, need)
        made = Recast(schema, tuple(kept.index(function.columns[number]) for number in need))
        return MapNode(child, made, schema), need


def _renumbered(aggregate: agg.Aggregate, kept: list[int]) -> agg.Aggregate:
    match aggregate:
        case agg.CountAll():
            return aggregate
        case agg.CountDistinct() | agg.UserDefined():
            return replace(aggregate, columns=tuple(kept.index(column) for column in aggregate.columns))
        case _:
            return replace(aggregate, column=kept.index(aggregate.column))


def _exact(node: Node) -> bool:
    """Whether a node can give some of its columns and no others."""
    match node:
        case SourceNode() | JoinNode():
            return True
        case UnionNode():
            return _exact(node.left) and _exact(node.right)
        case MapNode():
            return isinstance(node.function, Recast)
        case _:
            return False


def _chosen(schema: pa.Schema, numbers: Iterable[int]) -> pa.Schema:
    return pa.schema([schema.field(number) for number in numbers])


def _all(node: Node) -> list[int]:
    return list(range(len(node.schema)))


def _present(numbers: Iterable[int | None]) -> set[int]:
    return {number for number in numbers if number is not None}
