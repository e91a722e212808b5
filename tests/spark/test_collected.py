"""`toArrow`, `toPandas` and `count` of flows give what PySpark's give, though no row of the JVM is made for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.errors import FlowError
from reshape.flows import Flow

from ..operators.samples import VALUES, column

ROWS = 500
ARROW = "spark.sql.execution.arrow.pyspark"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


@pytest.fixture
def facts(session: SparkSession) -> DataFrame:
    """Every type, with nulls, and nested ones; `id` tells rows apart."""
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {kind: column(kind, ROWS, rng) for kind in VALUES}
    df = session.createDataFrame(pa.table({"id": pa.array(rng.permutation(ROWS)), **columns}))
    nested = (
        "array(long, id) AS numbers",
        "map('a', timestamp, 'b', null) AS times",
        "named_struct('x', string, 'y', array(named_struct('z', date))) AS deep",
        "cast(timestamp AS timestamp_ntz) AS local",
        "INTERVAL '1' DAY * int(id % 5) AS span",
        "CASE WHEN id % 3 > 0 THEN id END AS string",  # a name that comes twice
    )
    return df.selectExpr("*", *nested).repartition(3)


def flow_of(df: DataFrame) -> Flow:
    flow = reshape.flow(df, hosts=2, workers=4)
    assert [one.where for one in flow.placements] == ["reshape"]
    return flow


def files(spark: SparkSession) -> list[Path]:
    return list(Path(str(spark.sparkContext._temp_dir)).glob("reshape-result-*/*.arrows"))


@pytest.mark.parametrize("large", ["false", "true"])
@pytest.mark.parametrize("self_destruct", ["false", "true"])
def test_arrow_and_pandas_are_pysparks(session: SparkSession, facts: DataFrame, large: str, self_destruct: str) -> None:
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
    session.conf.set(f"{ARROW}.selfDestruct.enabled", self_destruct)
    try:
        df = facts.orderBy("id")
        got, want = flow_of(df).toArrow(), df.toArrow()
        assert got.schema.equals(want.schema, check_metadata=True)
        assert [repr(column.to_pylist()) for column in got.columns] == [repr(c.to_pylist()) for c in want.columns]
        pd.testing.assert_frame_equal(flow_of(df).toPandas(), df.toPandas())
    finally:
        session.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
        session.conf.unset(f"{ARROW}.selfDestruct.enabled")


@pytest.mark.parametrize("where", ["id < 0", "id = 7"])
def test_no_row_and_one(session: SparkSession, where: str) -> None:
    df = session.range(100).where(where).selectExpr("id", "date'2024-02-29' AS d").orderBy("id")
    flow = flow_of(df)
    assert flow.toArrow().equals(df.toArrow())
    pd.testing.assert_frame_equal(flow.toPandas(), df.toPandas())
    assert flow.count() == df.count()


def test_where_pyspark_does_without_arrow(session: SparkSession) -> None:
    session.conf.set(f"{ARROW}.enabled", "false")
    try:
        df = session.range(50).selectExpr("id % 7 AS k", "timestamp_seconds(id) AS t", "id AS v").orderBy("v")
        pd.testing.assert_frame_equal(flow_of(df).toPandas(), df.toPandas())
    finally:
        session.conf.unset(f"{ARROW}.enabled")


def test_parts_of_sparks_and_none_of_ours(session: SparkSession) -> None:
    """Spark's part behind a flow is Spark's to compute, and a DataFrame without a flow is all Spark's."""
    df = session.range(90).selectExpr("id % 9 AS k", "id AS v")
    counted = df.groupBy("k").count()
    behind = counted.selectExpr("k", "count", "java_method('java.lang.Math', 'abs', int(k)) AS a")
    for query in (df, behind, counted.union(counted)):
        flow = reshape.flow(query, hosts=2)
        assert sorted(flow.toArrow().to_pylist(), key=repr) == sorted(query.toArrow().to_pylist(), key=repr)
        assert flow.count() == query.count()


def test_counts_make_nothing_but_the_count(session: SparkSession) -> None:
    """Spark's optimizer knows that no column is wanted, and that a sort changes nothing."""
    left = session.range(400).selectExpr("id % 20 AS k", "raise_error('nobody wants this') AS costly")
    right = session.range(30).selectExpr("id AS k", "id AS w")
    joined = reshape.flow(left, hosts=2, joins="all").join(right, "k", "full").orderBy("k")
    assert joined.count() == 410
    with pytest.raises(Exception, match="nobody wants this"):
        joined.toArrow()
    assert joined.tuned("sort", tau=7).count() == 410
    with pytest.raises(FlowError, match="no operator of this flow is called 'window'"):
        joined.tuned("window", tau=7).count()


def test_rows_outlive_their_files(session: SparkSession) -> None:
    before = files(session)
    df = session.range(20_000).selectExpr("id % 70 AS k", "id AS v").orderBy("v")
    table, frame = flow_of(df).toArrow(), flow_of(df).toPandas()
    assert files(session) == before
    frame.loc[0, "v"] = -1  # it is the user's own
    assert table.column("v").to_pylist() == list(range(20_000))


def test_the_result_of_a_query(session: SparkSession, facts: DataFrame) -> None:
    """What Spark keeps of a started flow is read as often as one likes, also when Spark keeps it once more."""
    df = facts.orderBy("id")
    query = flow_of(df).start()
    result = query.result(120)
    want = [repr(column.to_pylist()) for column in df.toArrow().columns]
    for _ in range(2):
        assert [repr(column.to_pylist()) for column in result.toArrow().columns] == want
    pd.testing.assert_frame_equal(result.toPandas(), df.toPandas())
    assert repr(result.collect()) == repr(df.collect())
    result.cache()
    assert result.count() == ROWS
    query.release()
    pd.testing.assert_frame_equal(result.toPandas(), df.toPandas())
    result.unpersist()
