"""Charts of flows on Spark: before they start, while they run and at their end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.observe.charts import Chart, ChartSpec

MONTHS, DAYS, COST_S = 3, 30, 0.0004


@pytest.fixture(scope="module")
def tweets(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """A file for each day, in their order; most rows are of month 0."""
    folder = tmp_path_factory.mktemp("tweets")
    for day in range(DAYS):
        month = np.repeat(np.arange(MONTHS), (200, 20, 20))
        pq.write_table(pa.table({"month": month, "day": np.full(len(month), day)}), folder / f"{day:02}.parquet")
    return spark.read.parquet(str(folder))


def joined(spark: SparkSession, tweets: DataFrame, **options: Any) -> reshape.Flow:
    months = spark.createDataFrame([(number, f"m{number}") for number in range(MONTHS)], "month long, name string")
    flow = reshape.read(tweets, hosts=2, workers=4, combine=False, **options)
    return flow.join(months, "month").tuned(cost_s_per_row=COST_S).groupBy("name", "day").count()


def values(chart: Chart) -> dict[str, list[tuple[Any, float]]]:
    return {str(line.name): [(point.x, point.y) for point in line.points] for line in chart.lines}


def test_a_line_grows_in_order_and_is_whole_at_the_end(
    spark: SparkSession, tweets: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = joined(spark, tweets).line("day", "count", "name")
    sink.explain()
    told = capsys.readouterr().out
    assert told.startswith("a line chart: count by day, a line for each name\n")
    assert "split by keys, because the running result needs the rows of a key in their order" in told
    query = sink.start()
    try:
        query.awaitTermination(300)
        chart = query.line("day", "count", "name")
        assert chart.final
        assert values(chart) == {
            f"m{month}": [(day, 200.0 if month == 0 else 20.0) for day in range(DAYS)] for month in range(MONTHS)
        }
        assert all(line.complete == DAYS for line in chart.lines)
        assert [line["gaps"] for line in query._flow.record.shown["chart"]["lines"]] == [[], [], []]
        for wrong, words in (
            (("dya", "count"), "did you mean day"),
            (("day", "name"), "'name' is no column of numbers"),
        ):
            with pytest.raises(reshape.FlowError, match=words):
                query.bar(*wrong)
    finally:
        query.release()


def test_bars_of_any_query_have_its_own_names(spark: SparkSession, tweets: DataFrame) -> None:
    tweets.createOrReplaceTempView("tweets_drawn")
    text = "SELECT month AS m, count(*) AS n, sum(day) AS days FROM tweets_drawn GROUP BY month"
    flow = reshape.flow(spark.sql(text), hosts=2)
    with pytest.raises(reshape.FlowError, match="bar: the result has no column 'month'"):
        flow.bar("month", "n")
    sink = flow.bar("m", "days")
    assert sink.chart == ChartSpec("bar", "m", "days")
    query = sink.start()
    try:
        query.awaitTermination(300)
        (bars,) = query.bar("m", "days").lines
        assert [(bar.x, bar.y) for bar in bars.points] == [(0, 87_000.0), (1, 8_700.0), (2, 8_700.0)]
        assert [column["name"] for column in query._flow.record.shown["columns"]] == ["m", "n", "days"]
    finally:
        query.release()
