"""A flow as a tree of frozen nodes. Building it runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import JoinSpec
from reshape.operators.relay import RelaySpec
from reshape.operators.set_ops import DistinctSpec, SetProbeSpec
from reshape.operators.sort import SortSpec

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
class JoinNode:
    left: Node
    right: Node
    spec: JoinSpec
    tuning: Tuning = ()

    @property
    def schema(self) -> pa.Schema:
        return self.spec.output_schema


@dataclass(frozen=True)
class GroupNode:
    child: Node
    spec: GroupBySpec
    tuning: Tuning = ()

    @property
    def schema(self) -> pa.Schema:
        return self.spec.output_schema


@dataclass(frozen=True)
class SortNode:
    child: Node
    spec: SortSpec
    tuning: Tuning = ()

    @property
    def schema(self) -> pa.Schema:
        return self.spec.output_schema


@dataclass(frozen=True)
class DistinctNode:
    child: Node
    spec: DistinctSpec
    tuning: Tuning = ()

    @property
    def schema(self) -> pa.Schema:
        return self.spec.output_schema


@dataclass(frozen=True)
class RelayNode:
    """Rows brought to where their keys are."""

    child: Node
    spec: RelaySpec
    tuning: Tuning = ()

    @property
    def schema(self) -> pa.Schema:
        return self.spec.output_schema


@dataclass(frozen=True)
class SetNode:
    """Intersection or difference; the right side is kept, the left side streams past it."""

    left: Node
    right: Node
    spec: SetProbeSpec
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


Node = SourceNode | MapNode | JoinNode | GroupNode | SortNode | DistinctNode | RelayNode | SetNode | UnionNode
