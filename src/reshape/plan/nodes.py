"""A flow as a tree of frozen nodes. Building it runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from reshape.operators.spec import Spec

Tuning = tuple[tuple[str, Any], ...]  # settings that hold for one operator only
MapFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@runtime_checkable
class RowFunction(Protocol):
    """A function behind an operator that is known by its columns, so that those that nobody reads can be left out."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...

    @property
    def exact(self) -> bool:
        """Whether it can give some of its columns and no others."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The rows that it gives."""
        ...

    def needs(self, wanted: Sequence[int]) -> set[int]:
        """The columns of its input without which these of its own cannot be given."""
        ...

    def narrowed(self, wanted: Sequence[int], kept: Sequence[int], schema: pa.Schema) -> tuple[RowFunction, list[int]]:
        """The function over rows of which these columns are left (``schema``), and which of its own it still gives."""
        ...

    def passes(self, column: int) -> int | None:
        """The column that holds one of its input unchanged; None where there is none."""
        ...


@dataclass(frozen=True)
class SourceNode:
    """A DataFrame; ``number`` is its place in the flow's list of them."""

    number: int
    schema: pa.Schema


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


def function_name(function: Any) -> str:
    """What people call a function, also where ours calls it."""
    function = getattr(function, "function", function)
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__).replace("<locals>.", "")
