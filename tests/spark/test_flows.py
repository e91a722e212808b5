"""Flows on Spark give what Spark gives."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from math import isnan
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import reshape
from reshape.errors import TooFewSlots
from reshape.flows import Flow

HOT = "CASE WHEN id % 3 = 0 THEN 7 WHEN id % 11 = 0 THEN NULL ELSE id % 97 END"


@pytest.fixture(scope="module")
def facts(spark: SparkSession) -> DataFrame:
    """A hot key, null keys, strings and doubles; five partitions, one of them empty."""
    return (
        spark.range(0, 4000, 1, 5)
        .selectExpr(
            f"{HOT} AS k",
            "CASE WHEN id % 13 = 0 THEN NULL ELSE concat('wörd-', id % 29) END AS s",
            "id AS v",
            "CASE WHEN id % 17 = 0 THEN double('NaN') WHEN id % 19 = 0 THEN -0.0D ELSE id / 8 END AS d",
        )
        .where("v < 800 OR v >= 1600")
    )


@pytest.fixture(scope="module")
def names(spark: SparkSession) -> DataFrame:
    """Some keys twice, some not at all, one null."""
    return spark.range(0, 140, 1, 2).selectExpr(
        "CASE WHEN id = 139 THEN NULL ELSE id % 110 END AS k", "concat('n', id) AS name"
    )


def flow_of(df: DataFrame, **options: Any) -> Flow:
    """Tables here are small: Spark would send one side of every join to all tasks."""
    return reshape.flow(df, joins="all", **options)


def rows(df: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(_same(value) for value in row) for row in df.collect())


def _same(value: Any) -> Any:
    """NaN equals NaN, and 0.0 equals -0.0 in a Counter already."""
    return "NaN" if isinstance(value, float) and isnan(value) else value


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "left_semi", "left_anti"])
def test_joins(facts: DataFrame, names: DataFrame, how: str) -> None:
    got = flow_of(facts).join(names, "k", how).toDF()
    want = facts.join(names, "k", how)
    assert got.columns == want.columns
    assert rows(got) == rows(want)


def test_a_join_on_differing_names(facts: DataFrame, names: DataFrame) -> None:
    other = names.withColumnRenamed("k", "key")
    got = flow_of(facts).join(other, facts.k == other.key).toDF()
    assert rows(got) == rows(facts.join(other, facts.k == other.key))


def test_group_by(facts: DataFrame) -> None:
    wanted = [
        F.count("*").alias("n"),
        F.count("s").alias("filled"),
        F.sum("v").alias("total"),
        F.min("s").alias("first"),
        F.max("d").alias("largest"),
        F.countDistinct("s").alias("words"),
        F.median("v").alias("middle"),
    ]
    assert rows(flow_of(facts).groupBy("k").agg(*wanted).toDF()) == rows(facts.groupBy("k").agg(*wanted))


def test_a_chain_of_two_joins_and_a_group_by(facts: DataFrame, names: DataFrame) -> None:
    words = facts.selectExpr("s", "length(s) AS size").distinct()
    flow = flow_of(facts).join(names, "k").join(words, "s").groupBy("name").count()
    want = facts.join(names, "k").join(words, "s").groupBy("name").count()
    assert rows(flow.toDF()) == rows(want)


def test_sort_keeps_the_global_order_in_partition_order(facts: DataFrame) -> None:
    order = [F.col("k").desc_nulls_last(), F.col("s"), F.col("v").desc()]
    got = flow_of(facts, hosts=2, workers=5).orderBy(*order).toDF()
    want = facts.orderBy(*order)
    assert [row["v"] for row in got.collect()] == [row["v"] for row in want.collect()]
    assert [row["v"] for row in got.take(7)] == [row["v"] for row in want.take(7)]


def test_a_sort_behind_a_group_by(facts: DataFrame) -> None:
    flow = flow_of(facts).groupBy("k").agg(F.sum("v").alias("t")).orderBy("t", "k").toDF()
    want = facts.groupBy("k").agg(F.sum("v").alias("t")).orderBy("t", "k")
    assert [tuple(row) for row in flow.collect()] == [tuple(row) for row in want.collect()]


def test_set_operations(facts: DataFrame) -> None:
    left, right = facts.select("k", "s").where("v < 3000"), facts.select("k", "s").where("v > 1000")
    assert rows(flow_of(left).intersect(right).toDF()) == rows(left.intersect(right))
    assert rows(flow_of(left).subtract(right).toDF()) == rows(left.subtract(right))
    assert rows(flow_of(left).union(right).distinct().toDF()) == rows(left.union(right).distinct())


def test_everything_works_on_the_result(facts: DataFrame, names: DataFrame, tmp_path: Any) -> None:
    df = flow_of(facts).join(names, "k").toDF()
    want = facts.join(names, "k").count()
    assert df.count() == want
    assert len(df.take(3)) == 3
    assert df.first() is not None
    assert df.limit(5).count() == 5
    df.show(2)
    assert df.coalesce(1).count() == want
    assert df.union(df).count() == 2 * want
    assert df.join(names, "k").count() == facts.join(names, "k").join(names.select("k"), "k").count()
    df.write.parquet(str(tmp_path / "out"))
    assert df.sparkSession.read.parquet(str(tmp_path / "out")).count() == want
    assert df.cache().count() == want
    df.unpersist()


def test_a_users_function_runs_with_the_operator(facts: DataFrame, names: DataFrame) -> None:
    def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        for batch in batches:
            yield pa.record_batch({"v2": pc.multiply(batch.column("v"), 2)})

    got = flow_of(facts).join(names, "k").mapInArrow(double, "v2 long").toDF()
    assert rows(got) == rows(facts.join(names, "k").selectExpr("v * 2 AS v2"))


def test_empty_inputs(facts: DataFrame, names: DataFrame) -> None:
    nothing = facts.where("v < 0")
    assert flow_of(nothing).join(names, "k").toDF().count() == 0
    assert flow_of(facts).join(names.where("k > 1000"), "k", "left").toDF().count() == facts.count()
    assert flow_of(nothing).groupBy("k").count().toDF().count() == 0
    assert flow_of(nothing).orderBy("v").toDF().count() == 0


def test_two_flows_at_a_time_do_not_mix(facts: DataFrame, names: DataFrame) -> None:
    flows = [
        flow_of(facts, hosts=1).join(names, "k").toDF(),
        flow_of(facts, hosts=1).groupBy("k").count().toDF(),
    ]
    counts: dict[int, int] = {}
    threads = [
        threading.Thread(target=lambda i=i, df=df: counts.__setitem__(i, df.count())) for i, df in enumerate(flows)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert counts == {0: facts.join(names, "k").count(), 1: facts.groupBy("k").count().count()}


def test_an_error_in_a_users_function_names_operator_and_worker(facts: DataFrame, names: DataFrame) -> None:
    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            raise ValueError("no such luck")
        yield from ()

    df = flow_of(facts).join(names, "k").mapInArrow(broken, "x long").toDF()
    with pytest.raises(Exception, match=r"inner join \(operator 0\), worker \d+: ValueError: no such luck"):
        df.count()
    assert flow_of(facts).join(names, "k").toDF().count() > 0, "the session works on"


def test_nothing_is_left_running(facts: DataFrame, names: DataFrame) -> None:
    df = flow_of(facts).join(names, "k").toDF()
    df.count()
    del df
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("reshape")]
    assert left == []


def test_a_flow_without_slots_says_what_to_change(facts: DataFrame) -> None:
    with pytest.raises(TooFewSlots, match=r"has 4 task slots.*needs 9"):
        flow_of(facts, hosts=9).groupBy("k").count().toDF()
