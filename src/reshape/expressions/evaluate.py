"""Expressions on Arrow batches, with the results and the errors that Spark would give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from reshape.expressions.errors import BatchMismatch
from reshape.expressions.table import Entry, Value, may_raise, table
from reshape.expressions.tree import Call, ColumnRef, Expression, Literal, columns_of, renumbered

__all__ = ["evaluate", "evaluate_where", "filter_batch"]


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    """The expression's value for each row. Raises EvaluationFailed where Spark would fail."""
    return _as_array(_value(expression, batch), expression.type, batch.num_rows)


def filter_batch(predicate: Expression, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows for which the predicate is true; null counts as false."""
    chosen = evaluate(predicate, batch)
    if chosen.null_count == 0 and chosen.true_count == len(chosen):
        return batch
    return batch.filter(chosen, null_selection_behavior="drop")


def _value(expression: Expression, batch: pa.RecordBatch) -> Value:
    """An array, or a scalar for what is the same in all rows."""
    if isinstance(expression, ColumnRef):
        column = batch.column(expression.number)
        if column.type != expression.type:
            raise BatchMismatch(f"column {expression.number}", str(column.type), str(expression.type))
        return column
    if isinstance(expression, Literal):
        return pa.scalar(expression.value, type=expression.type)
    called = table()[expression.function]
    if called.lazily is not None:
        return called.lazily(expression, batch)
    assert called.evaluate is not None
    return called.evaluate(expression, _arguments(expression, called, batch))


def _arguments(call: Call, called: Entry, batch: pa.RecordBatch) -> list[Value]:
    """The arguments' values; one that may raise is evaluated only where those before it are not null, as in Spark."""
    values: list[Value] = [None] * len(call.arguments)
    order = called.order or range(len(call.arguments))
    evaluated: list[Value] = []
    for index in order:
        argument = call.arguments[index]
        if called.strict and evaluated and may_raise(argument):
            reached = _all_there(evaluated, batch.num_rows)
            value = evaluate_where(argument, batch, reached)
        else:
            value = _value(argument, batch)
        evaluated.append(value)
        values[index] = value if called.scalars else _as_array(value, argument.type, batch.num_rows)
    return values


def evaluate_where(expression: Expression, batch: pa.RecordBatch, reached: Any) -> pa.Array:
    """The expression's values in the rows that are reached (a NumPy mask), null in the others."""
    if reached.all():
        return evaluate(expression, batch)
    rows = np.flatnonzero(reached)
    values = _evaluate_rows(expression, batch, rows)
    places = np.zeros(batch.num_rows, dtype=np.int64)
    places[rows] = np.arange(len(rows))
    return values.take(pa.array(places, mask=~reached))


def _evaluate_rows(expression: Expression, batch: pa.RecordBatch, rows: Any) -> pa.Array:
    """The expression's values in these rows; takes only the columns that it reads."""
    numbers = sorted(columns_of(expression))
    if not numbers:
        return evaluate(expression, batch.slice(0, len(rows)))
    taken = batch.select(numbers).take(pa.array(rows))
    return evaluate(renumbered(expression, {old: new for new, old in enumerate(numbers)}), taken)


def _all_there(values: list[Value], rows: int) -> Any:
    there = np.ones(rows, dtype=bool)
    for value in values:
        if isinstance(value, pa.Scalar):
            there &= value.is_valid
        else:
            there &= value.is_valid().to_numpy(zero_copy_only=False)
    return there


def _as_array(value: Value, type_: pa.DataType, rows: int) -> pa.Array:
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, type_)
    array = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
    assert array.type == type_, f"{array.type} where {type_} is the result"
    return array
