"""Flows built step by step: expressions, short forms, types that meet, settings. Everything as in plain Spark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import reshape
from reshape.conf import session_settings
from reshape.flows import Flow

from ..certificates import certificate_for

Query = Callable[[Any, Any], Any]


@pytest.fixture(scope="module")
def left(spark: SparkSession) -> DataFrame:
    """The key is not the first column; some columns are never null."""
    return spark.range(0, 600, 1, 3).selectExpr(
        "concat('Word', id % 5) AS s",
        "CASE WHEN id % 3 = 0 THEN 7 WHEN id % 11 = 0 THEN NULL ELSE id % 40 END AS k",
        "cast(id AS int) AS a",
        "CASE WHEN id % 17 = 0 THEN double('NaN') ELSE id / 8 END AS d",
        "cast(id % 9 AS decimal(12, 2)) AS m",
        "struct(id % 2 AS p, id AS q) AS pair",
        "date_add(date'2024-01-01', cast(id % 30 AS int)) AS day",
    )


@pytest.fixture(scope="module")
def right(spark: SparkSession) -> DataFrame:
    return spark.range(0, 60, 1, 2).selectExpr("id * 10 AS w", "cast(id % 50 AS int) AS k", "concat('n', id) AS name")


def rows(df: DataFrame) -> Counter[Any]:
    return Counter(tuple(_plain(value) for value in row) for row in df.collect())


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if isnan(value) else round(value, 9)
    return tuple(_plain(one) for one in sorted(value)) if isinstance(value, list) else value


def fields(x: Flow | DataFrame) -> list[tuple[Any, ...]]:
    return [(field.name, field.dataType, field.nullable) for field in x.schema]


def flow_of(df: DataFrame, **options: Any) -> Flow:
    """Tables here are small: Spark would send one side of every join to all tasks."""
    return reshape.flow(df, joins="all", **options)


def explained(flow: Flow) -> str:
    return f"{flow._explained()}\n"


def assert_same(flow: Flow, want: DataFrame) -> None:
    """Names, types, nullability and rows."""
    assert fields(flow) == fields(want)
    got = flow.toDF()
    assert fields(got) == fields(want)
    assert rows(got) == rows(want)


QUERIES: list[Query] = [
    lambda x, _: x.groupBy(F.lower("s"), "pair.p").agg(F.sum("a"), F.avg("m"), F.collect_list("s"), F.first("a")),
    lambda x, _: x.groupBy(F.col("k").alias("key")).agg({"a": "sum", "*": "count", "d": "avg"}),
    lambda x, _: x.groupBy("k").agg(F.median("d"), F.stddev("d"), F.var_pop("a"), F.countDistinct("s", "a")),
    lambda x, _: x.groupBy("k").agg(F.percentile("a", [0.25, 0.5]), F.expr("percentile(a, 0.5)"), F.min("day")),
    lambda x, _: x.groupBy("k").sum(),
    lambda x, _: x.groupBy("k").avg("a", "d"),
    lambda x, _: x.groupBy("k").mean(),
    lambda x, _: x.groupBy("s").min(),
    lambda x, _: x.groupBy("s").max("k"),
    lambda x, _: x.groupBy("s", "k").count(),
    lambda x, _: x.agg(F.count("*"), F.max("s")),
    lambda x, _: x.groupBy("k").count().groupBy("count").agg(F.max("k").alias("most")),
    lambda x, _: x.orderBy(F.length("s").desc(), "k"),
    lambda x, _: x.orderBy(["k", "a"], ascending=[False, True]),
    lambda x, _: x.groupBy("day").count().distinct(),
    *[lambda x, y, how=how: x.join(y, "k", how) for how in ("inner", "left", "right", "full", "semi", "anti")],
    *[lambda x, y, how=how: x.join(y, ["k"], how) for how in ("left_outer", "rightouter", "full_outer", "leftanti")],
]


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_schemas_equal_those_of_spark(left: DataFrame, right: DataFrame, number: int) -> None:
    query = QUERIES[number]
    flow, want = query(flow_of(left), right), query(left, right)
    assert isinstance(flow, Flow)
    assert all(placement.where == "reshape" for placement in flow.placements)
    assert fields(flow.toDF()) == fields(flow) == fields(want)


def test_expressions_are_keys_and_inputs(left: DataFrame) -> None:
    keys = [F.lower("s"), left.pair.p.alias("half"), F.year("day")]
    wanted = [
        F.sum(F.col("a") * 2).alias("twice"),
        F.sum(F.col("a") * 0.5),  # a dot in the name of what is sent
        F.sum("a"),
        F.count("*"),
        F.count(F.lit(None)),
        F.sum(F.lit(3)),
        F.expr("max(d + 1)"),
        F.percentile("a", [0.25, 0.5, 1.0]),
        F.percentile(F.col("d"), 0.9),
        F.collect_list(F.upper("s")).alias("all"),
        F.countDistinct("s", F.col("a") % 3),
    ]
    flow = flow_of(left).groupBy(*keys).agg(*wanted)
    assert_same(flow, left.groupBy(*keys).agg(*wanted))


def test_only_needed_columns_leave_the_source(left: DataFrame) -> None:
    assert "sends: k bigint, a int\n" in explained(flow_of(left).groupBy("k").agg(F.sum("a"), F.max("a")))
    counted = flow_of(left).agg(F.count("*"))
    assert "sends: row boolean" in explained(counted)
    assert counted.toDF().collect()[0][0] == 600


def test_columns_that_nobody_reads_are_not_sent_through_a_chain(left: DataFrame, right: DataFrame) -> None:
    flow = flow_of(left).join(right.withColumnRenamed("name", "S"), "k").orderBy("w").groupBy("day").sum("a")
    text = explained(flow)
    assert "sends: k bigint, a int, day date\n" in text
    assert re.search(r"sends: [^,]* bigint\n", text), "nothing but the key, as it is compared"
    assert_same(flow, left.join(right, "k").groupBy("day").sum("a"))
    unread = (
        flow_of(left)
        .union(left)
        .union(
            flow_of(left)
            .join(right.select("k"), "k", "semi")
            .join(right.select("k"), "k", "left")
            .select(*left.columns)
            .repartition("s")
            .mapInArrow(lambda rows: rows, left.schema)
        )
        .agg(F.max("d"))
    )
    assert rows(unread.toDF()) == rows(left.agg(F.max("d")))


def test_global_aggregates_give_one_row_even_of_nothing(left: DataFrame) -> None:
    wanted = [F.count("*"), F.sum("a"), F.max("s"), F.collect_list("k")]
    nothing = left.where("a < 0")
    assert_same(flow_of(left, workers=5).agg(*wanted), left.agg(*wanted))
    assert_same(flow_of(nothing, workers=5).agg(*wanted), nothing.agg(*wanted))


def test_a_global_aggregate_behind_a_join(left: DataFrame, right: DataFrame) -> None:
    assert_same(flow_of(left).join(right, "k").groupBy().sum("w"), left.join(right, "k").groupBy().sum("w"))


class Longest:
    """The longest texts of a group; its state is a list."""

    state_type = pa.list_(pa.string())
    output_type = pa.list_(pa.string())

    def init(self) -> list[str]:
        return []

    def update(self, state: list[str], rows: pa.RecordBatch) -> list[str]:
        texts = rows.column("s").to_pylist()
        marks = rows.column("mark").to_pylist()
        return self.merge(state, [f"{text}{mark}" for text, mark in zip(texts, marks, strict=True)])

    def merge(self, state: list[str], other: list[str]) -> list[str]:
        return sorted({*state, *other}, key=lambda text: (-len(text), text))[:2]

    def finish(self, state: list[str]) -> list[str]:
        return state


def test_a_users_own_aggregate_stands_beside_pysparks(left: DataFrame) -> None:
    own = reshape.aggregate(Longest(), "s", F.col("a").cast("string").alias("mark"))
    # The key has the name of a column that the aggregate reads. Spark does not take it beside functions of its own.
    flow = flow_of(left).groupBy(F.lower("s").alias("s")).agg(F.count("*"), own.alias("two"), F.max("a"))
    assert flow.columns == ["s", "count(1)", "two", "max(a)"]
    marked = F.concat("s", "a")
    best = F.slice(F.sort_array(F.collect_list(F.struct(-F.length(marked), marked.alias("t")))), 1, 2)["t"]
    want = left.groupBy(F.lower("s").alias("s")).agg(F.count("*"), best.alias("two"), F.max("a"))
    assert rows(flow.toDF()) == rows(want)
    alone = left.groupBy("k").agg(own)
    assert alone.columns == ["k", "Longest(s, cast(a as string))"]
    assert rows(reshape.flow(alone).toDF()) == rows(alone)


def test_a_sort_by_expressions_shows_no_helper_columns(left: DataFrame) -> None:
    order = [F.length(F.concat("s", "a")).desc(), (F.col("k") % 3).asc_nulls_last(), F.col("a").desc()]
    flow = flow_of(left, workers=5).orderBy(*order)
    want = left.orderBy(*order)
    assert flow.toDF().columns == want.columns
    assert [row["a"] for row in flow.toDF().collect()] == [row["a"] for row in want.collect()]


def typed(spark: SparkSession, suffix: str, *types: str) -> DataFrame:
    values = ["id % 13", "id % 7", "id % 11", "date_add(date'2024-03-28', cast(id % 6 AS int))", "id % 17"]
    columns = [
        f"cast({v} AS {t}) AS {n}{suffix}" for n, v, t in zip(["i", "j", "m", "day", "t"], values, types, strict=True)
    ]
    return spark.range(0, 700, 1, 2).selectExpr(*columns, f"id AS id{suffix}")


def test_keys_of_differing_types_meet_as_in_spark(spark: SparkSession) -> None:
    mine = typed(spark, "", "int", "int", "decimal(12, 2)", "date", "string")
    theirs = typed(spark, "2", "long", "double", "int", "timestamp", "int")
    names = ["i", "j", "m", "day", "t"]
    condition = [mine[name] == theirs[f"{name}2"] for name in names]
    assert_same(flow_of(mine).join(theirs, condition), mine.join(theirs, condition))
    # By name the result has one key column, of the type that holds both sides.
    other = theirs.selectExpr("i2 AS i", "j2 AS j", "m2 AS m", "day2 AS day", "t2 AS t", "id2").where("id2 % 3 = 0")
    assert_same(flow_of(mine).join(other, names, "full"), mine.join(other, names, "full"))


def test_keys_behind_an_operator_are_cast_where_that_is_exact(spark: SparkSession, left: DataFrame) -> None:
    grouped, summed = flow_of(left).groupBy("a", "m").count(), left.groupBy("a", "m").count()
    other = spark.range(0, 400, 3).selectExpr("id / 2 AS half", "cast(id % 9 AS decimal(20, 3)) AS dec", "id AS w")
    flow = grouped.join(other, [grouped.a == other.half, grouped.m == other.dec], "left")
    assert_same(flow, summed.join(other, [summed.a == other.half, summed.m == other.dec], "left"))


def marked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.set_column(1, "n", pa.array([-n for n in batch.column("n").to_pylist()], pa.int64()))


def test_unions_of_sources_and_operators(spark: SparkSession, left: DataFrame) -> None:
    counted = flow_of(left).groupBy("k").agg(F.count("*").alias("n"))
    want = left.groupBy("k").agg(F.count("*").alias("n"))
    narrow = spark.range(0, 50, 1, 2).selectExpr("cast(id % 7 AS int) AS x", "cast(id AS smallint) AS y")
    # The source widens in Spark, the function sees the rows of both sides under the left one's names.
    assert_same(
        counted.union(narrow).mapInArrow(marked, "k long, n long"),
        want.union(narrow).selectExpr("k", "-n AS n").mapInArrow(lambda rows: rows, "k long, n long"),
    )
    other = flow_of(narrow).groupBy("x").agg(F.max("y").alias("m"))
    most = want.union(narrow.groupBy("x").agg(F.max("y").alias("m"))).groupBy("k").agg(F.max("n"))
    assert_same(counted.union(other).groupBy("k").agg(F.max("n")), most)
    both = flow_of(left.select("a")).union(narrow.select("y")).groupBy(F.col("a") % 4).count()
    assert_same(both, left.select("a").union(narrow.select("y")).groupBy(F.col("a") % 4).count())


@pytest.mark.parametrize("kind", ["intersect", "subtract"])
def test_set_operations_widen_as_spark_does(spark: SparkSession, left: DataFrame, kind: str) -> None:
    mine = left.selectExpr("a % 50 AS a", "cast(k AS int) AS k")
    theirs = spark.range(0, 300).selectExpr("id % 40 AS x", "cast(id % 30 AS double) AS y")
    assert_same(getattr(flow_of(mine), kind)(theirs), getattr(mine, kind)(theirs))


def test_timestamps_pass_through_whatever_the_zone_is(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    times = session.range(0, 90, 1, 2).selectExpr(
        "timestamp_seconds(1711000000 + id % 7 * 3600) AS t", "cast(timestamp_seconds(id % 5) AS timestamp_ntz) AS n"
    )
    assert_same(flow_of(times).groupBy("t", "n").count(), times.groupBy("t", "n").count())


def test_explain_tells_the_plan_and_runs_nothing(
    spark: SparkSession, left: DataFrame, right: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = flow_of(left, name="sales", hosts=2, workers=3).join(right, "k").mapInArrow(marked, "k long, n long")
    flow = flow.groupBy("k").agg(F.sum("n").alias("n"), reshape.aggregate(Longest(), "n").alias("z")).orderBy("n")
    group = "reshape-explain-test"
    spark.sparkContext.setJobGroup(group, "explain")
    flow.explain()
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == []
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    text = capsys.readouterr().out
    for part in (
        "flow 'sales': 2 hosts (Spark tasks of one barrier stage), 3 workers of each operator",
        "host 0: worker 0, host 1: workers 1-2",
        # Names that another column of the query has got already have a number behind them.
        "sort (operator 2)\n  order: n'2 asc nulls first",
        "+- group by (operator 1)\n     keys: k'3 bigint\n     aggregates: sum(n) AS n'2, Longest(n) AS z",
        "   +- inner join (operator 0)\n        keys: k bigint = CAST(k AS BIGINT) bigint",
        "then the user's function marked",
        "+- right, kept in memory: source 1",
        'Spark job: "reshape sales: source 1 for inner join (operator 0)"',
        "+- left, streams past it: source 0",
    ):
        assert part in text, f"{part!r} is not in\n{text}"


def test_a_setting_of_the_session_holds_where_the_flow_has_none(spark: SparkSession, left: DataFrame) -> None:
    session = spark.newSession()
    session.conf.set("spark.reshape.workers", "5")
    session.conf.set("spark.reshape.queueMemory", "8m")
    flow = flow_of(session.range(9)).groupBy("id").count()
    assert "5 workers of each operator" in explained(flow)
    assert "queues: 8 MiB a host, then disk" in explained(flow)
    assert "7 workers" in explained(flow.options(workers=7))
    assert "7 workers" in explained(reshape.flow(session.range(9), workers=7).groupBy("id").count())
    assert "5 workers" in explained(flow.options(workers=7).options(workers=None))
    one, other = flow_of(left, workers=3, spill=False), flow_of(left, workers=6, name="other")
    met = explained(one.join(other.groupBy("k").count(), "k"))
    assert "flow 'other'" in met
    assert "3 workers" in met
    assert "then senders wait" in met


def test_names_that_pyspark_finds_hard(spark: SparkSession, left: DataFrame, right: DataFrame) -> None:
    odd = left.selectExpr("k", "a AS `a.b`", "s AS `c``d`", "d", "d")
    got = flow_of(odd.drop("d")).join(right.select("k"), "k", "semi").groupBy("`a.b`").agg(F.max("`c``d`"))
    assert_same(got, odd.drop("d").join(right.select("k"), "k", "semi").groupBy("`a.b`").agg(F.max("`c``d`")))


def test_a_flow_without_operators_is_its_dataframe(left: DataFrame) -> None:
    flow = flow_of(left)
    assert flow.toDF() is left
    assert flow.options(workers=3).toDF() is left


def test_all_connections_of_a_flow_can_be_encrypted(left: DataFrame, right: DataFrame, tmp_path: Path) -> None:
    made = certificate_for("flows")
    tls: dict[str, Any] = {"tls_name": "flows"}
    for part in ("certificate", "key", "authority"):
        file = tls[f"tls_{part}"] = tmp_path / f"{part}.pem"
        file.write_text(getattr(made, part))
    flow = flow_of(left, hosts=2, **tls).join(right, "k").groupBy("name").count()
    assert "connections: TLS" in explained(flow)
    df = flow.toDF()
    assert rows(df) == rows(left.join(right, "k").groupBy("name").count())


def test_keys_can_be_made_for_a_flow(spark: SparkSession) -> None:
    wide = spark.range(0, 4_000, 1, 3).selectExpr("id % 70 AS k", "repeat(concat('text ', id), 40) AS t")
    few = spark.range(0, 60, 1, 2).selectExpr("id % 50 AS k", "id AS w")
    # A memory of this size holds no batch, so rows go to disk.
    options: dict[str, Any] = {"encrypt": True, "queue_bytes": "8k", "ports": "42000-42999"}
    flow = flow_of(wide, hosts=2, **options).join(few, "k").groupBy("w").agg(F.max("t"))
    assert "then disk, encrypted" in explained(flow)
    assert "connections: TLS" in explained(flow)
    assert rows(flow.toDF()) == rows(wide.join(few, "k").groupBy("w").agg(F.max("t")))
    assert session_settings(spark)["spark.driver.bindAddress"] == "127.0.0.1", "those of the application are seen too"
