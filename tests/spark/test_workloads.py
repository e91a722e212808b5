"""The paper's workflows: data as the paper describes it, the same answers as plain Spark, results early."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from math import sqrt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.datasets import synthetic_tables, tpc, tpc_tables, tweet_tables
from reshape.datasets.draws import bits, spread, spread_step, zipf_rank
from reshape.datasets.months import PERCENT
from reshape.datasets.synthetic import changing_distribution
from reshape.datasets.tweets import CALIFORNIA, TEXAS, tweets_per_location
from reshape.workloads.paper import Workload, covid_months, w1, w2, w3, w4

SCALE = 0.01


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpc")


def rows(df: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, df.collect()))


def counts(df: DataFrame, column: str) -> dict[Any, int]:
    return {row[column]: row["count"] for row in df.groupBy(column).count().collect()}


def assert_drawn(got: dict[Any, int], weights: dict[Any, float]) -> None:
    """Each count is within five standard deviations of what the weights say, and there is nothing else."""
    total, drawn = sum(weights.values()), sum(got.values())
    assert set(got) <= set(weights)
    for value, weight in weights.items():
        wanted = drawn * weight / total
        assert abs(got.get(value, 0) - wanted) <= 5 * sqrt(wanted) + 1, (
            f"{value}: {got.get(value, 0)}, not {wanted:.0f}"
        )


def assert_same_answer(workload: Workload) -> None:
    got = workload.flow.toDF()
    assert got.columns == workload.plain.columns
    assert rows(got) == rows(workload.plain)


def test_tweets_are_skewed_as_the_papers(spark: SparkSession) -> None:
    got = counts(tweet_tables.tweets(spark, 400_000), "location")
    assert_drawn(got, dict(tweets_per_location()))
    assert sorted(got, key=lambda code: -got[code])[:2] == [CALIFORNIA, TEXAS]


def test_tweets_without_skew(spark: SparkSession) -> None:
    assert_drawn(counts(tweet_tables.tweets(spark, 100_000, skewed=False), "location"), dict.fromkeys(range(1, 57), 1))


def test_data_depends_on_the_seed_alone(spark: SparkSession) -> None:
    first = rows(tweet_tables.tweets(spark, 3_000, partitions=8, seed=5))
    assert first == rows(tweet_tables.tweets(spark, 3_000, partitions=3, seed=5))
    assert first != rows(tweet_tables.tweets(spark, 3_000, partitions=8, seed=6))
    dealt = rows(synthetic_tables.changing_table(spark, 1_001, partitions=4, seed=5))
    assert dealt == rows(synthetic_tables.changing_table(spark, 1_001, partitions=1, seed=5))


def test_some_tweets_use_the_slang_of_their_location(spark: SparkSession) -> None:
    joined = tweet_tables.tweets(spark, 20_000).join(tweet_tables.slang(spark), "location")
    used = joined.where("contains(concat(text, ' '), concat(slang, ' '))").count()
    assert used == pytest.approx(5_000, abs=5 * sqrt(5_000))


def test_the_changing_table_changes_after_a_quarter(spark: SparkSession) -> None:
    table = synthetic_tables.changing_table(spark, 80_000)
    before, after = changing_distribution()
    assert_drawn(counts(table.where("value < 20000"), "key"), dict(before))
    assert_drawn(counts(table.where("value >= 20000"), "key"), dict(after))


def test_partitions_of_the_changing_table_are_in_step(spark: SparkSession) -> None:
    table = synthetic_tables.changing_table(spark, 1_000, partitions=4)
    starts = table.selectExpr("spark_partition_id() AS part", "value").groupBy("part").min("value").collect()
    assert sorted(row["min(value)"] for row in starts) == [0, 1, 2, 3]


@pytest.mark.parametrize(("keys", "exponent"), [(2_000, 1.0), (1_826, 0.6), (50, 0.4)])
def test_ranks_follow_zipfs_law(spark: SparkSession, keys: int, exponent: float) -> None:
    rank = spread(f"({zipf_rank(keys, exponent, 'draw')})", keys)
    drawn = spark.range(200_000).selectExpr(f"{bits('id', 1, 'rank')} AS draw").selectExpr(f"{rank} AS rank")
    step = spread_step(keys)
    law = {rank * step % keys: (rank + 1) ** -exponent for rank in range(keys)}
    assert_drawn(counts(drawn, "rank"), law)


def test_sales_are_skewed_by_item_most_and_by_date_less(spark: SparkSession, tables: Path) -> None:
    sales = tpc_tables.web_sales(spark, tables, SCALE)
    total = sales.count()
    item, date, customer = (
        max(count for key, count in counts(sales, column).items() if key is not None) / total
        for column in ("ws_item_sk", "ws_sold_date_sk", "ws_bill_customer_sk")
    )
    law = sum((rank + 1) ** -tpc.ITEM_EXPONENT for rank in range(2_000))
    assert item == pytest.approx(1 / law, rel=0.15)
    assert item > 3 * date > 3 * 1 / tpc.DATES
    assert 1 / 1_000 < customer < item


def test_w1(spark: SparkSession) -> None:
    assert_same_answer(w1(spark, 8_000))


def test_w2(spark: SparkSession, tables: Path) -> None:
    workload = w2(spark, tables, SCALE)
    assert len(workload.plain.columns) == 2
    assert workload.plain.count() >= 10
    assert_same_answer(workload)


def test_w3(spark: SparkSession, tables: Path) -> None:
    workload = w3(spark, tables, SCALE)
    got, want = workload.flow.toDF().collect(), workload.plain.collect()
    assert [row.o_totalprice for row in got] == [row.o_totalprice for row in want]
    assert Counter(map(tuple, got)) == Counter(map(tuple, want))


def test_w4(spark: SparkSession) -> None:
    assert_same_answer(w4(spark, 400, even_rows=420))


def test_covid_months(spark: SparkSession) -> None:
    workload = covid_months(spark, 20_000)
    assert_same_answer(workload)
    assert_drawn({row.month: row.tweets for row in workload.plain.collect()}, dict(PERCENT))


FREE_BATCHES = 6


def held(gate: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A source that gives some batches and then waits for a file. Some, because pipes hold back up to 64 KiB each."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            limit = time.monotonic() + 120
            while number >= FREE_BATCHES and not gate.exists() and time.monotonic() < limit:
                time.sleep(0.02)
            yield batch

    return wait


def test_w1_shows_results_long_before_its_end(spark: SparkSession, tmp_path: Path) -> None:
    """Most of the input is held back until there is something to see."""
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    assert before is not None
    spark.conf.set(key, "2000")
    try:
        gate = tmp_path / "open"
        tweets = tweet_tables.tweets(spark, 800_000, partitions=2).where("contains(text, 'covid')")
        source = tweets.mapInArrow(held(gate), tweets.schema)
        query = reshape.flow(source, name="W1", joins="all").join(tweet_tables.slang(spark), "location").start()
        deadline = time.monotonic() + 120
        while query.partial() is None:
            assert query.isActive, f"ended early: {query.exception()}"
            assert time.monotonic() < deadline, "no partial result within 120 s"
            time.sleep(0.02)
        partial, first = query.partial(), query.first_partial
        assert not gate.exists()
        gate.touch()
        total = query.result(120).count()
    finally:
        spark.conf.set(key, before)
    assert partial is not None
    assert partial.num_rows > 0
    assert partial.schema.names == ["location", "tweet_id", "text", "slang_rank", "slang"]
    assert first is not None
    inputs = total // tweet_tables.WORDS
    print(
        f"first partial result {first.seconds:.2f} s after workers were ready: {first.processed:,} of {inputs:,} rows"
    )
    assert first.processed < 0.2 * inputs
    query.release()
