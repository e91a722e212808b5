"""Windows give what Spark gives: all functions, frames and types, bit for bit."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.flows import Flow

from ..chaos.brain import chaos
from ..chaos.running import REPORT_S, fast_control
from ..chaos.transfers import Doings
from ..operators.samples import VALUES, column

ROWS = 420
NUMBERS = ("int", "short", "byte", "double", "float", "decimal", "price", "long")
FRAMES = (
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS UNBOUNDED PRECEDING",
    "RANGE UNBOUNDED PRECEDING",
    "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 3 FOLLOWING",
    "ROWS BETWEEN 2 FOLLOWING AND 4 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN 3 PRECEDING AND UNBOUNDED FOLLOWING",
)
RANKS = (
    "row_number() {w}, rank() {w}, dense_rank() {w}, percent_rank() {w}, cume_dist() {w}, ntile(4) {w}, ntile(500) {w}"
)

OFFSETS = (
    "lag(v) {w}, lag(v, 2) {w}, lead(v, 3) {w}, lag(v, -1) {w}, lead(v, 0) {w}, lag(v, 2, v) {w}, "
    "lag(v, 1) IGNORE NULLS {w}, lead(v, 2, v) IGNORE NULLS {w}, nth_value(v, 2) {w}, first_value(v) IGNORE NULLS {w}"
)
OF_FRAME = (
    "count(*) {w}, count(v) {w}, min(v) {w}, max(v) {w}, first_value(v) {w}, last_value(v) {w}, "
    "first_value(v) IGNORE NULLS {w}, last_value(v) IGNORE NULLS {w}, nth_value(v, 3) {w}, "
    "nth_value(v, 2) IGNORE NULLS {w}"
)
OF_NUMBERS = "sum(v) {w}, avg(v) {w}, sum(v) FILTER (WHERE id % 3 = 0) {w}"


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    # Queries over some hundred rows with a hundred columns: compiling them would take most of the time.
    for key, value in {"codegen.wholeStage": "false", "adaptive.enabled": "false", "shuffle.partitions": "2"}.items():
        session.conf.set(f"spark.sql.{key}", value)
    session.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    return session


def values(kind: str, rows: int) -> pa.Array:
    rng = np.random.default_rng(11)
    if kind == "price":  # few digits: Spark computes its mean with doubles
        digits = [None if n % 9 == 0 else Decimal(int(n)).scaleb(-2) for n in rng.integers(-999_999, 999_999, rows)]
        return pa.array(digits, pa.decimal128(7, 2))
    if kind == "long":  # whose sums fit
        return pa.array(rng.integers(-(2**50), 2**50, rows), mask=rng.random(rows) < 0.1)
    return column(kind, rows, rng)


def facts(spark: SparkSession, kind: str, rows: int = ROWS) -> DataFrame:
    rng = np.random.default_rng(12)
    data = {
        "k": column("string", rows, rng),
        "o": column("double", rows, rng, hitter=0.2),
        "v": values(kind, rows),
        "id": pa.array(rng.permutation(rows)),
    }
    # Of rows that are part of its plan Spark would compute filters while it plans.
    return spark.createDataFrame(pa.table(data)).repartition(3).localCheckpoint()


def rows(df: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(map(_same, row))) for row in df.collect())


def _same(value: Any) -> Any:
    """NaN is one value, and zeros have no sign."""
    if isinstance(value, float):
        return "NaN" if isnan(value) else value + 0.0
    return value


def flow_of(df: DataFrame, **options: Any) -> Flow:
    flow = reshape.flow(df, hosts=2, workers=3, **options)
    assert {(one.operator, one.where) for one in flow.placements} == {("window", "reshape")}, flow.placements
    return flow


def check(df: DataFrame, **options: Any) -> None:
    got = flow_of(df, **options).toDF()
    assert got.schema == df.schema
    assert rows(got) == rows(df)


def select(view: str, spark: SparkSession, functions: str, *windows: str) -> DataFrame:
    calls = [call.strip() for window in windows for call in _split(functions.format(w=f"OVER ({window})"))]
    named = ", ".join(f"{call} AS c{number}" for number, call in enumerate(calls))
    return spark.sql(f"SELECT *, {named} FROM {view}")


def _split(text: str) -> list[str]:
    """At commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


@pytest.mark.parametrize("kind", [*VALUES, "price"])
def test_every_function_frame_and_type(spark: SparkSession, kind: str) -> None:
    facts(spark, kind).createOrReplaceTempView("t")
    functions, frames = (f"{OF_FRAME}, {OF_NUMBERS}", FRAMES) if kind in NUMBERS else (OF_FRAME, FRAMES[::2])
    check(select("t", spark, functions, *(f"PARTITION BY k ORDER BY o, id {frame}" for frame in frames)))


def test_constants_where_there_is_no_neighbour(spark: SparkSession) -> None:
    facts(spark, "long").createOrReplaceTempView("t")
    constants = {
        "v": "-7",
        "o": "double('NaN')",
        "k": "'nobody: ß'",
        "cast(id AS decimal(9, 2))": "1.25",
        "date'2024-02-29' + int(id)": "date'1969-12-31'",
        "timestamp_seconds(id)": "timestamp'2024-02-29 12:00:00.000001'",
        "id % 2 = 0": "true",
        "cast(k AS binary)": "X'00FF'",
    }
    calls = ", ".join(f"lag({column}, 2, {value}) {{w}}" for column, value in constants.items())
    check(select("t", spark, calls, "PARTITION BY k ORDER BY id"))


@pytest.mark.parametrize("kind", ["long", "string"])
def test_ranks_and_neighbours(spark: SparkSession, kind: str) -> None:
    facts(spark, kind).createOrReplaceTempView("t")
    orders = (
        "PARTITION BY k ORDER BY o DESC NULLS LAST, id",
        "ORDER BY o NULLS LAST, id DESC",
        "PARTITION BY o ORDER BY id",
    )
    for order in orders:
        check(select("t", spark, f"{RANKS}, {OFFSETS}", order))


def test_rows_that_are_equal_in_the_order(spark: SparkSession) -> None:
    """Which of them is first, Spark does not say: only what does not depend on it can be compared."""
    facts(spark, "int").createOrReplaceTempView("t")
    equal = "rank() {w}, dense_rank() {w}, percent_rank() {w}, cume_dist() {w}"
    check(select("t", spark, equal, "PARTITION BY k ORDER BY o", "ORDER BY o DESC"))
    whole = "sum(v) {w}, avg(v) {w}, count(v) {w}, min(v) {w}, max(v) {w}"
    peers = [f"PARTITION BY k ORDER BY o {frame}" for frame in FRAMES if frame.startswith("RANGE")]
    check(select("t", spark, whole, "PARTITION BY k, o", "", *peers))


@pytest.mark.parametrize(
    ("kind", "distances"),
    [
        ("int", ["3 PRECEDING AND 1 FOLLOWING", "UNBOUNDED PRECEDING AND 2 PRECEDING", "5 FOLLOWING AND 9 FOLLOWING"]),
        ("double", ["1.5D PRECEDING AND CURRENT ROW", "CURRENT ROW AND 2.25D FOLLOWING"]),
        ("date", ["3 PRECEDING AND 2 FOLLOWING", "INTERVAL '9' DAY PRECEDING AND CURRENT ROW"]),
        ("timestamp", ["INTERVAL '30' MINUTE PRECEDING AND INTERVAL '45' MINUTE FOLLOWING"]),
    ],
)
def test_distances_of_values(spark: SparkSession, kind: str, distances: list[str]) -> None:
    of_id = {
        "int": "int(id % 50)",
        "double": "IF(id % 7 = 0, double('NaN'), id % 40 / 2)",
        "date": "date'2024-02-20' + int(id % 30)",
        "timestamp": "timestamp_seconds(1710000000 + id % 60 * 600)",
    }[kind]
    facts(spark, "long").selectExpr("k", f"IF(id % 11 = 0, null, {of_id}) AS o", "v", "id").createOrReplaceTempView("t")
    for direction in ("ASC", "DESC NULLS FIRST"):
        windows = [f"PARTITION BY k ORDER BY o {direction} RANGE BETWEEN {distance}" for distance in distances]
        check(select("t", spark, "count(*) {w}, sum(v) {w}, max(v) {w}", *windows))


def test_nothing_one_row_and_one_giant_partition(spark: SparkSession) -> None:
    some = f"{RANKS}, {OFFSETS}, sum(v) {{w}}, avg(v) {{w}}, max(v) {{w}}"
    facts(spark, "double", 3_000).createOrReplaceTempView("t")
    for view in ("(SELECT * FROM t WHERE id < 0)", "(SELECT * FROM t WHERE id = 7)", "t"):
        check(select(view, spark, some, "ORDER BY id"))
    check(spark.sql("SELECT *, count(*) OVER () AS n, max(v) OVER () AS m FROM t"))
    check(spark.sql("SELECT count(*) OVER () AS n FROM t"))


@pytest.mark.parametrize("rows_of_all", [0, 1, 2, 1_500])
def test_workers_have_ranges_of_one_partition(spark: SparkSession, rows_of_all: int) -> None:
    """With functions that go on from range to range, and with some that need their neighbours only; each of them is
    under chaos, and rows leave in the order of the window, as Spark's do."""
    facts(spark, "double", max(rows_of_all, 1)).where(f"id < {rows_of_all}").createOrReplaceTempView("t")
    near = "lag(v) {w}, lead(k, 40, 'none') {w}, row_number() {w}, rank() {w}, percent_rank() {w}, ntile(7) {w}"
    so_far = f"{near}, dense_rank() {{w}}, sum(v) {{w}}, max(v) {{w}}, count(v) {{w}}, nth_value(v, 300) {{w}}"
    for number, functions in enumerate((near, so_far)):
        df = select("t", spark, functions, "ORDER BY o DESC, id")
        with chaos(Doings(720 + number)), fast_control():
            flow = flow_of(df, strategy="chaos", cost_s_per_row=0.0005, report_s=REPORT_S)
            assert "each worker has a range" in flow._explained()
            got = flow.toDF().collect()
        assert [repr(tuple(map(_same, row))) for row in got] == [repr(tuple(map(_same, row))) for row in df.collect()]


@pytest.mark.parametrize("source", ["files", "rows of Spark's"])
@pytest.mark.parametrize("rows_of_all", [0, 1, 1_500])
def test_workers_share_the_partition_of_a_heavy_key(
    spark: SparkSession, tmp_path: Path, rows_of_all: int, source: str
) -> None:
    """Three of them: null, NaN, and zeros of both signs. Orders have all of these too, and many peers."""
    heavy = "IF(id % 20 = 0, double(id % 50), CASE id % 3 WHEN 0 THEN null WHEN 1 THEN double('NaN') ELSE z END)"
    zeros = facts(spark, "double", max(rows_of_all, 1)).where(f"id < {rows_of_all}")
    t = zeros.selectExpr("*", "IF(id % 2 = 0, 0.0D, -0.0D) AS z").selectExpr(f"{heavy} AS g", "k", "o", "v", "id")
    if source == "files":
        t.write.parquet(f"{tmp_path}/t")
        t = spark.read.parquet(f"{tmp_path}/t")
    t.createOrReplaceTempView("t")
    near = "lag(v) {w}, lead(k, 40, 'none') {w}, row_number() {w}, rank() {w}, percent_rank() {w}, ntile(7) {w}"
    so_far = f"{near}, dense_rank() {{w}}, sum(v) {{w}}, max(v) {{w}}, count(v) {{w}}, nth_value(v, 300) {{w}}"
    by_peers = "rank() {w}, dense_rank() {w}, cume_dist() {w}, count(v) {w}, max(v) {w}"
    windows = {
        "PARTITION BY g ORDER BY o DESC NULLS LAST, id": near,
        "PARTITION BY g ORDER BY o, id DESC": so_far,
        "PARTITION BY g, id % 2 ORDER BY o NULLS LAST": by_peers,
    }
    for number, (window, functions) in enumerate(windows.items()):
        df = select("t", spark, functions, window)
        assert "of a heavy key each worker has a range" in flow_of(df)._explained()
        with chaos(Doings(740 + number)), fast_control():
            check(df, strategy="chaos", cost_s_per_row=0.0005, report_s=REPORT_S)


def test_windows_above_and_below_other_operators(spark: SparkSession) -> None:
    facts(spark, "long").createOrReplaceTempView("t")
    query = """
        SELECT k, total, rank() OVER (ORDER BY total DESC, k) AS place,
               total / sum(total) OVER (PARTITION BY k IS NULL) AS share
        FROM (SELECT k, sum(v) AS total FROM (SELECT *, lag(id) OVER (PARTITION BY k ORDER BY id) AS before FROM t)
              WHERE before IS NOT NULL GROUP BY k) WHERE total <> 0"""
    first = """
        SELECT * FROM (SELECT k, sum(v) AS total, rank() OVER (PARTITION BY length(k) ORDER BY sum(v), k) AS place
                       FROM t GROUP BY k) WHERE place <= 2"""
    for df in (spark.sql(query), spark.sql(first)):
        flow = reshape.flow(df, hosts=2, workers=3)
        assert all(one.where == "reshape" for one in flow.placements), flow.placements
        assert rows(flow.toDF()) == rows(df)


def test_what_stays_with_spark_has_a_reason(spark: SparkSession) -> None:
    facts(spark, "long").createOrReplaceTempView("t")

    def reason(call: str) -> str:
        df = spark.sql(f"SELECT *, {call} AS c FROM t")
        (placement,) = reshape.flow(df).placements
        assert placement.where == "spark"
        return placement.reason

    assert "stddev" in reason("stddev(v) OVER (PARTITION BY k ORDER BY id)")
    assert "decimal" in reason(
        "sum(v) OVER (PARTITION BY k ORDER BY decimal(id) RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)"
    )
    assert "timestamp by INTERVAL '2' DAY" in reason(
        "count(*) OVER (ORDER BY timestamp_seconds(id) RANGE BETWEEN CURRENT ROW AND INTERVAL '2' DAY FOLLOWING)"
    )
    top = spark.sql("SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM t) WHERE n < 3")
    (placement,) = reshape.flow(top).placements
    assert "top-n" in placement.reason
    assert rows(reshape.flow(top).toDF()) == rows(top)
    spark.conf.set("spark.sql.window.segmentTree.enabled", "true")
    try:
        moving = "sum(o) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
        assert "segmentTree" in reason(moving)
    finally:
        spark.conf.unset("spark.sql.window.segmentTree.enabled")


@pytest.mark.parametrize("ansi", [True, False])
def test_sums_that_do_not_fit(spark: SparkSession, ansi: bool) -> None:
    spark.range(6).selectExpr(
        "id", "IF(id < 4, 4611686018427387904, -4611686018427387904) AS v"
    ).createOrReplaceTempView("t")
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    spark.table("t").write.mode("overwrite").saveAsTable("overflowing")
    try:
        near = "OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
        check(session.sql(f"SELECT *, try_sum(v) {near} AS c, try_sum(v) OVER (ORDER BY id) AS d FROM overflowing"))
        df = session.sql(f"SELECT *, sum(v) {near} AS c FROM overflowing")
        if not ansi:
            check(df)
            return
        with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
            df.collect()
        with pytest.raises(Exception, match="sum of column 'v' does not fit bigint"):
            flow_of(df).toDF().collect()
    finally:
        spark.sql("DROP TABLE overflowing")


@pytest.mark.parametrize("seed", range(4))
def test_under_chaos(spark: SparkSession, seed: int) -> None:
    """Rows are scattered, and keys handed over and back, while they come."""
    facts(spark, "double", 1_500).createOrReplaceTempView("t")
    some = f"{RANKS}, {OFFSETS}, sum(v) {{w}}, avg(v) {{w}}, max(v) {{w}}"
    window = "ORDER BY id" if seed == 3 else "PARTITION BY k ORDER BY o, id"
    with chaos(Doings(700 + seed)), fast_control():
        check(select("t", spark, some, window), strategy="chaos", cost_s_per_row=0.001, report_s=REPORT_S)


def test_a_giant_partition_is_computed_in_stretches(spark: SparkSession) -> None:
    """More rows than are computed together, some of them with helpers; in one window no two are peers, in one many."""
    giant = "IF(id % 20 = 0, id % 100, 7) AS k"
    price = "IF(id % 9 = 0, null, cast(id % 99991 AS decimal(12, 2))) AS price"
    spark.range(0, 300_000, 1, 3).selectExpr(
        "id", giant, "hash(id) AS o", "sin(id) AS v", price
    ).createOrReplaceTempView("t")
    calls = """
        row_number() {w}, percent_rank() {w}, ntile(1000) {w}, lag(v) {w}, lead(price, 3, 0.5) {w}, sum(v) {w},
        avg(price) {w}, max(v) {w}, first_value(v) {w}, avg(v) {near}, min(price) {near}"""
    with_peers = "rank() {w}, dense_rank() {w}, cume_dist() {w}, sum(price) {w}, count(price) {w}, min(v) {w}"
    near = "OVER (PARTITION BY k ORDER BY o, id ROWS BETWEEN 2 PRECEDING AND 3 FOLLOWING)"
    windows = {
        "PARTITION BY k ORDER BY o, id": calls.replace("{near}", near),
        "PARTITION BY k ORDER BY o % 5000": with_peers,
        "ORDER BY o % 5000": with_peers,
    }
    for window, functions in windows.items():
        df = select("t", spark, functions, window)
        with chaos(Doings(710)), fast_control():
            got = flow_of(df, strategy="chaos", report_s=REPORT_S).toDF()
            assert digest(got) == digest(df)


def digest(df: DataFrame) -> Any:
    """Of all rows, in any order."""
    return df.selectExpr("count(*)", "sum(cast(xxhash64(*) AS decimal(38, 0)))").collect()


def test_partial_results_are_windows_of_rows_so_far(spark: SparkSession) -> None:
    facts(spark, "double", 2_000).createOrReplaceTempView("t")
    df = spark.sql("SELECT *, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM t")
    query = flow_of(df, cost_s_per_row=0.0005).start()
    assert rows(query.result(120)) == rows(df)
    shown = query.shown()
    assert shown is not None
    assert shown.table.num_rows > 0
    assert shown.table.column_names[-1] == "n"
    query.release()
