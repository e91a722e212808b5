"""Random SQL: the flow's answer is Spark's, and it raises where Spark raises; it never hangs.

``RESHAPE_RANDOM_QUERIES=2000`` makes it a long form: the same queries and more.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from .generate import Select, random_query
from .running import Answer, check, flow_answer, new_session, spark_answer, within_limit
from .small_tables import make_small_tables, register_small_tables

QUERIES = int(os.environ.get("RESHAPE_RANDOM_QUERIES", "200"))
BLOCK = 10


@pytest.fixture(scope="module")
def session(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    folder = Path(tmp_path_factory.mktemp("random"))
    make_small_tables(folder)
    made = new_session(spark)
    register_small_tables(made, folder)
    return made


def test_the_same_seed_gives_the_same_query() -> None:
    assert random_query(7) == random_query(7)
    assert len({random_query(seed).text for seed in range(QUERIES)}) > 0.95 * QUERIES


@pytest.mark.parametrize("block", range(QUERIES // BLOCK))
def test_random_queries(session: SparkSession, block: int) -> None:
    # In every second block Spark would broadcast all sides of joins.
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", ("-1", "10m")[block % 2])
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        made = random_query(seed)
        _check(session, made, f"seed {seed}: {made.text}")


def _check(session: SparkSession, made: Select, shown: str) -> None:
    try:
        df = session.sql(made.text)
        df.schema  # noqa: B018 - analysed now: a query that is none is a fault of the generator
    except (AnalysisException, ParseException) as error:
        raise AssertionError(f"this is no query: {error}\n{shown}") from error
    want = _outcome(df, lambda: spark_answer(df))
    got = _outcome(df, lambda: flow_answer(session.sql(made.text)))
    if isinstance(want, Exception):
        assert isinstance(got, Exception), f"Spark raises {str(want)[:500]}, the flow does not\n{shown}"
        return
    if isinstance(got, Exception):
        raise AssertionError(f"the flow raises what Spark does not: {got}\n{shown}") from got
    check(got, want, shown, ordered=made.ordered)


def _outcome(df: DataFrame, action: Any) -> Answer | Exception:
    try:
        answer: Answer = within_limit(df.sparkSession, action)
        return answer
    except AssertionError:
        raise
    except Exception as error:
        return error
