"""Runs queries on Spark and as flows, with a limit for each: one that hangs is a finding, not the end of the tests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import reshape
from reshape import Flow

from .comparing import difference, schema_difference

# A hundred times as long as the slowest query takes.
LIMIT_S = 120.0

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # Nations and stores only: of tables this small Spark would broadcast all.
    "spark.sql.autoBroadcastJoinThreshold": "1k",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    schema: StructType
    rows: pa.Table


def new_session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    return session


def spark_answer(df: DataFrame) -> Answer:
    return Answer(df.schema, df.toArrow())


def flow_answer(df: DataFrame, **options: Any) -> Answer:
    """What the flow of a query gives, within the limit."""
    return within_limit(df.sparkSession, lambda: answer_of(reshape.flow(df, **options)))


def answer_of(flow: Flow) -> Answer:
    return spark_answer(flow.toDF())


def within_limit(spark: SparkSession, action: Callable[[], T]) -> T:
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(action).result(LIMIT_S)
    except LateError:
        spark.sparkContext.cancelAllJobs()
        raise AssertionError(f"no answer within {LIMIT_S:.0f} s") from None
    finally:
        pool.shutdown(wait=False)


def check(got: Answer, want: Answer, text: str, *, ordered: bool) -> None:
    """Raise an AssertionError that shows the query unless both answers are the same."""
    problem = schema_difference(got.schema, want.schema) or difference(got.rows, want.rows, ordered=ordered)
    assert problem is None, f"{problem}\n{text}"
