"""From the tree of a flow to operators on hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from reshape.control.balancing import Balancing
from reshape.kernels.keys import comparable
from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import JoinSpec
from reshape.operators.relay import RelaySpec
from reshape.operators.set_ops import DistinctSpec, SetProbeSpec
from reshape.operators.sort import SortSpec
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
from reshape.plan.physical import PhysicalOperator, PhysicalPlan, Port
from reshape.plan.sendable import function_name

_Spec = GroupBySpec | JoinSpec | RelaySpec | DistinctSpec | SetProbeSpec | SortSpec


@dataclass(frozen=True)
class _Output:
    """What a subtree gives: rows of sources and of operators."""

    sources: tuple[int, ...] = ()
    operators: tuple[int, ...] = ()


Tuned = Callable[[dict[str, Any]], tuple[Balancing, float]]


class Planner:
    """Places a tree; inputs of an operator are planned before it, so operators come in the order of the flow."""

    def __init__(self, tuned: Tuned = lambda _: (Balancing(), 0.0), *, combine: bool = False) -> None:
        """``tuned`` gives the strategy and the emulated cost of an operator that has settings of its own."""
        self._operators: list[PhysicalOperator] = []
        self._tuned = tuned
        self._combine = combine

    def plan(self, root: Node, name: str, hosts: int, workers: int) -> PhysicalPlan:
        self._operators = []
        rows = self._place(root)
        if rows.sources and not isinstance(root, SourceNode):
            # Rows of a union that come straight from a source have to pass through a worker to be part of the result.
            keys = tuple(number for number, field in enumerate(root.schema) if comparable(field.type))
            port = Port(root.schema, keys, sources=rows.sources, mutable=False)
            self._add(RelaySpec(root.schema, keys), "union", (port,))
        return PhysicalPlan(name, tuple(self._operators), hosts, workers)

    def _place(self, node: Node) -> _Output:
        output = self._placed(node)
        tuning = getattr(node, "tuning", ())
        for operator in output.operators if tuning else ():
            mitigation, cost = self._tuned(dict(tuning))
            self._operators[operator] = replace(self._operators[operator], mitigation=mitigation, cost_s_per_row=cost)
        return output

    def _placed(self, node: Node) -> _Output:
        match node:
            case SourceNode():
                return _Output(sources=(node.number,))
            case UnionNode():
                left, right = self._place(node.left), self._place(node.right)
                return _Output(left.sources + right.sources, left.operators + right.operators)
            case MapNode():
                output = self._place(node.child)
                for operator in output.operators:
                    self._add_function(operator, node)
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
                if node.spec.keys:
                    return self._one_sided(node.child, node.spec, "group by", keys=node.spec.keys)
                output = self._one_sided(node.child, replace(node.spec, emit_when_empty=True), "aggregate")
                (number,) = output.operators
                self._operators[number] = replace(self._operators[number], logic_elsewhere=node.spec)
                return output
            case DistinctNode():
                return self._one_sided(node.child, node.spec, "distinct", keys=tuple(range(len(node.spec.schema))))
            case RelayNode():
                return self._one_sided(node.child, node.spec, "repartition", keys=node.spec.keys, mutable=False)
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
            ports.append(
                Port(
                    node.schema,
                    keys,
                    sources=rows.sources,
                    operators=rows.operators,
                    after=after,
                    mutable=after is None,
                )
            )
        return self._add(spec, label, tuple(ports))

    def _add(self, spec: _Spec, label: str, ports: tuple[Port, ...]) -> _Output:
        number = len(self._operators)
        for index, port in enumerate(ports):
            for producer in port.operators:
                self._operators[producer] = replace(self._operators[producer], target=(number, index))
        label = f"{label} (operator {number})"
        mitigation, cost = self._tuned({})
        # An emulated cost is a cost of rows: combining would make it vanish.
        combine = self._combine and cost == 0.0 and isinstance(spec, GroupBySpec) and spec.grouping().algebraic
        self._operators.append(
            PhysicalOperator(
                number,
                label,
                spec,
                ports,
                spec.output_schema,
                mitigation=mitigation,
                cost_s_per_row=cost,
                combine=combine,
            )
        )
        return _Output(operators=(number,))

    def _add_function(self, operator: int, node: MapNode) -> None:
        before = self._operators[operator]
        function, schema = node.function, node.schema
        ordered = f"the function {function_name(function)}" if node.ordered else before.ordered
        self._operators[operator] = replace(
            before, functions=(*before.functions, function), output=schema, ordered=ordered
        )
