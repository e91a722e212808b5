"""A planned query in words: where its operators run, and what Spark does with the results of flows."""

from __future__ import annotations

from collections.abc import Sequence

from reshape.catalyst.placement import Placement
from reshape.catalyst.rows import FlowRows, Rows, SparkRows, UnionRows, has_flow

# Columns of a node that are worth a line.
_MOST_FIELDS = 8


def described(rows: Rows, placements: Sequence[Placement]) -> str:
    """Placements first, then Spark's part down to the flows, which are numbered in the order in which they follow."""
    ours = sum(placement.where == "reshape" for placement in placements)
    lines = [f"query: {ours} of {len(placements)} operators that skew can slow down run in hosts"]
    lines += [f"  {placement}" for placement in placements]
    if not has_flow(rows):
        return "\n".join([*lines, "Spark runs all of it: the result is the DataFrame itself"])
    if isinstance(rows, SparkRows):
        lines += ["Spark's part, on the results of flows:", *(f"  {line}" for line in _tree(rows, [0]))]
    return "\n".join(lines)


def _tree(rows: Rows, flows: list[int]) -> list[str]:
    if isinstance(rows, FlowRows):
        flows[0] += 1
        return [f"flow {flows[0]}"]
    if isinstance(rows, UnionRows):
        if all(isinstance(branch, FlowRows) for branch in rows.branches):
            flows[0] += 1
            return [f"flow {flows[0]}"]
        head, parts = "Union", list[Rows](rows.branches)
    else:
        head, parts = str(rows.plan.simpleString(_MOST_FIELDS)).strip(), list(rows.children)
    lines = [head]
    for place, part in enumerate(parts):
        first, *rest = _tree(part, flows)
        lines.append(f"+- {first}")
        lines += [f"{'   ' if place == len(parts) - 1 else '|  '}{line}" for line in rest]
    return lines
