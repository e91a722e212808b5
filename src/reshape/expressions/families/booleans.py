"""And, Or, Not: three-valued, and the right side is reached only where the left one does not decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.expressions.evaluate import evaluate, evaluate_where
from reshape.expressions.table import Value, entry, lazy_entry, may_raise
from reshape.expressions.tree import Call
from reshape.expressions.types import arguments

_booleans = arguments(pat.is_boolean)


@entry("Not", holds_for="boolean", refusal=_booleans, scalars=True)
def not_(call: Call, values: Sequence[Value]) -> Value:
    return pc.invert(values[0])


@lazy_entry("And", holds_for="boolean", refusal=_booleans)
def and_(call: Call, batch: pa.RecordBatch) -> Value:
    return _connected(call, batch, decides=False, connect=pc.and_kleene)


@lazy_entry("Or", holds_for="boolean", refusal=_booleans)
def or_(call: Call, batch: pa.RecordBatch) -> Value:
    return _connected(call, batch, decides=True, connect=pc.or_kleene)


def _connected(call: Call, batch: pa.RecordBatch, decides: bool, connect: Callable[[Any, Any], Any]) -> Value:
    left_expression, right_expression = call.arguments
    left = evaluate(left_expression, batch)
    undecided = True
    if may_raise(right_expression):
        undecided = ~truth(left if decides else pc.invert(left))
        if not undecided.any():
            return left
        return connect(left, evaluate_where(right_expression, batch, undecided))
    return connect(left, evaluate(right_expression, batch))


def truth(condition: pa.Array) -> Any:
    """The rows where a condition is true, as a NumPy mask; null is not true."""
    if condition.null_count:
        condition = pc.fill_null(condition, False)
    return np.asarray(condition.to_numpy(zero_copy_only=False), dtype=bool)
