"""Where answers could differ from Spark's: overflow in every mode, zeros and NaN, intervals, names that come twice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import reshape
from reshape.flows import Flow

# Groups: 1 overflows upwards, 2 downwards, 3 overflows the mean only, 4 fits, 5 has nothing but nulls.
EDGES = """
SELECT * FROM VALUES
  (1, 9223372036854775807, 2147483647, '9e37', '9e26', -0.0D, float('-0.0'), INTERVAL '1' DAY),
  (1, 1, 2147483647, '9e37', '9e26', -0.0D, float('-0.0'), INTERVAL '2 03:04:05.678901' DAY TO SECOND),
  (2, -9223372036854775808, -2147483648, '-9e37', '-1', 0.0D, float('0.0'), INTERVAL '-2' HOUR),
  (2, -1, -2147483648, '-9e37', '-1', double('NaN'), float('NaN'), NULL),
  (3, 9223372036854775807, 5, '9e36', '0', double('-Infinity'), float('-Infinity'), INTERVAL '0' DAY),
  (4, 3, 4, '-7', '2.5', -1.5D, float('-1.5'), INTERVAL '106751991 04:00:54.775807' DAY TO SECOND),
  (4, NULL, 4, '2', NULL, NULL, NULL, INTERVAL '-106751991 04:00:54.775807' DAY TO SECOND),
  (5, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
AS t(k, l, i, wide, narrow, z, fz, span)
"""

AGGREGATES: list[Callable[[], Any]] = [
    lambda: F.try_sum("l"),
    lambda: F.try_sum("i"),
    lambda: F.try_sum("wide"),
    lambda: F.try_sum("narrow"),
    lambda: F.try_sum("z"),
    lambda: F.try_avg("l"),
    lambda: F.try_avg("wide"),
    lambda: F.try_avg("narrow"),
    lambda: F.sum("i"),
    lambda: F.sum("narrow"),
    lambda: F.avg("narrow"),
    lambda: F.avg("l"),
    lambda: F.min("z"),
    lambda: F.max("z"),
    lambda: F.min("fz"),
    lambda: F.max("fz"),
    lambda: F.min("span"),
    lambda: F.max("span"),
    lambda: F.count("span"),
]
# These raise where ANSI rules hold; tests/operators has that.
OVERFLOWING: list[Callable[[], Any]] = [lambda: F.sum("l"), lambda: F.sum("wide"), lambda: F.avg("wide")]


def edges(spark: SparkSession, *, ansi: bool) -> DataFrame:
    """Written to partitions of their own, so that parts of groups meet."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    typed = [
        f"cast({name} AS decimal({digits})) AS {name}" for name, digits in (("wide", "38, 0"), ("narrow", "28, 1"))
    ]
    return session.sql(EDGES).selectExpr("k", "l", "i", *typed, "z", "fz", "span").repartition(3)


def rows(found: Flow | DataFrame) -> dict[Any, list[str]]:
    """By key; texts, in which -0.0 is not 0.0."""
    return {row[0]: [repr(value) for value in row[1:]] for row in found.collect()}


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "legacy"])
def test_overflow_zeros_and_intervals(spark: SparkSession, ansi: bool) -> None:
    df = edges(spark, ansi=ansi)
    wanted = [make().alias(f"a{number}") for number, make in enumerate(AGGREGATES + ([] if ansi else OVERFLOWING))]
    flow, plain = reshape.flow(df).groupBy("k").agg(*wanted), df.groupBy("k").agg(*wanted)
    assert flow.schema == plain.schema
    got, want = rows(flow), rows(plain)
    assert {key: got[key] for key in sorted(got)} == {key: want[key] for key in sorted(want)}
    assert math.copysign(1.0, float(got[1][12])) == -1.0


def test_modes_hold_behind_an_operator(spark: SparkSession) -> None:
    df = edges(spark, ansi=False)
    wanted = [F.sum("l").alias("a"), F.try_sum("l").alias("b"), F.sum("wide").alias("c"), F.max("span").alias("d")]
    got = rows(reshape.flow(df).repartition("k").groupBy("k").agg(*wanted))
    assert got == rows(df.groupBy("k").agg(*wanted))


def test_intervals_that_are_sparks(spark: SparkSession) -> None:
    df = spark.sql("SELECT 1 AS k, INTERVAL '1' DAY AS span, INTERVAL '3' MONTH AS months")
    for column, reason in (
        ("months", "is interval month, which PySpark cannot bring"),
        ("span", "which flows do not carry"),
    ):
        summed = df.groupBy("k").agg(F.sum(column).cast("string"))
        flow = reshape.flow(summed)
        assert [placement.where for placement in flow.placements] == ["spark"]
        assert reason in flow.placements[0].reason
        assert rows(flow) == rows(summed)


def test_names_that_are_there_twice(spark: SparkSession) -> None:
    """Columns are known by Catalyst's ids: a result may show a name twice, as Spark's does."""
    df = spark.range(60).selectExpr("id % 7 AS k", "id % 3 AS v", "id % 2 AS v")
    other = spark.range(5).selectExpr("id AS k", "id AS V")
    queries: list[Callable[[Any], Any]] = [
        lambda x: x.orderBy("k"),
        lambda x: x.distinct(),
        lambda x: x.intersect(df),
        lambda x: x.join(other, "k"),
        lambda x: x.join(other, df.k == other.V),
        lambda x: x.groupBy("k").agg(F.count("*").alias("n"), F.max("k").alias("n"), F.min("k").alias("k")),
        lambda x: x.distinct().groupBy("k").count(),
    ]
    for query in queries:
        want = query(df)
        flow = query(reshape.flow(df, joins="all"))
        assert all(placement.where == "reshape" for placement in flow.placements)
        got = flow.toDF()
        assert got.schema == want.schema
        assert sorted(map(tuple, got.collect())) == sorted(map(tuple, want.collect()))
