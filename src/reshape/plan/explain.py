"""A flow in words: its operators, what feeds them, what Spark does in the sources, and where everything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from reshape.conf import FlowSettings
from reshape.plan.nodes import MapNode, Node, OperatorNode, RowFunction, SourceNode, UnionNode, function_name
from reshape.plan.physical import PhysicalOperator, PhysicalPlan
from reshape.plan.types import type_name


def explained(root: Node, plan: PhysicalPlan, settings: FlowSettings, readings: Sequence[str]) -> str:
    """The whole flow as an indented tree, the result first. ``readings`` tells who reads each source, and why."""
    sources = {source.number: (source, readings[source.number]) for source in _source_nodes(root)}
    lines = [_head(plan, settings)]
    for operator in plan.operators:
        if operator.target is None:
            lines += _operator(operator, plan, sources)
    return "\n".join(lines)


def _head(plan: PhysicalPlan, settings: FlowSettings) -> str:
    hosts = ", ".join(f"host {host}: {_range(plan.workers_of(host))}" for host in range(plan.hosts))
    disk = "disk, encrypted" if settings.encrypt else "disk"
    return (
        f"flow {plan.name!r}: {_count(plan.hosts, 'host')} (Spark tasks of one barrier stage), "
        f"{_count(plan.workers, 'worker')} of each operator ({hosts})\n"
        f"  queues: {settings.queue_bytes / (1 << 20):,.4g} MiB a host, then "
        f"{disk if settings.spill else 'senders wait'}; "
        f"combine before sending: {'yes' if settings.combine else 'no'}; "
        f"connections: {'TLS' if settings.tls_certificate or settings.encrypt else 'not encrypted'}"
    )


def _operator(
    operator: PhysicalOperator, plan: PhysicalPlan, sources: Mapping[int, tuple[SourceNode, str]]
) -> list[str]:
    lines = [operator.label, *(f"  {line}" for line in _facts(operator, plan))]
    inputs: list[tuple[str, Callable[[], list[str]]]] = []
    for index, port in enumerate(operator.ports):
        role = _role(operator, index)
        for number in port.operators:
            inputs.append((role, lambda n=number: _operator(plan.operators[n], plan, sources)))  # type: ignore[misc]
        for number in port.sources:
            inputs.append((role, lambda n=number: _source(*sources[n], plan)))  # type: ignore[misc]
    for place, (role, lines_of) in enumerate(inputs):
        last = place == len(inputs) - 1
        first, *rest = lines_of()
        lines.append(f"+- {role}{first}")
        lines += [f"{'   ' if last else '|  '}{line}" for line in rest]
    return lines


def _split(operator: PhysicalOperator, port: int, plan: PhysicalPlan) -> str:
    """How the load of a skewed worker is shared, and why so."""
    strategy = operator.mitigation.strategy
    if strategy == "none" or plan.workers == 1:
        return f"load is not shared: {'the strategy is none' if plan.workers > 1 else 'there is one worker'}"
    choice = plan.split(operator, port)
    return f"skew: strategy {strategy}, {choice.split.value}, because {choice.reason}"


def _facts(operator: PhysicalOperator, plan: PhysicalPlan) -> list[str]:
    facts = operator.logic.facts(_column)
    for index in range(len(operator.ports)):
        facts.append(f"{_role(operator, index)}{_split(operator, index, plan)}")
    facts += [_function(function) for function in operator.functions]
    facts.append(f"output: {_columns(operator.output)}")
    return facts


def _source(source: SourceNode, reading: str, plan: PhysicalPlan) -> list[str]:
    lines = [f"source {source.number}", f"  {reading}"]
    if reading.startswith("read by Spark"):
        lines.append(f'  Spark job: "{plan.source_job(source.number)}"')
    lines.append(f"  sends: {_columns(source.schema)}")
    return lines


def _role(operator: PhysicalOperator, port: int) -> str:
    role = operator.logic.ports[port].role
    return f"{role}: " if role else ""


def _function(function: Any) -> str:
    if isinstance(function, RowFunction):
        return str(function)
    return f"then the user's function {function_name(function)}"


def _column(field: pa.Field) -> str:
    return f"{field.name} {type_name(field.type)}"


def _columns(schema: pa.Schema) -> str:
    return ", ".join(map(_column, schema))


def _range(workers: range) -> str:
    if len(workers) == 1:
        return f"worker {workers.start}"
    return f"workers {workers.start}-{workers.stop - 1}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _source_nodes(node: Node) -> list[SourceNode]:
    match node:
        case SourceNode():
            return [node]
        case MapNode():
            return _source_nodes(node.child)
        case OperatorNode():
            return [source for child in node.inputs for source in _source_nodes(child)]
        case UnionNode():
            return _source_nodes(node.left) + _source_nodes(node.right)
