"""What Spark keeps of a result is of one attempt, whatever it loses: it is made whole again only as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.flows import Flow

ROWS = 1_000
# Shuffles of a flow and of what reads it are among so many of the newest ones.
NEWEST = 5


def joined(spark: SparkSession) -> Flow:
    rows = spark.range(0, ROWS, 1, 2).selectExpr("id % 10 AS k", "id AS v")
    other = spark.range(10).selectExpr("id AS k", "id AS w")
    return reshape.flow(rows, hosts=2, workers=4, joins="all").join(other, "k")


def values(df: DataFrame) -> list[int]:
    return sorted(row["v"] for row in df.collect())


def lose_shuffles(spark: SparkSession) -> None:
    """As with the executors that have written them."""
    context: Any = spark.sparkContext._jsc.sc()
    newest = context.newShuffleId()
    for shuffle in range(max(0, newest - NEWEST), newest):
        context.cleaner().get().doCleanupShuffle(shuffle, True)


def test_a_result_that_is_not_kept_is_run_again(spark: SparkSession) -> None:
    df = joined(spark).toDF()
    assert values(df) == list(range(ROWS))
    lose_shuffles(spark)
    assert values(df) == list(range(ROWS))


def test_a_result_that_is_cached_in_part_is_not_completed_by_another_attempt(
    spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # else Spark would keep all partitions at once
    request.addfinalizer(lambda: spark.conf.unset("spark.sql.adaptive.enabled"))
    df = joined(spark).toDF().cache()
    assert len(df.take(1)) == 1, "of the first partition, which is kept now"
    lose_shuffles(spark)
    with pytest.raises(Exception, match=r"a part of it was lost, and the rest is kept in .*: unpersist it"):
        df.collect()
    df.unpersist(blocking=True)
    assert values(df) == list(range(ROWS))


def test_a_query_that_is_released_can_be_run_again(spark: SparkSession) -> None:
    query = joined(spark).start()
    df = query.result(timeout=120)
    assert values(df) == list(range(ROWS))
    query.release()
    lose_shuffles(spark)
    assert values(df) == list(range(ROWS))


def test_rows_in_files_go_with_their_flow(spark: SparkSession) -> None:
    from .test_lifetime import collect_garbage, service

    def files() -> set[Path]:
        return set(Path(str(spark.sparkContext._temp_dir)).glob("reshape-result-*/*.arrows"))

    before = files()
    df = joined(spark).toDF()
    assert df.count() == ROWS
    mine = files() - before
    assert len(mine) == 2, "one for each host"
    del df
    for _ in range(20):  # the JVM lets go when it likes
        collect_garbage(spark)
        service(spark).drop_unneeded()
        if not mine & files():
            return
    pytest.fail("rows of a result that nobody can read are still there")
