"""Limits: the flow below one ends when it has given as many rows, wherever its sources are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape

from .test_slots import wait_for

# A source of Spark's that nobody can wait for: a query that answers has not read it to its end.
ENDLESS = 10**13


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    own.range(40).selectExpr("id % 4 AS k", "id AS part").createOrReplaceTempView("parts")
    own.range(0, ENDLESS, 1, 6).selectExpr("id % 8 AS k", "id AS v").createOrReplaceTempView("endless")
    return own


QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "join": lambda joined: joined.limit(25),
    "filter": lambda joined: joined.where("v % 3 = 0").limit(25),
    "expression of Spark's": lambda joined: joined.selectExpr("k", "v", "part", "rand(3) AS r").limit(25),
    "offset": lambda joined: joined.offset(5).limit(25),
    "function": lambda joined: joined.mapInArrow(lambda batches: batches, joined.schema).limit(25),
}


@pytest.mark.parametrize("query", QUERIES)
def test_sources_end_when_there_are_enough_rows(session: SparkSession, query: str) -> None:
    rows = QUERIES[query](session.sql("SELECT k, v, part FROM endless JOIN parts USING (k)"))
    got = reshape.flow(rows, hosts=2).toDF().collect()
    assert len(got) == 25
    assert len({(row.v, row.part) for row in got}) == 25
    assert all(row.k == row.v % 8 == row.part % 4 for row in got)
    wait_for("its stages to end", lambda: not session.sparkContext.statusTracker().getActiveStageIds())


ACTIONS: dict[str, Callable[[reshape.Flow], int]] = {
    "take": lambda flow: len(flow.take(5)),
    "head of many": lambda flow: len(flow.head(5)),
    "head": lambda flow: 5 * (flow.head() is not None),
    "first": lambda flow: 5 * (flow.first() is not None),
    "is empty": lambda flow: 5 * (not flow.isEmpty()),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_actions_on_first_rows_end_the_flow(session: SparkSession, action: str) -> None:
    joined = session.sql("SELECT k, v, part FROM endless JOIN parts USING (k)")
    assert ACTIONS[action](reshape.flow(joined, hosts=2)) == 5


def test_show_ends_the_flow_and_tells_of_more_rows(session: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    joined = session.sql("SELECT k, v, part FROM endless JOIN parts USING (k)")
    reshape.flow(joined, hosts=2).show(3)
    assert "only showing top 3 rows" in capsys.readouterr().out
    counted = reshape.flow(session.table("parts").groupBy("k").count().orderBy("k"), hosts=2)
    counted.show(4)
    shown = capsys.readouterr().out
    session.table("parts").groupBy("k").count().orderBy("k").show(4)
    assert shown == capsys.readouterr().out


def test_files_are_read_no_further(session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session.range(0, 40_000, 1, 8).selectExpr("id % 8 AS k", "id AS v").write.parquet(str(tmp_path / "rows"))
    rows = session.read.parquet(str(tmp_path / "rows"))
    flow = reshape.flow(rows.join(session.table("parts"), "k").limit(7), hosts=2, cost_s_per_row=0.01)
    flow.explain()
    assert "ends when there are 7 rows" in capsys.readouterr().out
    query = flow.start()  # all of them would cost minutes
    assert len(query.result().collect()) == 7
    shown = query.shown()
    assert shown is not None
    assert (shown.table.num_rows, shown.table.column_names) == (7, ["k", "v", "part"])
    query.release()


def test_rows_that_are_fewer_than_the_limit_all_come(session: SparkSession) -> None:
    few = session.sql("SELECT k, part, id FROM range(30) JOIN parts ON k = id LIMIT 1000")
    assert sorted(reshape.flow(few).toDF().collect()) == sorted(few.collect())


def test_a_limit_inside_of_a_query_ends_what_is_below_it(session: SparkSession) -> None:
    some = session.sql("SELECT k, count(*) AS n FROM (SELECT * FROM endless JOIN parts USING (k) LIMIT 40) GROUP BY k")
    assert sum(row.n for row in reshape.flow(some, hosts=1).toDF().collect()) == 40
