"""Which columns of a flow's result are the keys of an operator's input, so that a shown row tells its owner."""

from __future__ import annotations

from reshape.plan.nodes import RowFunction
from reshape.plan.physical import PhysicalPlan


def result_columns(plan: PhysicalPlan, operator: int, port: int) -> tuple[int, ...] | None:
    """The columns of the result that hold the keys of this input; None when they do not reach it unchanged, or when
    a key may have several owners."""
    at, input = plan.operators[operator], plan.operators[operator].ports[port]
    columns = input.keys
    if not columns or input.ordering is not None:
        return None
    while True:
        passed = [at.logic.passes(port, column) for column in columns]
        for function in at.functions:
            if not isinstance(function, RowFunction):
                return None
            passed = [None if column is None else function.passes(column) for column in passed]
        if None in passed:
            return None
        columns = tuple(column for column in passed if column is not None)
        if at.target is None:
            return columns
        number, port = at.target
        at = plan.operators[number]
