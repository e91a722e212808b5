"""Aggregates of every family give what Spark gives, on columns of many types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import pandas_udf

import reshape

# Nulls in every column, a hot key, a group of a single row (1000) and one with nothing but nulls (1001).
COLUMNS = """
  CASE WHEN id = 5 THEN 1000 WHEN id % 97 = 0 THEN 1001 WHEN id % 3 = 0 THEN 7 ELSE id % 5 END AS k,
  if(id % 97 = 0, NULL, id * 7919 % 1009 - 300) AS v,
  if(id % 97 = 0 OR id % 11 = 0, NULL, int(id * 31 % 53)) AS i,
  if(id % 97 = 0, NULL, smallint(id % 7 - 3)) AS h,
  if(id % 97 = 0, NULL, tinyint(id % 5)) AS y,
  CASE WHEN id % 97 = 0 THEN NULL WHEN id % 5 = 4 AND id % 89 = 1 THEN double('NaN') WHEN id % 19 = 0 THEN -0.0D
       ELSE (id * 613 % 811) / 8 END AS d,
  if(id % 97 = 0, NULL, float(id % 23 / 4)) AS f,
  if(id % 97 = 0 OR id % 13 = 0, NULL, concat('wörd-', id % 29, repeat('x', int(id % 70)))) AS s,
  if(id % 97 = 0, NULL, encode(concat(id % 17), 'utf-8')) AS z,
  if(id % 97 = 0 OR id % 8 = 0, NULL, id % 4 < 2) AS b,
  if(id % 97 = 0, NULL, decimal(id % 211 - 50) / 4) AS c,
  if(id % 97 = 0, NULL, cast(id * 123456789012345 % 1000000007 AS decimal(30, 5))) AS w,
  if(id % 97 = 0, NULL, date_add(date'2024-02-20', int(id % 31))) AS t,
  if(id % 97 = 0, NULL, timestamp_seconds(id * 977 % 100000)) AS m,
  id AS u
"""


@pytest.fixture(scope="module")
def data(spark: SparkSession) -> DataFrame:
    return spark.range(0, 3000, 1, 4).selectExpr(*_split(COLUMNS)).cache()


def _split(columns: str) -> list[str]:
    """The lines, those that go on put together."""
    found: list[str] = []
    for line in columns.strip().splitlines():
        if line.startswith("       "):
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return [line.removesuffix(",") for line in found]


def compared(data: DataFrame, calls: Sequence[str], key: str | None = "k") -> None:
    """One flow with all of these calls beside Spark's own answer."""
    wanted = [F.expr(call).alias(call) for call in calls]
    keys = [] if key is None else [key]
    want = data.groupBy(*keys).agg(*wanted)
    flow = reshape.flow(want)
    assert [placement.where for placement in flow.placements][-1] == "reshape", flow.placements
    got = flow.toDF()
    assert [(field.name, field.dataType, field.nullable) for field in got.schema][len(keys) :] == [
        (field.name, field.dataType, field.nullable) for field in want.schema
    ][len(keys) :]
    found = {row[0] if keys else None: row for row in got.collect()}
    for row in want.collect():
        other = found.pop(row[0] if keys else None)
        for place, (here, there) in enumerate(zip(other, row, strict=True)):
            assert same(here, there, calls[place - len(keys)]), f"{want.columns[place]} of {row[0]}: {here} != {there}"
    assert not found


def same(a: Any, b: Any, call: str) -> bool:
    """Equal up to the rounding of sums in another order; what is collected in no order may have any."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(a, list) and isinstance(b, list):
        if call.startswith(("collect", "array_agg")):
            a, b = sorted(a, key=repr), sorted(b, key=repr)
        return len(a) == len(b) and all(same(x, y, call) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def test_sets_and_distinct_values(data: DataFrame) -> None:
    sets = [f"collect_set({column})" for column in "hdfszbwm"]
    nulls = ["collect_list(v) respect nulls", "collect_set(i) respect nulls", "count(v, i)"]
    names = ("sum", "avg", "stddev", "count", "collect_list")
    compared(data, [*sets, *nulls, *(f"{name}(distinct d)" for name in names)])
    compared(data, ["sum(distinct w)", "avg(distinct w)", "count(distinct v, i)", "sum(distinct i) filter (where b)"])


def test_rows_that_are_chosen(data: DataFrame) -> None:
    # What they are chosen by is different in all rows of a group, or the same as what is chosen.
    by_unique = [f"max_by({column}, u)" for column in "vszb"]
    by_itself = [f"min_by({column}, {column})" for column in "hdfszbwm"]
    several = ["max_by(v, u, 3)", "min_by(s, struct(k, u), 1000)", "max_by(i, struct(b, u))", "max(struct(b, s, u))"]
    modes = [f"mode({column}, true)" for column in "hdsbw"] + ["mode() within group (order by i desc)"]
    bits = ["bit_and(v)", "bit_or(i)", "bit_xor(h)", "bit_or(y)"]
    logic = ["bool_and(b)", "every(b)", "bool_or(b)", "some(b)", "count_if(b)"]
    compared(data, [*by_unique, *by_itself, *several, *modes, *bits, *logic])


def test_any_row_will_do(data: DataFrame) -> None:
    """All values of a group are the same, or null: what is met first is not promised, but nulls are ignored."""
    named = data.selectExpr("k", "if(u % 2 = 0, NULL, concat('g', k)) AS s", "concat('g', k) AS n")
    compared(
        named,
        [
            *("first(n)", "last(n)", "any_value(n)", "first_value(n)", "last_value(n)"),
            *("first(s, true)", "last(s, true)", "any_value(s, true)", "first(s) ignore nulls", "mode(s)"),
        ],
    )


def test_moments(data: DataFrame) -> None:
    singles = [f"{name}({column})" for name in ("skewness", "kurtosis", "variance") for column in "vdw"]
    pairs = ["corr", "covar_pop", "covar_samp"]
    regressions = [
        f"regr_{name}" for name in ["count", "r2", "slope", "intercept", "sxx", "sxy", "syy", "avgx", "avgy"]
    ]
    doubles = [f"{name}({one}, {other})" for name in pairs + regressions for one, other in ("di", "cw")]
    constant = ["corr(v, 0.1d)", "regr_r2(v, 0.1d)", "regr_r2(0.1d, v)", "skewness(0.1d)", "kurtosis(k)"]
    compared(data, [*singles, *doubles, *constant])


def test_percentiles(data: DataFrame) -> None:
    shares = "array(0.0, 0.1, 0.25, 0.5, 0.999, 1.0)"
    exact = [f"percentile({column}, {shares})" for column in "vdw"]
    ways = [(name, way) for name in ("cont", "disc") for way in ("", " desc")]
    ordered = [f"percentile_{name}({shares}) within group (order by v{way})" for name, way in ways]
    weighed = [f"percentile(d, {shares}, y)", "percentile(v, 0.3, h * h)", "percentile(v, array())"]
    near = [f"percentile_approx({column}, {shares})" for column in "vhdfcwtm"]
    more = ["approx_percentile(v, 0.5, 2000)", "percentile_approx(t, 0.5d)"]
    compared(data, [*exact, *ordered, *weighed, *near, *more])


def test_texts(data: DataFrame) -> None:
    compared(
        data,
        [
            "listagg(s, ', ') within group (order by u)",
            "string_agg(s) within group (order by i desc nulls first, u)",
            "listagg(z, X'2D2D') within group (order by d, u desc)",
            "sum(v) filter (where b)",
            "count(*) filter (where v > 3)",
            "max_by(v, u) filter (where s like 'w%1%')",
            "listagg(s) within group (order by u) filter (where not b)",
            "any_value(k) filter (where b)",
        ],
    )
    joined = reshape.flow(data).groupBy("k").agg(F.expr("listagg(s, ',')").alias("s")).toDF().collect()
    pieces = data.groupBy("k").agg(F.collect_list("s").alias("s")).collect()
    assert {row.k: sorted((row.s or "").split(",")) for row in joined} == {
        row.k: sorted(row.s) or [""] for row in pieces
    }


def test_approximate_counts(spark: SparkSession, data: DataFrame) -> None:
    """The same registers, so the same answer, from few values to many more than registers."""
    compared(data, [f"approx_count_distinct({column})" for column in "vhdfszbcwtm"])
    many = spark.range(0, 60_000, 1, 4).selectExpr("int(log2(id + 1)) AS k", "id AS v", "concat('user-', id) AS s")
    compared(many, [f"approx_count_distinct({column}, {share})" for column in "vs" for share in (0.02, 0.05, 0.35)])


def test_all_rows_as_one_group_and_no_rows_at_all(data: DataFrame) -> None:
    calls = [
        *("collect_set(v)", "max_by(v, u)", "mode(y, true)", "bit_xor(v)", "bool_and(b)", "count_if(b)"),
        *("skewness(v)", "corr(v, i)", "regr_r2(v, i)", "percentile_approx(v, 0.5)", "approx_count_distinct(s)"),
        *("sum(distinct h)", "last(u % 1)", "sum(v) filter (where b)", "percentile(v, 0.5, y)", "max_by(v, u, 2)"),
        "listagg(s, ',') within group (order by u)",
    ]
    compared(data, calls, key=None)
    compared(data.where("u < 0"), calls, key=None)


def _spread(key: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
    known = frame["d"].dropna()
    values = {"rows": len(frame), "last": frame["m"].max(), "c": frame["c"].max(), "d": known.sum(), "k": key[0]}
    return pd.DataFrame([values])


def _largest(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
    best = rows.sort_by("u").slice(max(len(rows) - 2, 0))
    return best.select(["u", "t"]).append_column("k", pa.array([key[0].as_py()] * len(best), pa.int64()))


def test_functions_of_groups(data: DataFrame) -> None:
    builds: list[Callable[[Any], Any]] = [
        lambda grouped: grouped.applyInPandas(_spread, "k long, rows long, last timestamp, d double, c decimal(20, 6)"),
        lambda grouped: grouped.applyInArrow(_largest, "u long, t date, k long"),
    ]
    for build in builds:
        got, want = build(reshape.flow(data).groupBy("k")).toDF(), build(data.groupBy("k"))
        assert got.schema == want.schema
        assert sorted(map(repr, got.collect())) == sorted(map(repr, want.collect()))


def _mean_of_product(values: pd.Series, weights: pd.Series) -> float:
    return float((values * weights).mean())


def test_pandas_functions_as_aggregates(data: DataFrame) -> None:
    made: Any = pandas_udf  # its types know no function with hints
    weighed = made(_mean_of_product, "double")
    call = weighed("v", F.col("y") + 1).alias("x")
    got = reshape.flow(data).groupBy("k").agg(call).toDF()
    want = data.groupBy("k").agg(call)
    assert got.schema == want.schema
    found = {row.k: row.x for row in got.collect()}
    for row in want.collect():
        assert same(found.pop(row.k), row.x, "")
    assert not found


def test_functions_of_groups_that_fail(data: DataFrame) -> None:
    with pytest.raises(Exception, match=r"applyInPandas\(.*lambda.*\) failed for a group: KeyError: .*'nothing'"):
        reshape.flow(data).groupBy("k").applyInPandas(lambda frame: frame[["nothing"]], "x long").toDF().collect()
