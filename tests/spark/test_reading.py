"""Flows over Parquet, read by the hosts: Spark's answers for every operator, whatever the files are like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import reshape
from reshape.errors import FlowError, TooFewSlots
from reshape.flows import Flow

from .test_api import assert_same, fields, rows

Query = Callable[[Any, Any], Any]

BY_HOSTS = "read by hosts with Arrow: Parquet"
FACTS = (
    "CASE WHEN id % 3 = 0 THEN 7 WHEN id % 11 = 0 THEN NULL ELSE id % 40 END AS k",
    "cast(id AS int) AS a",
    "concat('Word', id % 5) AS s",
    "CASE WHEN id % 17 = 0 THEN double('NaN') WHEN id % 19 = 0 THEN -0.0d ELSE id / 8 END AS d",
    "cast(id % 9 AS decimal(12, 2)) AS m",
    "date_add(date'2024-01-01', cast(id % 30 AS int)) AS day",
    "timestamp_seconds(1711000000 + id % 7 * 3600) AS t",
    "cast(timestamp_seconds(id % 5) AS timestamp_ntz) AS n",
    "cast(concat('b', id % 4) AS binary) AS b",
    "id % 2 = 0 AS odd",
    "cast(id % 100 AS byte) AS i8",
    "cast(id % 1000 AS short) AS i16",
    "cast(id / 3 AS float) AS f",
    "id % 4 AS p",
)


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables: facts, in folders by p; names."""
    directory = tmp_path_factory.mktemp("tables")
    facts = spark.range(0, 900, 1, 3).selectExpr(*FACTS)
    facts.write.partitionBy("p").parquet(str(directory / "facts"))
    names = spark.range(0, 60, 1, 2).selectExpr(
        "id * 10 AS w", "cast(nullif(id % 50, 3) AS int) AS k", "concat('n', id) AS name"
    )
    names.write.parquet(str(directory / "names"))
    return directory


@pytest.fixture(scope="module")
def facts(spark: SparkSession, files: Path) -> DataFrame:
    return spark.read.parquet(str(files / "facts"))


@pytest.fixture(scope="module")
def names(spark: SparkSession, files: Path) -> DataFrame:
    return spark.read.parquet(str(files / "names"))


def by_hosts(df: DataFrame, **options: Any) -> Flow:
    return reshape.flow(df, scan="arrow", hosts=2, workers=5, joins="all", **options)


def readings(flow: Flow) -> list[str]:
    return [source.described for each in flow._query().flows for source in each.sources]


def joined(how: str) -> Query:
    return lambda x, y: x.join(y, "k", how)


QUERIES: dict[str, Query] = {
    **{f"{how} join": joined(how) for how in ("inner", "left", "right", "full", "left_semi", "left_anti")},
    "join by another name": lambda x, y: x.join(y.withColumnRenamed("k", "j"), F.col("a") == F.col("j")),
    "sums": lambda x, _: x.groupBy("k").agg(F.sum("a"), F.avg("m"), F.sum("m"), F.count("*"), F.count("k")),
    "extremes": lambda x, _: x.groupBy("p").agg(F.min("d"), F.max("day"), F.min("t"), F.max("n"), F.min("s")),
    "moments": lambda x, _: x.groupBy("s").agg(F.stddev("a"), F.var_pop("i16"), F.median("a"), F.percentile("a", 0.9)),
    "lists": lambda x, _: x.groupBy("odd", "p").agg(F.collect_list("i8"), F.countDistinct("s", "k"), F.first("p")),
    "of everything": lambda x, _: x.agg(F.count("*"), F.max("s"), F.min("p")),
    "keys of many types": lambda x, _: x.groupBy("m", "day", "t", "b", "f").count(),
    "distinct": lambda x, _: x.distinct(),
    "chain": lambda x, y: x.join(y, "k").groupBy("name", "p").agg(F.sum("w")).groupBy("p").count(),
    "with itself": lambda x, _: x.groupBy("k").count().join(x, "k", "full"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_operators(facts: DataFrame, names: DataFrame, name: str) -> None:
    query = QUERIES[name]
    flow = query(by_hosts(facts), names)
    assert all(reading.startswith(BY_HOSTS) for reading in readings(flow))
    assert_same(flow, query(facts, names))


def test_sorts_are_in_order(facts: DataFrame) -> None:
    order = [F.col("k").desc_nulls_last(), F.length(F.concat("s", "a")), F.col("a")]
    plain = facts.drop("d")  # has NaN, which does not equal itself
    got = by_hosts(plain).orderBy(*order).toDF()
    assert got.toArrow().equals(plain.orderBy(*order).toArrow())
    assert [row["a"] for row in got.take(20)] == [row["a"] for row in facts.orderBy(*order).take(20)]


@pytest.mark.parametrize("kind", ["intersect", "subtract", "union"])
def test_set_operations_of_a_scan_and_of_rows_that_spark_makes(
    spark: SparkSession, facts: DataFrame, kind: str
) -> None:
    mine = facts.selectExpr("a % 50 AS a", "k")
    theirs = spark.range(0, 300).selectExpr("id % 40 AS x", "id % 30 AS y")
    # Spark unites DataFrames by itself, so the union is one of an operator's rows and a DataFrame's, below another one.
    flow = getattr(reshape.flow(mine, hosts=2, joins="all").distinct(), kind)(theirs).groupBy("k").count()
    assert [reading.split(" with")[0].split(":")[0] for reading in readings(flow)] == ["read by hosts", "read by Spark"]
    assert_same(flow, getattr(mine.distinct(), kind)(theirs).groupBy("k").count())


def numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"k": batch["k"], "a": batch["a"]})


def test_an_ordered_function_gets_the_rows_of_a_key_in_the_order_of_their_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One file is one split, so all of its rows are sent in its order."""
    table = pa.table({"k": pa.array(np.arange(20_000) % 7), "a": pa.array(np.arange(20_000))})
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=20_000)
    flow = by_hosts(spark.read.parquet(str(tmp_path))).repartition("k")
    got = flow.mapInArrow(numbered, "k long, a long", ordered=True).toDF().toArrow()
    for key in range(7):
        assert got.filter(pa.compute.equal(got["k"], key))["a"].to_pylist() == list(range(key, 20_000, 7))


def test_filters_expressions_and_names(facts: DataFrame, names: DataFrame) -> None:
    narrowed = facts.where("p IN (1, 3) AND a > 100 AND (k IS NULL OR k <> 7)").selectExpr(
        "k AS `the.key`", "a * 2 AS twice", "upper(s) AS s", "p + 1 AS q", "if(odd, m, -m) AS m"
    )
    flow = by_hosts(narrowed).groupBy("`the.key`", F.lower("s")).agg(F.sum("twice"), F.max("q"), F.sum("m"))
    assert_same(flow, narrowed.groupBy("`the.key`", F.lower("s")).agg(F.sum("twice"), F.max("q"), F.sum("m")))
    nothing = facts.where("a < 0")
    assert_same(by_hosts(nothing).join(names, "k", "right"), nothing.join(names, "k", "right"))
    assert_same(by_hosts(nothing).agg(F.count("*")), nothing.agg(F.count("*")))


def test_files_of_all_shapes(spark: SparkSession, tmp_path: Path) -> None:
    """Many small ones, one of a single large row group, one without rows, and one that lacks a column."""
    table = pa.table({"k": pa.array(np.arange(120_000) % 101), "v": pa.array(np.arange(120_000))})
    for number in range(40):
        pq.write_table(table.slice(number * 10, 10), tmp_path / f"small-{number}.parquet")
    pq.write_table(table.slice(400), tmp_path / "large.parquet", row_group_size=200_000)
    pq.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    pq.write_table(table.select(["k"]).slice(0, 30), tmp_path / "narrow.parquet")
    df = spark.read.schema("k long, v long").parquet(str(tmp_path))
    flow = by_hosts(df).groupBy("k").agg(F.count("*"), F.sum("v"), F.count("v"))
    assert "43 files" in readings(flow)[0]
    assert_same(flow, df.groupBy("k").agg(F.count("*"), F.sum("v"), F.count("v")))


def test_a_table_without_a_file(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.read.schema("k long, v long").parquet(str(tmp_path))
    assert_same(reshape.flow(df, hosts=2).groupBy("k").count(), df.groupBy("k").count())
    assert_same(reshape.flow(df, hosts=2).agg(F.count("*")), df.agg(F.count("*")))


def test_who_reads_is_a_setting(facts: DataFrame, names: DataFrame) -> None:
    want = facts.join(names, "k", "left").groupBy("name").agg(F.sum("a"))
    for scan, reading in (
        ("auto", BY_HOSTS),
        ("arrow", BY_HOSTS),
        ("spark", "read by Spark: spark.reshape.scan is sp"),
    ):
        flow = (
            reshape.flow(facts, hosts=2, scan=scan, joins="all")
            .join(names, "k", "left")
            .groupBy("name")
            .agg(F.sum("a"))
        )
        assert all(told.startswith(reading) for told in readings(flow)), readings(flow)
        assert rows(flow.toDF()) == rows(want)


def test_explain_says_who_reads_and_why(spark: SparkSession, facts: DataFrame, names: DataFrame) -> None:
    upper = F.udf(lambda text: text.upper(), "string")
    ways = {
        "it has a sample": facts.sample(0.5, 1),
        "it has a limit": facts.limit(5),
        "it has a function outside of Spark's own": facts.select(upper("s").cast("long").alias("k")),
        "it has a range": spark.range(9).selectExpr("id AS k"),
    }
    for reason, df in ways.items():
        united = reshape.flow(df, hosts=2).groupBy("k").count().union(names.select("w", "w"))
        text = united.distinct()._explained()
        assert f"read by Spark: {reason}" in text
        assert text.count("Spark job: ") == 1
        assert f"{BY_HOSTS}, 2 files in 2 splits, 60 rows" in text
    with pytest.raises(FlowError, match="scan is arrow, but hosts cannot read a source of this flow: it has a limit"):
        by_hosts(facts.limit(5)).groupBy("k").count().toDF()


@pytest.mark.parametrize("scanned", [0, 1])
def test_a_join_of_a_scan_and_of_rows_that_spark_makes(facts: DataFrame, names: DataFrame, scanned: int) -> None:
    sides = [facts.select("k", "a"), names]
    sides[1 - scanned] = sides[1 - scanned].repartition(3)
    flow = reshape.flow(sides[0], hosts=2, joins="all").join(sides[1], "k", "full")
    assert [reading.startswith(BY_HOSTS) for reading in readings(flow)] == [scanned == 0, scanned == 1]
    assert_same(flow, sides[0].join(sides[1], "k", "full"))


def test_hosts_need_no_slots_beside_them_where_they_read(facts: DataFrame, names: DataFrame) -> None:
    """The session has four slots."""
    flow = reshape.flow(facts, hosts=4, workers=4, joins="all").join(names, "k").groupBy("p").count()
    assert rows(flow.toDF()) == rows(facts.join(names, "k").groupBy("p").count())
    with pytest.raises(TooFewSlots, match=r"needs 5 for its hosts\. Start"):
        reshape.flow(facts, hosts=5).groupBy("k").count().toDF()
    with pytest.raises(TooFewSlots, match="needs 4 for its hosts and one more at least for its sources"):
        reshape.flow(facts.repartition(2), hosts=4).groupBy("k").count().toDF()


def test_as_many_hosts_as_there_is_use_for(facts: DataFrame) -> None:
    flow = reshape.flow(facts).groupBy("k").count()
    (of_scan,), (of_spark,) = flow._query().flows, flow.options(scan="spark")._query().flows
    # Half of the slots; it starts when one more is free.
    assert (of_spark.plan().hosts, of_spark.slots().to_start) == (2, 3)
    assert 1 <= of_scan.plan().hosts <= 4
    assert rows(flow.toDF()) == rows(facts.groupBy("k").count())


def test_everything_works_on_the_result(facts: DataFrame, names: DataFrame, tmp_path: Path, capsys: Any) -> None:
    df = by_hosts(facts).join(names, "k", "left").toDF()
    want = facts.join(names, "k", "left")
    expected = rows(want)
    assert rows(df) == expected
    assert rows(df) == expected, "a second action runs the flow again"
    assert df.count() == sum(expected.values())
    assert fields(df) == fields(want)
    few = Counter(tuple(row) for row in df.select("a", "name").take(5))
    assert few <= rows(want.select("a", "name"))
    assert df.first() is not None
    assert df.limit(3).count() == 3
    df.select("a", "name").show(2)
    assert "|" in capsys.readouterr().out
    assert rows(df.union(df).groupBy("k").count()) == rows(want.union(want).groupBy("k").count())
    assert rows(df.coalesce(1).select("a", "w")) == rows(want.select("a", "w"))
    assert rows(df.join(names.select("k"), "k", "left_anti").select("a")) == rows(want.where("w IS NULL").select("a"))
    df.write.parquet(str(tmp_path / "out"))
    assert rows(facts.sparkSession.read.parquet(str(tmp_path / "out"))) == expected
    kept = df.cache()
    assert kept.count() == kept.count() == sum(expected.values())
    kept.unpersist()


def test_a_result_without_an_exchange(facts: DataFrame) -> None:
    df = by_hosts(facts).groupBy("k").agg(F.sum("a")).toDF(exchange=False)
    assert rows(df) == rows(facts.groupBy("k").agg(F.sum("a")))


def test_a_result_of_more_than_a_packed_value(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of some megabytes travel in several values, and keep their order."""
    table = pa.table({"v": pa.array(np.random.default_rng(1).permutation(60_000)), "s": ["x" * 200] * 60_000})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=5_000)
    got = by_hosts(spark.read.parquet(str(tmp_path))).orderBy("v").toDF().toArrow()
    assert got["v"].to_pylist() == list(range(60_000))
