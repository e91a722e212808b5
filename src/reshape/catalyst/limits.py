"""A limit of Spark's plan: Spark cuts the rows, and the flow below it ends when it has given as many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reshape.catalyst.rows import FlowRows, Rows, SparkRows, UnionRows
from reshape.plan.analysis import kind
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode, UnionNode


def ending_early(node: Any, child: Rows) -> Rows:
    """The rows below a LocalLimit, of which any so many will do: a GlobalLimit follows somewhere above."""
    most = node.limitExpr()
    return _with_enough(child, int(most.value())) if kind(most) == "Literal" else child


def _with_enough(rows: Rows, most: int) -> Rows:
    if isinstance(rows, SparkRows):
        if kind(rows.plan) != "Project" or len(rows.children) != 1:  # which has a row for each row
            return rows
        return replace(rows, children=(_with_enough(rows.children[0], most),))
    branches = rows.branches if isinstance(rows, UnionRows) else (rows,)
    flows = [branch.tree.node for branch in branches if isinstance(branch, FlowRows)]
    return replace(rows, enough=most) if any(map(_gives_at_once, flows)) else rows


def _gives_at_once(node: Node) -> bool:
    """Whether any row of the result comes before the end; without such rows there is nothing to end early."""
    match node:
        case MapNode():
            return _gives_at_once(node.child)
        case UnionNode():
            return _gives_at_once(node.left) or _gives_at_once(node.right)
        case OperatorNode():
            return any(not port.mutable for port in node.spec.ports)
        case SourceNode():
            return True
