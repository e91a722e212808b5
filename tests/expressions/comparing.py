"""Expressions computed by Spark and by us over the same rows, value for value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reshape.expressions.errors import EvaluationFailed
from reshape.expressions.evaluate import evaluate
from reshape.expressions.translate import NotExact, session_facts, translate
from reshape.expressions.tree import Expression
from reshape.plan.analysis import kind, scala_list


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch, and the same rows as Spark reads them from a file (rows in the plan itself would be folded away)."""

    batch: pa.RecordBatch
    df: Any

    @classmethod
    def of(cls, spark: Any, batch: pa.RecordBatch, folder: Path) -> Rows:
        path = folder / "rows.parquet"
        pq.write_table(pa.Table.from_batches([batch]), path)
        return cls(batch, spark.read.parquet(str(path)))


def translated(rows: Rows, texts: Sequence[str]) -> list[Expression | NotExact]:
    """Expressions as Spark's optimizer leaves them, over the batch's columns; or why they are refused."""
    named = [f"{sql} as x{index}" for index, sql in enumerate(texts)]
    plan = rows.df.selectExpr(*named)._jdf.queryExecution().optimizedPlan()
    assert kind(plan) == "Project", plan.toString()
    numbers = {name: number for number, name in enumerate(rows.batch.schema.names)}
    columns = {one.exprId().id(): numbers[one.name()] for one in scala_list(plan.child().output())}
    facts = session_facts(rows.df.sparkSession)
    answers: list[Expression | NotExact] = []
    for projected in scala_list(plan.projectList()):
        try:
            answers.append(translate(projected, columns, facts))
        except NotExact as refused:
            answers.append(refused)
    return answers


def assert_same(rows: Rows, expressions: Iterable[str]) -> None:
    """Ours equals Spark's in every row that does not raise; where ours raises, Spark raises too."""
    texts = list(expressions)
    ours = [_ours(rows, sql, expression) for sql, expression in zip(texts, translated(rows, texts), strict=True)]
    theirs = _spark(rows, texts, ours)
    for sql, answer, column in zip(texts, ours, theirs, strict=True):
        assert answer.type == column.type, (sql, answer.type, column.type)
        for number, (mine, wanted) in enumerate(zip(answer.values, as_values(column), strict=True)):
            if answer.fine[number]:
                assert same(mine, wanted), f"{sql}: {mine!r}, Spark {wanted!r}, row {_row(rows, number, sql)}"
    if any(answer.conditions for answer in ours):
        _assert_spark_fails(rows, texts, ours)


def _assert_spark_fails(rows: Rows, texts: Sequence[str], ours: Sequence[Ours]) -> None:
    interpreter = Interpreter(rows, texts)
    for index, (sql, answer) in enumerate(zip(texts, ours, strict=True)):
        # The first few: each error of the JVM costs some milliseconds.
        for number, condition in list(answer.conditions.items())[:3]:
            said = interpreter.failure(index, number)
            assert said is not None, f"{sql}: {condition}, Spark does not fail, row {_row(rows, number, sql)}"
            assert condition in said, f"{sql}: {condition}, Spark {said[:300]}, row {_row(rows, number, sql)}"


@dataclass(frozen=True, slots=True)
class Ours:
    type: pa.DataType
    values: list[Any]
    fine: list[bool]
    conditions: dict[int, str]

    @property
    def failing(self) -> list[int]:
        return sorted(self.conditions)


def _ours(rows: Rows, sql: str, expression: Expression | NotExact) -> Ours:
    if isinstance(expression, NotExact):
        pytest.fail(f"{sql}: {expression}")
    batch = rows.batch
    nothing = evaluate(expression, batch.slice(0, 0))
    assert (nothing.type, len(nothing)) == (expression.type, 0), sql
    try:
        values = evaluate(expression, batch)
        values.validate(full=True)
        assert len(values) == batch.num_rows
        return Ours(values.type, as_values(values), [True] * batch.num_rows, {})
    except EvaluationFailed:
        pass
    collected: list[Any] = []
    conditions: dict[int, str] = {}
    for number in range(batch.num_rows):
        try:
            collected += as_values(evaluate(expression, batch.slice(number, 1)))
        except EvaluationFailed as failure:
            conditions[number] = failure.condition
            collected.append(None)
    assert conditions, f"{sql}: raises for the batch but for none of its rows"
    return Ours(expression.type, collected, [n not in conditions for n in range(batch.num_rows)], conditions)


def _spark(rows: Rows, texts: Sequence[str], ours: Sequence[Ours]) -> list[pa.Array]:
    """Spark's answers; rows that raise are left out by a condition, which keeps Spark from evaluating them."""
    from pyspark.sql import functions as F  # noqa: N812

    numbered = rows.df.withColumn("row", F.monotonically_increasing_id().cast("int"))
    columns = []
    for index, (sql, answer) in enumerate(zip(texts, ours, strict=True)):
        column = F.expr(sql)
        if answer.conditions:
            column = F.when(~F.col("row").isin(answer.failing), column)
        columns.append(column.alias(f"x{index}"))
    table = numbered.select(*columns).toArrow()
    return [table.column(index).combine_chunks() for index in range(len(texts))]


class Interpreter:
    """Spark's own evaluation of expressions, row by row and without a job, for rows that fail."""

    def __init__(self, rows: Rows, texts: Sequence[str]) -> None:
        named = [f"{sql} as x{index}" for index, sql in enumerate(texts)]
        plan = rows.df.selectExpr(*named)._jdf.queryExecution().optimizedPlan()
        catalyst = rows.df.sparkSession._jvm.org.apache.spark.sql.catalyst.expressions
        output = rows.df._jdf.queryExecution().analyzed().output()
        attributes = getattr(catalyst, "package$AttributeSeq")(output)
        self._bound = [
            catalyst.BindReferences.bindReference(projected.child(), attributes, False)
            for projected in scala_list(plan.projectList())
        ]
        self._rows = list(rows.df._jdf.queryExecution().executedPlan().executeCollect())

    def failure(self, expression: int, row: int) -> str | None:
        """What Spark says when it fails for a row; None if it does not."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        try:
            self._bound[expression].eval(self._rows[row])
        except Exception as error:
            java = error.java_exception if isinstance(error, Py4JJavaError) else error
            return str(java)
        return None


def as_values(column: pa.Array) -> list[Any]:
    """Python's values; dates and timestamps as numbers, for Python's own end with the year 9999."""
    if pa.types.is_date32(column.type):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


def same(mine: Any, wanted: Any) -> bool:
    if isinstance(mine, float) and isinstance(wanted, float):
        if math.isnan(mine) or math.isnan(wanted):
            return math.isnan(mine) and math.isnan(wanted)
        return mine == wanted and math.copysign(1, mine) == math.copysign(1, wanted)
    return type(mine) is type(wanted) and bool(mine == wanted)


def _row(rows: Rows, number: int, sql: str) -> dict[str, Any]:
    names = [name for name in rows.batch.schema.names if name in sql]
    return {name: as_values(rows.batch.column(name))[number] for name in names}
