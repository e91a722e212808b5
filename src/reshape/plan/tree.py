"""A flow's nodes with the DataFrames they read, and rows brought into another shape: by Spark in a source's own job, by
Arrow behind an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from reshape.errors import FlowError
from reshape.operators.recast import Recast
from reshape.operators.spec import Spec
from reshape.plan.analysis import Input
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode, UnionNode
from reshape.plan.types import arrow_type, exact_cast, spark_type, to_arrow, type_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Tree:
    """Nodes, and the DataFrames of the source nodes by their number."""

    node: Node
    sources: tuple[DataFrame, ...]

    @classmethod
    def reading(cls, df: DataFrame, projected: tuple[str, ...] = ()) -> Tree:
        for field in df.schema:
            if " collate " in field.dataType.simpleString():
                raise FlowError(
                    f"column {field.name!r} is {field.dataType.simpleString()}, but flows compare texts by their "
                    "bytes; cast it to string in the DataFrame that the flow reads"
                )
        _check_types(df)
        return cls(SourceNode(0, to_arrow(df.schema), projected), (df,))

    @property
    def schema(self) -> pa.Schema:
        return self.node.schema

    @property
    def spark(self) -> SparkSession:
        return self.sources[0].sparkSession

    @property
    def df(self) -> DataFrame | None:
        """The DataFrame itself, when nothing follows it."""
        return self.sources[0] if isinstance(self.node, SourceNode) else None

    def input(self) -> Input:
        """The rows that this tree gives, for expressions about them."""
        if self.df is not None:
            return Input(self.df, computes=True)
        return Input.of_operator(self.spark, self.schema)

    def through(self, spec: Spec) -> Tree:
        """The rows of this tree through an operator of one input."""
        return Tree(OperatorNode((self.node,), spec), self.sources)

    def beside(self, right: Tree) -> tuple[Node, Node, tuple[DataFrame, ...]]:
        """Both trees over one list of DataFrames."""
        return self.node, _shift(right.node, len(self.sources)), self.sources + right.sources

    def select(self, columns: Sequence[tuple[Column, str]], texts: tuple[str, ...]) -> Tree:
        """Columns and expressions that Spark computes; for a tree that is a DataFrame."""
        assert self.df is not None
        return Tree.reading(self.df.select(*(column.alias(name) for column, name in columns)), texts)

    def each(
        self, on_source: Callable[[DataFrame], tuple[DataFrame, tuple[str, ...]]], on_operator: Callable[[Node], Node]
    ) -> Tree:
        """The tree with its rows changed where they come from: a union has several places."""
        sources = list(self.sources)

        def changed(node: Node) -> Node:
            if isinstance(node, UnionNode):
                left, right = changed(node.left), changed(node.right)
                return UnionNode(left, right, left.schema)
            if not isinstance(node, SourceNode):
                return on_operator(node)
            sources[node.number], projected = on_source(sources[node.number])
            return SourceNode(node.number, to_arrow(sources[node.number].schema), projected)

        return Tree(changed(self.node), tuple(sources))


def _check_types(df: DataFrame) -> None:
    from pyspark.errors import PySparkTypeError

    for field in df.schema:
        try:
            arrow_type(field.dataType)
        except PySparkTypeError as error:
            raise FlowError(
                f"column {field.name!r} is {field.dataType.simpleString()}, which PySpark cannot bring into Arrow; "
                "drop it, or cast it in the DataFrame that the flow reads"
            ) from error


def recast(tree: Tree, what: str, columns: Sequence[int], schema: pa.Schema) -> Tree:
    """Columns by number under the names and types of a schema. Raises where only Spark could cast them."""
    mine = tree.schema
    if schema.equals(mine) and list(columns) == list(range(len(mine))):
        return tree

    def in_spark(df: DataFrame) -> tuple[DataFrame, tuple[str, ...]]:
        source, chosen, texts = Input(df, computes=True), [], []
        for number, field in zip(columns, schema, strict=True):
            column, before = source.column(number), mine.field(number)
            if before.type == field.type:
                chosen.append(column.alias(field.name))
                texts.append(field.name if before.name == field.name else f"{before.name} AS {field.name}")
            else:
                kind = spark_type(field.type)
                chosen.append(column.cast(kind).alias(field.name))
                texts.append(f"cast({before.name} AS {kind.simpleString()}) AS {field.name}")
        return df.select(*chosen), tuple(texts)

    def in_arrow(node: Node) -> Node:
        for number, field in zip(columns, schema, strict=True):
            before = mine.field(number)
            if not exact_cast(tree.spark, before.type, field.type):
                raise FlowError(
                    f"{what}: column {before.name!r} is {type_name(before.type)} and would have to become "
                    f"{type_name(field.type)}, which only Spark can do; but the column comes from another operator. "
                    "Cast it in the DataFrame that the flow reads"
                )
        return MapNode(node, Recast(schema, tuple(columns)), schema)

    made = tree.each(in_spark, in_arrow)
    return Tree(_with_schema(made.node, schema), made.sources)


def _with_schema(node: Node, schema: pa.Schema) -> Node:
    """Sides of a union agree in everything, also in what may be null."""
    match node:
        case UnionNode():
            return UnionNode(_with_schema(node.left, schema), _with_schema(node.right, schema), schema)
        case SourceNode() | MapNode():
            return replace(node, schema=schema)
        case _:
            return node


def _shift(node: Node, by: int) -> Node:
    """The same tree with its sources numbered from ``by`` on."""
    match node:
        case SourceNode():
            return replace(node, number=node.number + by)
        case MapNode():
            return replace(node, child=_shift(node.child, by))
        case OperatorNode():
            return replace(node, inputs=tuple(_shift(child, by) for child in node.inputs))
        case UnionNode():
            return replace(node, left=_shift(node.left, by), right=_shift(node.right, by))
