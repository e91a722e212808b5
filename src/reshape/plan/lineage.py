"""Which columns of a flow's result are the keys of an operator's input, so that a shown row tells its owner."""

from __future__ import annotations

from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import JoinSpec
from reshape.operators.relay import RelaySpec
from reshape.operators.set_ops import DistinctSpec, SetProbeSpec
from reshape.plan.physical import PhysicalOperator, PhysicalPlan


def result_columns(plan: PhysicalPlan, operator: int, port: int) -> tuple[int, ...] | None:
    """The columns of the result that hold the keys of this input; None when they do not reach it unchanged."""
    at, columns = plan.operators[operator], plan.operators[operator].ports[port].keys
    if not columns:
        return None
    while True:
        passed = [_passed(at, port, column) for column in columns]
        if None in passed or at.functions:
            return None
        columns = tuple(column for column in passed if column is not None)
        if at.target is None:
            return columns
        number, port = at.target
        at = plan.operators[number]


def _passed(operator: PhysicalOperator, port: int, column: int) -> int | None:
    """Where a column of an input is in the operator's output."""
    spec = operator.logic
    if isinstance(spec, JoinSpec):
        side = spec.build_side if port == 0 else spec.probe_side
        mine = [(c.left if side == "left" else c.right) for c in spec.output]
        if column in mine:
            return mine.index(column)
        # The key of the other side holds the same value where both are there.
        keys, others = spec.keys_of(side), spec.keys_of("right" if side == "left" else "left")
        if column not in keys or spec.how != "inner":
            return None
        theirs = [(c.right if side == "left" else c.left) for c in spec.output]
        other = others[keys.index(column)]
        return theirs.index(other) if other in theirs else None
    if isinstance(spec, GroupBySpec):
        return spec.keys.index(column) if column in spec.keys else None
    if isinstance(spec, RelaySpec | DistinctSpec | SetProbeSpec):
        return column
    return None
