"""Any DataFrame as a flow: the answer is Spark's, whatever runs where."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import reshape
from reshape.catalyst import aggregations
from reshape.catalyst.placement import Placement
from reshape.flows import Flow

TABLES = {
    "orders": """SELECT id, IF(id % 10 < {hot}, 3, id % 40) AS k, CAST(id % 100 AS decimal(9, 2)) AS price,
        concat('n', id % 11) AS name, IF(id % 7 = 0, NULL, id % 5) AS sparse, id / 4 AS size,
        date_add(DATE '2024-01-01', CAST(id % 700 AS int)) AS day FROM range(3000)""",
    "customers": "SELECT IF(id % 9 = 0, NULL, id) AS c, concat('c', id % 4) AS segment, id * 2 AS least FROM range(60)",
    "parts": "SELECT id % 40 AS k, id AS part, concat('p', id % 3) AS kind FROM range(120)",
}


@pytest.fixture(scope="module", params=[0, 7], ids=["uniform", "hot key"])
def session(spark: SparkSession, request: pytest.FixtureRequest, tmp_path_factory: Any) -> SparkSession:
    """Tables as files; joins are not broadcast, small as they are."""
    own = spark.newSession()
    own.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    folder: Path = tmp_path_factory.mktemp("tables")
    for name, text in TABLES.items():
        own.sql(text.format(hot=request.param)).write.parquet(str(folder / name))
        own.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    return own


def check(df: DataFrame, *, ordered: bool = False) -> Flow:
    """The flow's answer is Spark's, columns and all."""
    flow = reshape.flow(df, hosts=2)
    result = flow.toDF()
    assert result.schema == df.schema
    got, want = list(map(_rounded, result.collect())), list(map(_rounded, df.collect()))
    assert Counter(got) == Counter(want)
    if ordered:
        assert got == want
    return flow


def _rounded(row: Any) -> tuple[Any, ...]:
    """Sums of floats depend on the order of additions."""
    return tuple(f"{value:.9g}" if isinstance(value, float) else repr(value) for value in row)


def where(flow: Flow) -> list[tuple[str, str]]:
    return [(placement.operator, placement.where) for placement in flow.placements]


OURS = [
    ("SELECT k, sum(id), count(*) AS c, min(name), max(day) FROM orders GROUP BY k", ["group by"]),
    ("SELECT k + 1 AS next, sum(price) * 2 AS twice FROM orders GROUP BY k + 1 HAVING sum(id) > 1000", ["group by"]),
    ("SELECT count(*), sum(size) FROM orders", ["aggregate"]),
    ("SELECT DISTINCT name, sparse FROM orders", ["distinct"]),
    ("SELECT o.id, p.part FROM orders o JOIN parts p ON o.k = p.k", ["inner join"]),
    ("SELECT o.id, c.segment FROM orders o LEFT JOIN customers c ON o.sparse = c.c", ["left join"]),
    ("SELECT o.id, c.segment FROM orders o RIGHT JOIN customers c ON o.sparse = c.c", ["right join"]),
    ("SELECT o.id, c.c FROM orders o FULL JOIN customers c ON o.sparse = c.c", ["full join"]),
    ("SELECT id FROM orders WHERE EXISTS (SELECT * FROM customers WHERE c = sparse)", ["left_semi join"]),
    ("SELECT id FROM orders WHERE NOT EXISTS (SELECT * FROM customers WHERE c = sparse)", ["left_anti join"]),
    ("SELECT count(*) FROM orders o JOIN parts p ON o.k = p.k AND o.id > p.part", ["inner join", "aggregate"]),
    (
        "SELECT segment, kind, sum(price) FROM orders o JOIN customers ON c = o.k JOIN parts p ON p.k = o.k "
        "WHERE size > 10 GROUP BY segment, kind",
        ["inner join", "inner join", "group by"],
    ),
    ("SELECT k FROM (SELECT k, count(*) c FROM orders GROUP BY k) WHERE c > 20", ["group by"]),
    (
        "SELECT name, sum(id) OVER () FROM (SELECT name, max(id) AS id FROM orders GROUP BY name)",
        ["group by", "window"],
    ),
    ("SELECT o.id, p.part FROM orders o LEFT JOIN parts p ON o.k = p.k AND o.id < p.part", ["left join"]),
    ("SELECT o.id, p.part FROM orders o RIGHT JOIN parts p ON o.k = p.k AND o.id > p.part * 9", ["right join"]),
    ("SELECT id FROM orders o WHERE EXISTS (SELECT * FROM parts p WHERE o.k = p.k AND part > id)", ["left_semi join"]),
    (
        "SELECT id FROM orders o WHERE NOT EXISTS (SELECT * FROM parts p WHERE o.k = p.k AND kind < name)",
        ["left_anti join"],
    ),
    ("SELECT sparse FROM orders INTERSECT SELECT c FROM customers", ["left_semi join", "distinct"]),
    ("SELECT sparse, k FROM orders EXCEPT SELECT c, least FROM customers", ["left_anti join", "distinct"]),
    (
        "SELECT k, count(DISTINCT name), sum(id) FILTER (WHERE id > 7), count(*) FILTER (WHERE sparse = 1) FROM orders "
        "GROUP BY k",
        ["group by"],
    ),
    ("SELECT name, count(DISTINCT sparse), count(DISTINCT k) FROM orders GROUP BY name", ["distinct", "group by"]),
    (
        "SELECT kind, name, count(*) FROM orders o JOIN parts p ON o.k = p.k GROUP BY ROLLUP (kind, name)",
        ["inner join", "group by"],
    ),
    (
        "SELECT n, count(*) FROM (SELECT k, count(*) AS n FROM orders GROUP BY k UNION ALL SELECT k, part FROM parts) "
        "WHERE n > 3 GROUP BY n",
        ["group by", "group by"],
    ),
    (
        "SELECT count(*) FROM (SELECT k FROM orders GROUP BY k UNION ALL SELECT part FROM parts GROUP BY part)",
        ["distinct", "distinct", "aggregate"],
    ),
    (
        "SELECT k, n FROM (SELECT k, count(*) n FROM orders GROUP BY k) UNION ALL SELECT k, part FROM parts",
        ["group by"],
    ),
]


@pytest.mark.parametrize(("text", "operators"), OURS, ids=[text[:60] for text, _ in OURS])
def test_operators_run_in_hosts(session: SparkSession, text: str, operators: list[str]) -> None:
    flow = check(session.sql(text))
    assert [name for name, place in where(flow) if place == "reshape"] == operators


def test_texts_that_are_no_utf8_are_keys_like_others(session: SparkSession, tmp_path: Path) -> None:
    """Spark's strings are bytes: a cast from binary, or a file from elsewhere, makes any of them."""
    made = (
        "SELECT id, CAST(unhex(element_at(array('ff41', 'c328', 'c3a9', ''), CAST(id % 4 AS int) + 1)) AS string) AS t"
    )
    session.sql(f"{made} FROM range(400)").write.parquet(str(tmp_path / "texts"))
    df = session.read.parquet(str(tmp_path / "texts"))
    flow = check(df.orderBy("t", "id").select(F.hex("t"), "id"), ordered=True)
    assert ("sort", "reshape") in where(flow)
    check(df.groupBy("t").agg(F.count("*").alias("n"), F.max("t").alias("m")).select(F.hex("t"), F.hex("m"), "n"))


@pytest.mark.parametrize(
    "order", ["size DESC, id", "name, sparse NULLS LAST, id DESC", "price * -1, substr(name, 2), id"]
)
def test_sorted_results_are_in_order(session: SparkSession, order: str) -> None:
    flow = check(session.sql(f"SELECT id, name, day FROM orders ORDER BY {order}"), ordered=True)
    assert where(flow) == [("sort", "reshape")]


def test_the_order_outlives_what_spark_does_behind_it(session: SparkSession) -> None:
    df = session.sql("SELECT k, regexp_replace(name, 'n', 'm') m FROM (SELECT k, name, count(*) c FROM orders "
                     "GROUP BY k, name) ORDER BY c, k, name")  # fmt: skip
    flow = check(df, ordered=True)
    assert where(flow) == [("group by", "reshape"), ("sort", "reshape")]


def test_top_n_is_sparks_over_the_flow(session: SparkSession) -> None:
    flow = check(session.sql("SELECT k, count(*) c FROM orders GROUP BY k ORDER BY c DESC, k LIMIT 5"), ordered=True)
    assert where(flow) == [("group by", "reshape"), ("sort", "spark")]
    assert flow.placements[1].reason.startswith("top-n")


def test_joins_that_spark_broadcasts_stay_in_the_source(session: SparkSession) -> None:
    df = session.sql(
        "SELECT /*+ BROADCAST(c) */ segment, count(*) FROM orders JOIN customers c ON c = k GROUP BY segment"
    )
    flow = check(df)
    assert where(flow) == [("inner join", "spark"), ("group by", "reshape")]
    assert flow.placements[0].reason.startswith("broadcast")


def test_small_sides_are_looked_up_where_hosts_read_the_rows_of_a_grouping(
    session: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "10m")
    try:
        grouped = check(session.sql("SELECT segment, count(*) FROM orders JOIN customers ON c = k GROUP BY segment"))
        joined = check(session.sql("SELECT segment, id FROM orders JOIN customers ON c = k"))
        ranged = check(
            session.sql("SELECT segment, count(*) FROM range(9999) JOIN customers ON c = id GROUP BY segment")
        )
        cubed = check(
            session.sql("SELECT segment, k, count(*) FROM orders JOIN customers ON c = k GROUP BY CUBE(1, 2)")
        )
        for flow in (grouped, cubed):
            flow.explain()
            assert "joined with 1 that Spark would broadcast" in capsys.readouterr().out
    finally:
        session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    assert where(grouped) == where(cubed) == [("inner join", "spark"), ("group by", "reshape")]
    assert where(joined) == [("inner join", "spark")]
    assert where(ranged) == [("inner join", "spark"), ("group by", "reshape")]


def test_hosts_read_each_branch_of_a_union_below_a_grouping(
    session: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    check(
        session.sql(
            """SELECT k, why, count(*), sum(id) FROM (SELECT k, id, 'a' why FROM orders WHERE id % 3 = 0
            UNION ALL SELECT c, 1L, 'b' FROM customers UNION ALL SELECT k, id, null FROM orders) GROUP BY CUBE(1, 2)"""
        )
    ).explain()
    shown = capsys.readouterr().out
    assert shown.count("read by hosts with Arrow") == 3
    assert "read by Spark" not in shown


def test_the_smaller_side_is_kept_and_the_right_one_where_sizes_are_unknown(
    session: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    many, few = session.range(1_000).selectExpr("id % 3 AS k"), session.range(2).selectExpr("id AS k")
    of_python = session.createDataFrame([(0,), (1,)], "k long")
    for left, right, kept in ((many, few, "right"), (few, many, "left"), (many, of_python, "right")):
        check(left.join(right, "k")).explain()
        assert f"{kept}, kept in memory" in capsys.readouterr().out


def test_a_flow_reads_the_result_of_another_one(session: SparkSession) -> None:
    """The expression between the two has no counterpart in Arrow."""
    df = session.sql("SELECT r, sum(c), count(*) FROM (SELECT regexp_replace(concat(name, max(day)), '-', '') r, "
                     "count(*) c FROM orders GROUP BY name, k) GROUP BY r")  # fmt: skip
    flow = check(df)
    assert where(flow) == [("group by", "reshape"), ("group by", "reshape")]


def test_without_slots_for_two_flows_the_upper_operator_is_sparks(session: SparkSession) -> None:
    df = session.sql("SELECT r, count(*) FROM (SELECT regexp_replace(concat(name, max(day)), '-', '') r FROM orders "
                     "GROUP BY name, k) GROUP BY r")  # fmt: skip
    flow = reshape.flow(df, hosts=4)
    assert [(one.operator, one.where) for one in flow.placements] == [("group by", "reshape"), ("group by", "spark")]
    assert "too few task slots" in flow.placements[1].reason
    assert Counter(flow.toDF().collect()) == Counter(df.collect())


def test_a_query_without_anything_for_hosts_is_the_dataframe_itself(session: SparkSession) -> None:
    df = session.sql("SELECT id + 1 FROM orders WHERE k = 3 LIMIT 3")
    flow = reshape.flow(df)
    assert flow.toDF() is df
    assert flow.placements == ()


def test_the_actions_of_a_flow(session: SparkSession, tmp_path: Path) -> None:
    df = session.sql("SELECT k, count(*) AS c FROM orders GROUP BY k ORDER BY k")
    flow = reshape.flow(df).options(hosts=1)
    want = df.collect()
    assert flow.count() == len(want)
    assert flow.collect() == want
    assert flow.toArrow().to_pylist() == df.toArrow().to_pylist()
    assert flow.schema == df.schema
    assert flow.columns == ["k", "c"]
    flow.write.parquet(str(tmp_path / "result"))
    assert Counter(session.read.parquet(str(tmp_path / "result")).collect()) == Counter(want)


def test_a_started_query_has_the_whole_result(session: SparkSession) -> None:
    df = session.sql("SELECT k, count(*) AS c FROM orders GROUP BY k ORDER BY c DESC, k LIMIT 4")
    query = reshape.start(df, hosts=1)
    result = query.result(120)
    assert result.schema == df.schema
    assert "InMemoryRelation" in result._jdf.queryExecution().withCachedData().toString()  # not run again
    assert result.collect() == df.collect()
    query.release()


def test_running_results_look_like_the_result(session: SparkSession) -> None:
    """A filter, a sort and a limit of Spark's follow the flow; what is shown at the end is the result."""
    df = session.sql("SELECT name, n * 2 AS twice FROM (SELECT name, count(*) AS n FROM orders GROUP BY name) "
                     "WHERE n > 1 ORDER BY n DESC, name LIMIT 4")  # fmt: skip
    query = reshape.start(df, hosts=2)
    result = query.result(120)
    shown = query.shown()
    assert shown is not None
    assert shown.table.to_pylist() == [row.asDict() for row in df.collect()]
    assert query.partial() == shown.table
    assert shown.completeness == (1.0,) * 4
    assert result.collect() == df.collect()
    query.release()


def test_explain_says_what_runs_where(session: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    reshape.flow(session.sql("SELECT k, count(*) AS c FROM orders GROUP BY k ORDER BY c LIMIT 3")).explain()
    text = capsys.readouterr().out
    assert text.startswith("query: 1 of 2 operators that skew can slow down run in hosts\n  group by: reshape\n")
    assert "sort: spark, because top-n" in text
    assert "GlobalLimit 3" in text
    assert "group by (operator 0)" in text
    reshape.flow(session.sql("SELECT id FROM orders")).explain()
    assert "the result is the DataFrame itself" in capsys.readouterr().out


def test_dataframes_of_all_kinds(session: SparkSession) -> None:
    cached = session.table("orders").where("k < 20").cache()
    for source in (cached, session.range(500).withColumn("k", F.col("id") % 7).localCheckpoint(),
                   session.createDataFrame([(i, i % 3) for i in range(50)], "id long, k long")):  # fmt: skip
        check(source.groupBy("k").agg(F.sum("id").alias("s")))
    cached.unpersist()


def test_a_fault_in_planning_is_logged_and_spark_runs_the_operator(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, planned_without_faults: list[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("one over nothing")

    monkeypatch.setattr(aggregations, "aggregated", broken)
    flow = check(session.sql("SELECT k, count(*) FROM orders GROUP BY k"))
    assert flow.placements == (Placement("group by", "spark", "planning it failed: one over nothing"),)
    assert all("Traceback" in fault and "ZeroDivisionError" in fault for fault in planned_without_faults)
    assert planned_without_faults
    planned_without_faults.clear()


def test_all_flows_of_a_query_run_in_the_background(session: SparkSession) -> None:
    df = session.sql(
        "SELECT a.k, b.kind, n, m FROM (SELECT k, count(*) AS n FROM orders GROUP BY k) a "
        "JOIN (SELECT kind, count(*) AS m FROM parts GROUP BY kind) b ON n > m"
    )
    query = reshape.start(df, hosts=2)
    assert query.awaitTermination()
    (other,) = query._others
    assert (query.status["message"], other.status["message"], query.isActive) == ("done", "done", False)
    attempts = [flow.attempts.newest for flow in (query._launched, other._launched)]
    assert sorted(query.result().collect()) == sorted(df.collect())
    assert [flow.attempts.newest for flow in (query._launched, other._launched)] == attempts, "none ran again"
    query.release()


def test_a_query_whose_second_flow_fails_has_failed(session: SparkSession) -> None:
    df = session.sql(
        "SELECT a.k FROM (SELECT k, count(*) AS n FROM orders GROUP BY k) a "
        "JOIN (SELECT kind, sum(1 / (part - 5)) AS m FROM parts GROUP BY kind) b ON n > m"
    )
    query = reshape.start(df, hosts=2)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        query.awaitTermination()
    assert query.status["message"] == "failed"
    assert "DIVIDE_BY_ZERO" in str(query.exception())
