"""Functions in Python inside of plans: run in hosts, with the answers and the errors of Spark's own workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf, pandas_udf

import reshape
from reshape.plan.group_functions import value_of_group
from reshape.plan.map_functions import by_batches

TIMES = "k long, name string, at timestamp"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    own.conf.set("spark.sql.session.timeZone", "America/New_York")
    own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "300")
    return own


@pytest.fixture(scope="module")
def joined(session: SparkSession) -> DataFrame:
    """A hot key, and times whose wall clock depends on the session."""
    rows = session.sql(
        "SELECT IF(id % 10 < 6, 3, id % 20) AS k, id AS v, "
        "timestampadd(HOUR, id, TIMESTAMP'2024-03-09 20:00:00') AS at FROM range(2000)"
    )
    names = session.sql("SELECT id AS k, concat('n', id) AS name FROM range(20)")
    return rows.join(names, "k")


def check(df: DataFrame, *ours: str) -> reshape.Flow:
    """The answer is Spark's, and these operators are ours."""
    flow = reshape.flow(df, hosts=2)
    result = flow.toDF()
    assert result.schema == df.schema
    assert Counter(result.collect()) == Counter(df.collect())
    assert [place.operator for place in flow.placements if place.where == "reshape"] == list(ours)
    return flow


def reason(df: DataFrame, operator: str) -> str:
    places = [place for place in reshape.flow(df).placements if place.operator == operator]
    assert [place.where for place in places] == ["spark"]
    return places[0].reason


def zoned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Shows what a function sees: names, the time zone, the size of batches."""
    for batch in batches:
        assert batch.schema.names == ["k", "v", "at", "name"]
        assert batch.num_rows <= 300
        zone = pa.array([batch.schema.field("at").type.tz] * batch.num_rows)
        yield pa.record_batch([batch["k"], zone, batch["at"]], names=["by", "place", "alone"])


def doubled(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame.assign(name=frame["name"] + frame["at"].dt.strftime(" %H"))[["name", "k", "at"]]


def per_key(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Wrong wherever rows of a key come in two calls."""
    rows = pd.concat(frames)
    if len(rows):
        yield rows.groupby("k", as_index=False).agg(n=("v", "size"), total=("v", "sum"))


def test_functions_of_rows_follow_an_operator(joined: DataFrame) -> None:
    check(joined.mapInArrow(zoned, TIMES), "inner join", "mapInArrow(zoned)")
    counted = joined.where("v > 5").mapInPandas(doubled, TIMES).groupBy("name").agg(F.count("*"), F.max("at"))
    check(counted, "inner join", "mapInPandas(doubled)", "group by")
    both = joined.select("k", "v").union(joined.sparkSession.range(50).selectExpr("id % 7", "id"))
    check(both.mapInPandas(lambda frames: frames, "k long, v long"), "inner join", "mapInPandas(<lambda>)")


def test_a_function_is_called_once_for_a_partition_with_all_rows_of_a_key(
    joined: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = check(joined.repartition("k").mapInPandas(per_key, "k long, n long, total long"),
                 "inner join", "repartition", "mapInPandas(per_key)")  # fmt: skip
    flow.explain()
    assert "load is not shared" in capsys.readouterr().out


@pytest.mark.parametrize("ordered", [False, True])
def test_a_function_of_any_batches_lets_load_move(
    joined: DataFrame, capsys: pytest.CaptureFixture[str], ordered: bool
) -> None:
    function = by_batches(doubled, ordered=ordered)
    flow = check(joined.sparkSession.createDataFrame(joined.toArrow()).repartition(8, "k").mapInPandas(function, TIMES),
                 "repartition", "mapInPandas(doubled)")  # fmt: skip
    flow.explain()
    assert ("needs the rows of a key in their order" in capsys.readouterr().out) is ordered


def test_functions_of_groups(joined: DataFrame) -> None:
    def of_group(key: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"k": [key[0]], "n": [len(frame)], "first": [frame["at"].min()]})

    def of_table(table: pa.Table) -> pa.Table:
        assert table.schema.names == ["k", "v", "at", "name"]
        last = pa.array([pc.max(table["at"]).as_py()], pa.timestamp("us", "UTC"))
        return pa.table({"n": [table.num_rows], "last": last})

    check(joined.groupBy("k").applyInPandas(of_group, "k long, n long, first timestamp"), "inner join",
          "applyInPandas(of_group)")  # fmt: skip
    check(joined.groupBy(F.col("v") % 3, "name").applyInArrow(of_table, "n long, last timestamp"), "inner join",
          "applyInArrow(of_table)")  # fmt: skip


def _spread(values: pd.Series) -> float:
    return float(values.max() - values.min())


def _latest(values: pa.Array) -> pa.Scalar:
    return pc.max(values)


def test_values_of_groups(joined: DataFrame) -> None:
    spread: Any = pandas_udf(_spread, "double")  # type: ignore[call-overload]
    latest: Any = arrow_udf(_latest, "timestamp")  # type: ignore[call-overload]
    check(joined.groupBy("name").agg(spread("v"), (spread("k") + 1).alias("x")), "inner join", "group by")
    check(joined.groupBy("name").agg(latest("at")), "inner join", "group by")
    alone = "functions in Python without a key, or beside other aggregates, are Spark's"
    assert reason(joined.agg(spread("v")), "aggregate") == alone
    assert reason(joined.groupBy("k").agg(spread("v"), F.count("*")), "group by") == alone


class Largest:
    """The two largest values of a column, as text."""

    state_type = pa.list_(pa.int64())
    output_type = pa.string()

    def init(self) -> list[int]:
        return []

    def update(self, state: list[int], rows: pa.RecordBatch) -> list[int]:
        return self.merge(state, rows["v"].to_pylist())

    def merge(self, state: list[int], other: list[int]) -> list[int]:
        return sorted([*state, *other])[-2:]

    def finish(self, state: list[int]) -> str:
        return str(state)


def test_a_users_aggregate_travels_through_the_plan(joined: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    largest: Any = arrow_udf(value_of_group(Largest(), ["v"]), "string", ArrowUDFType.GROUPED_AGG)  # type: ignore[call-overload]
    flow = check(joined.groupBy("k").agg(largest(F.col("v") % 100).alias("top")), "inner join", "group by")
    flow.explain()
    assert "Largest(v)" in capsys.readouterr().out
    mixed = reshape.flow(joined.groupBy("k").agg(largest("v").alias("top"), F.count("*").alias("n"))).toDF().collect()
    want = {row.k: row.n for row in joined.groupBy("k").agg(F.count("*").alias("n")).collect()}
    assert {row.k: row.n for row in mixed} == want


def test_what_hosts_cannot_carry_is_sparks(joined: DataFrame) -> None:
    seen = joined.sparkSession.sparkContext.broadcast([1])

    def looks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert seen.value
        return batches

    schema = "k long, v long, at timestamp, name string"
    assert "broadcast variables" in reason(joined.mapInArrow(looks, schema), "mapInArrow(looks)")
    assert "barrier" in reason(joined.mapInArrow(lambda rows: rows, schema, barrier=True), "mapInArrow(<lambda>)")
    assert "in one call" in reason(
        joined.sparkSession.range(9).repartition("id").mapInArrow(zoned, TIMES), "repartition"
    )


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda batches: 3, "UDF_RETURN_TYPE.*iterator of pyarrow.RecordBatch, but is int"),
        (lambda batches: iter([3]), "UDF_RETURN_TYPE.*iterator of pyarrow.RecordBatch, but is iterator of int"),
        (lambda batches: (1 // 0 for _ in batches), "ZeroDivisionError"),
        (lambda batches: batches, "promised struct<n:int> and gave struct<k:bigint"),
    ],
    ids=["no iterator", "no batches", "error", "types"],
)
def test_errors_of_functions(joined: DataFrame, function: Callable[[Any], Any], error: str) -> None:
    with pytest.raises(Exception, match=error):
        reshape.flow(joined.mapInArrow(function, "n int")).collect()
