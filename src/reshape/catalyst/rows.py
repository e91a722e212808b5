"""What a part of a plan has become: rows that Spark computes, rows of a flow, or a union of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from reshape.catalyst.gateway import Attribute
from reshape.plan.tree import Tree


@dataclass(frozen=True)
class SparkRows:
    """A logical plan of Spark's. Where flows are below it, ``children`` are what its own children have become.

    ``scanned``: it is no more than a scan of Parquet files, or one joined with small ones, which hosts may read.
    """

    plan: Any
    children: tuple[Rows, ...] = ()
    scanned: bool = False


@dataclass(frozen=True)
class FlowRows:
    """Rows of a flow's tree. ``attributes`` are the columns that the plan sees here; ``numbers`` says where they are.

    The tree may have more columns than that, and one may stand for several attributes.
    """

    tree: Tree
    attributes: tuple[Attribute, ...]
    numbers: Mapping[int, int]
    enough: int | None = None  # so many of the rows, whichever come first, are wanted at most

    def number(self, attribute: Attribute) -> int:
        return self.numbers[attribute.id]


@dataclass(frozen=True)
class UnionRows:
    """Rows of all branches, each under these attributes. A branch is a flow's, or hosts may read all of them."""

    branches: tuple[SparkRows | FlowRows, ...]
    attributes: tuple[Attribute, ...]
    enough: int | None = None


Rows: TypeAlias = SparkRows | FlowRows | UnionRows


def may_be_scanned(rows: Rows) -> bool:
    return isinstance(rows, SparkRows) and rows.scanned


def has_flow(rows: Rows) -> bool:
    """Whether any operator below runs in a flow."""
    if isinstance(rows, SparkRows):
        return any(map(has_flow, rows.children))
    return True
