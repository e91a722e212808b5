"""If, CaseWhen, Coalesce and what Spark wraps around expressions. A branch is evaluated only for rows that take it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.expressions.evaluate import evaluate, evaluate_where
from reshape.expressions.families.booleans import truth
from reshape.expressions.table import Value, entry, lazy_entry, may_raise
from reshape.expressions.tree import Call, Expression
from reshape.expressions.types import always, is_atomic

_BRANCHES = "conditions that are boolean, branches of one type among the table's"


def _conditional(call: Call) -> str | None:
    """The arguments are condition, value, condition, value ... and perhaps a last value."""
    if not is_atomic(call.type):
        return f"branches of {call.type} are not in the table"
    for index, kind in enumerate(call.argument_types):
        is_condition = index % 2 == 0 and index + 1 < len(call.arguments)
        if is_condition and not pat.is_boolean(kind):
            return f"a condition of {kind}"
        if not is_condition and kind != call.type:
            return f"a branch of {kind} where {call.type} is the result"
    return None


@lazy_entry("If", "CaseWhen", holds_for=_BRANCHES, refusal=_conditional)
def case_when(call: Call, batch: pa.RecordBatch) -> Value:
    """The first branch whose condition is true; null where none is and there is no last value."""
    arguments = call.arguments
    result = pa.nulls(batch.num_rows, call.type)
    unanswered = np.ones(batch.num_rows, dtype=bool)
    for index in range(0, len(arguments) - 1, 2):
        chosen = unanswered & truth(_where(arguments[index], batch, unanswered))
        if chosen.any():
            result = pc.if_else(pa.array(chosen), _where(arguments[index + 1], batch, chosen), result)
            unanswered &= ~chosen
        if not unanswered.any():
            return result
    if len(arguments) % 2 == 1:
        return pc.if_else(pa.array(unanswered), _where(arguments[-1], batch, unanswered), result)
    return result


def _same_types(call: Call) -> str | None:
    if not is_atomic(call.type):
        return f"values of {call.type} are not in the table"
    if any(kind != call.type for kind in call.argument_types):
        return "its arguments are of several types"
    return None


@lazy_entry("Coalesce", holds_for="arguments of one type among the table's", refusal=_same_types)
def coalesce(call: Call, batch: pa.RecordBatch) -> Value:
    result = evaluate(call.arguments[0], batch)
    for argument in call.arguments[1:]:
        if result.null_count == 0:
            return result
        missing = result.is_null()
        result = pc.if_else(missing, _where(argument, batch, truth(missing)), result)
    return result


@entry("KnownNotNull", "KnownNullable", holds_for="all types", refusal=always, scalars=True)
def unchanged(call: Call, values: Sequence[Value]) -> Value:
    return values[0]


def _where(expression: Expression, batch: pa.RecordBatch, reached: np.typing.NDArray[np.bool_]) -> pa.Array:
    """The values at least in the rows that are reached; all rows are quicker where none of them can raise."""
    return evaluate_where(expression, batch, reached) if may_raise(expression) else evaluate(expression, batch)
