"""A flow's nodes with the DataFrames they read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from reshape.errors import FlowError
from reshape.operators.spec import Spec
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode, UnionNode
from reshape.plan.types import arrow_type, to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Tree:
    """Nodes, and the DataFrames of the source nodes by their number."""

    node: Node
    sources: tuple[DataFrame, ...]

    @classmethod
    def reading(cls, df: DataFrame) -> Tree:
        """Raises FlowError for columns that flows cannot carry."""
        for field in df.schema:
            if " collate " in field.dataType.simpleString():
                raise FlowError(
                    f"column {field.name!r} is {field.dataType.simpleString()}, but flows compare texts by their "
                    "bytes; cast it to string in the DataFrame that the flow reads"
                )
        _check_types(df)
        return cls(SourceNode(0, to_arrow(df.schema)), (df,))

    @property
    def schema(self) -> pa.Schema:
        return self.node.schema

    @property
    def spark(self) -> SparkSession:
        return self.sources[0].sparkSession

    def through(self, spec: Spec) -> Tree:
        """The rows of this tree through an operator of one input."""
        return Tree(OperatorNode((self.node,), spec), self.sources)

    def beside(self, right: Tree) -> tuple[Node, Node, tuple[DataFrame, ...]]:
        """Both trees over one list of DataFrames."""
        return self.node, _shift(right.node, len(self.sources)), self.sources + right.sources


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
