"""From the tree of a flow to operators on hosts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import JoinSpec
from reshape.operators.relay import RelaySpec
from reshape.operators.set_ops import DistinctSpec, SetProbeSpec
from reshape.operators.sort import SortSpec
from reshape.plan.nodes import (
    DistinctNode,
    GroupNode,
    JoinNode,
    MapFunction,
    MapNode,
    Node,
    RelayNode,
    SetNode,
    SortNode,
    SourceNode,
    UnionNode,
)
from reshape.plan.physical import PhysicalOperator, PhysicalPlan, Port

_Spec = GroupBySpec | JoinSpec | RelaySpec | DistinctSpec | SetProbeSpec | SortSpec


@dataclass(frozen=True)
class _Output:
    """What a subtree gives: rows of sources and of operators."""

    sources: tuple[int, ...] = ()
    operators: tuple[int, ...] = ()


class Planner:
    """Places a tree; inputs of an operator are planned before it, so operators come in the order of the flow."""

    def __init__(self) -> None:
        self._operators: list[PhysicalOperator] = []

    def plan(self, root: Node, name: str, hosts: int, workers: int) -> PhysicalPlan:
        self._operators = []
        self._place(root)
        return PhysicalPlan(name, tuple(self._operators), hosts, workers)

    def _place(self, node: Node) -> _Output:
        match node:
            case SourceNode():
                return _Output(sources=(node.number,))
            case UnionNode():
                left, right = self._place(node.left), self._place(node.right)
                return _Output(left.sources + right.sources, left.operators + right.operators)
            case MapNode():
                output = self._place(node.child)
                for operator in output.operators:
                    self._add_function(operator, node.function, node.schema)
                return output
            case JoinNode():
                spec = node.spec
                sides = {"left": node.left, "right": node.right}
                return self._two_sided(
                    (sides[spec.build_side], spec.keys_of(spec.build_side)),
                    (sides[spec.probe_side], spec.keys_of(spec.probe_side)),
                    spec,
                    f"{spec.how} join",
                )
            case SetNode():
                keys = tuple(range(len(node.spec.schema)))
                return self._two_sided((node.right, keys), (node.left, keys), node.spec, node.spec.kind)
            case GroupNode():
                return self._one_sided(node.child, node.spec, "group by", keys=node.spec.keys)
            case DistinctNode():
                return self._one_sided(node.child, node.spec, "distinct", keys=tuple(range(len(node.spec.schema))))
            case RelayNode():
                return self._one_sided(node.child, node.spec, "repartition", keys=node.spec.keys)
            case SortNode():
                return self._one_sided(node.child, node.spec, "sort", ordering=node.spec.ordering)

    def _one_sided(self, child: Node, spec: _Spec, label: str, **partitioning: Any) -> _Output:
        rows = self._place(child)
        port = Port(child.schema, sources=rows.sources, operators=rows.operators, **partitioning)
        return self._add(spec, label, (port,))

    def _two_sided(
        self, build: tuple[Node, tuple[int, ...]], probe: tuple[Node, tuple[int, ...]], spec: _Spec, label: str
    ) -> _Output:
        """Port 0 is the side that is kept; the other one waits for it."""
        ports = []
        for after, (node, keys) in ((None, build), (0, probe)):
            rows = self._place(node)
            ports.append(Port(node.schema, keys, sources=rows.sources, operators=rows.operators, after=after))
        return self._add(spec, label, tuple(ports))

    def _add(self, spec: _Spec, label: str, ports: tuple[Port, ...]) -> _Output:
        number = len(self._operators)
        for index, port in enumerate(ports):
            for producer in port.operators:
                self._operators[producer] = replace(self._operators[producer], target=(number, index))
        label = f"{label} (operator {number})"
        self._operators.append(PhysicalOperator(number, label, spec, ports, spec.output_schema))
        return _Output(operators=(number,))

    def _add_function(self, operator: int, function: MapFunction, schema: pa.Schema) -> None:
        before = self._operators[operator]
        self._operators[operator] = replace(before, functions=(*before.functions, function), output=schema)
