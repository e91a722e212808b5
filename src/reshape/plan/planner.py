"""From the tree of a flow to operators on hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from reshape.control.balancing import Balancing
from reshape.kernels.keys import comparable
from reshape.operators.relay import RelaySpec
from reshape.operators.spec import Spec
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode, Tuning, UnionNode, function_name
from reshape.plan.physical import PhysicalOperator, PhysicalPlan, Port


@dataclass(frozen=True, slots=True)
class _Output:
    """What a subtree gives: rows of sources and of operators."""

    schema: pa.Schema
    sources: tuple[int, ...] = ()
    operators: tuple[int, ...] = ()


# The strategy and the emulated cost of an operator, by its label and its own settings.
Tuned = Callable[[str, Mapping[str, Any]], tuple[Balancing, float]]


class Planner:
    """Places a tree; inputs of an operator are planned before it, so operators come in the order of the flow."""

    def __init__(self, tuned: Tuned = lambda *_: (Balancing(), 0.0), *, combine: bool = False) -> None:
        self._operators: list[PhysicalOperator] = []
        self._tuned = tuned
        self._combine = combine

    def plan(self, root: Node, name: str, hosts: int, workers: int) -> PhysicalPlan:
        self._operators = []
        rows = self._place(root)
        if rows.sources and not isinstance(root, SourceNode):
            # Rows of a union that come straight from a source have to pass through a worker to be part of the result.
            keys = tuple(number for number, field in enumerate(root.schema) if comparable(field.type))
            self._add(RelaySpec(root.schema, keys, "union"), (replace(rows, operators=()),))
        return PhysicalPlan(name, tuple(map(self._as_followed, self._operators)), hosts, workers)

    def _place(self, node: Node) -> _Output:
        match node:
            case SourceNode():
                return _Output(node.schema, sources=(node.number,))
            case UnionNode():
                left, right = self._place(node.left), self._place(node.right)
                return _Output(node.schema, left.sources + right.sources, left.operators + right.operators)
            case MapNode():
                output = self._place(node.child)
                for operator in output.operators:
                    self._add_function(operator, node)
                return replace(output, schema=node.schema)
            case OperatorNode():
                # The side that is kept is placed first, as its port is.
                inputs = {port.input: self._place(node.inputs[port.input]) for port in node.spec.ports}
                return self._add(node.spec, [inputs[number] for number in range(len(node.inputs))], node.tuning)

    def _add(self, spec: Spec, inputs: Sequence[_Output], tuning: Tuning = ()) -> _Output:
        number = len(self._operators)
        label = f"{spec.label} (operator {number})"
        ports = []
        for index, port in enumerate(spec.ports):
            rows = inputs[port.input]
            ports.append(
                Port(rows.schema, port.keys, port.ordering, rows.sources, rows.operators, port.after, port.mutable)
            )
            for producer in rows.operators:
                self._operators[producer] = replace(self._operators[producer], target=(number, index))
        mitigation, cost = self._tuned(label, dict(tuning))
        self._operators.append(
            PhysicalOperator(
                number,
                label,
                spec,
                tuple(ports),
                spec.output_schema,
                mitigation=mitigation,
                cost_s_per_row=cost,
                # An emulated cost is a cost of rows: combining would make it vanish.
                combine=self._combine and cost == 0.0,
            )
        )
        return _Output(spec.output_schema, operators=(number,))

    def _as_followed(self, operator: PhysicalOperator) -> PhysicalOperator:
        """Where something downstream needs the rows of a key in their order, they are not divided among workers."""
        below: PhysicalOperator | None = operator
        while below is not None and below.ordered is None:
            below = None if below.target is None else self._operators[below.target[0]]
        if below is None:
            return operator
        spec = operator.logic.undivided()
        ports = zip(operator.ports, spec.ports, strict=True)
        return replace(
            operator, logic=spec, ports=tuple(replace(port, ordering=wanted.ordering) for port, wanted in ports)
        )

    def _add_function(self, operator: int, node: MapNode) -> None:
        before = self._operators[operator]
        function, schema = node.function, node.schema
        ordered = f"the function {function_name(function)}" if node.ordered else before.ordered
        self._operators[operator] = replace(
            before, functions=(*before.functions, function), output=schema, ordered=ordered
        )
