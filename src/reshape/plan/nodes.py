"""A flow as a tree of frozen nodes. Building it runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from reshape.operators.spec import Spec

Tuning = tuple[tuple[str, Any], ...]  # settings that hold for one operator only
MapFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class SourceNode:
    """A DataFrame; ``number`` is its place in the flow's list of them. ``projected`` tells what Spark selects."""

    number: int
    schema: pa.Schema
    projected: tuple[str, ...] = ()


@dataclass(frozen=True)
class MapNode:
    """The user's own function, run where the rows are."""

    child: Node
    function: MapFunction
    schema: pa.Schema
    ordered: bool = False  # whether it needs the rows of a key in their order


@dataclass(frozen=True)
class OperatorNode:
    """Any operator, over as many inputs as its spec has."""

    inputs: tuple[Node, ...]
    spec: Spec
    tuning: Tuning = ()

    @property
    def schema(self) -> pa.Schema:
        return self.spec.output_schema


@dataclass(frozen=True)
class UnionNode:
    """Rows of both, as in UNION ALL. Both sides have this very schema."""

    left: Node
    right: Node
    schema: pa.Schema


Node = SourceNode | MapNode | OperatorNode | UnionNode
