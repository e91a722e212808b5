"""The surface of flows is PySpark's, name by name."""

from __future__ import annotations

import inspect
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.group_ops import PandasCogroupedOps

import reshape
from reshape.flows import CogroupedFlow, Flow, GroupedFlow
from reshape.surface import ACTIONS, FrameSurface

ROOT = Path(__file__).parents[2]
# What flows define themselves, and why.
OWN = {
    "cache": "the result of the flow is kept, not that of Spark's own query",
    "collect": "it runs the flow without an exchange behind it",
    "count": "it runs the flow without an exchange behind it",
    "explain": "it shows where operators run, and why",
    "mapInArrow": "it can say that a function needs the rows of a key in their order",
    "na": "its methods give flows",
    "persist": "the result of the flow is kept, not that of Spark's own query",
    "stat": "its methods give flows",
    "toArrow": "it runs the flow without an exchange behind it",
    "toDF": "it is the result as a DataFrame, under other names if these are given",
    "toPandas": "it runs the flow without an exchange behind it",
    "transform": "the function gets a flow",
    "unpersist": "it is the counterpart of persist",
    "write": "it runs the flow without an exchange behind it",
}


def public(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("ours", "theirs", "more"),
    [
        (Flow, DataFrame, {"bar", "line", "of", "options", "placements", "start", "tuned"}),
        (GroupedFlow, GroupedData, set()),
        (CogroupedFlow, PandasCogroupedOps, set()),
    ],
)
def test_every_name_is_there(ours: type, theirs: type, more: set[str]) -> None:
    assert public(ours) - public(theirs) == more
    assert public(theirs) - public(ours) == set()
    own = {name for name in public(theirs) if name in vars(ours)}
    assert own == (set(OWN) if ours is Flow else set())
    for name in public(theirs) - own:
        mine, model = inspect.getattr_static(ours, name), inspect.getattr_static(theirs, name)
        assert mine.__doc__ == model.__doc__
        if not isinstance(model, property):
            assert inspect.signature(mine) == inspect.signature(model)


def test_actions_are_named_as_pysparks() -> None:
    assert public(FrameSurface) >= ACTIONS


def test_the_types_are_pysparks() -> None:
    """If not, run scripts/surface.py."""
    spec = spec_from_file_location("surface_script", ROOT / "scripts" / "surface.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    assert script.stub() == script.STUB.read_text()


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    return spark.range(0, 400, 1, 3).selectExpr("id % 7 AS k", "id AS v", "nullif(id % 3, 1) AS n")


@pytest.fixture(scope="module")
def other(spark: SparkSession) -> DataFrame:
    return spark.range(0, 12).selectExpr("id % 9 AS k", "id * 10 AS w")


STEPS: list[Any] = [
    lambda x, o: x.filter("v > 20").groupBy(F.col("k") % 3).agg((F.sum("v") * 2).alias("s")).where("s > 5"),
    lambda x, o: x.join(o, (x.k == o.k) & (x.v > o.w), "left").drop(o.k).withColumn("z", F.col("v") + 1),
    lambda x, o: x.rollup("k", "n").count(),
    lambda x, o: x.groupBy("k").pivot("n", [0, 2]).sum("v"),
    lambda x, o: x.dropDuplicates(["k", "n"]).select("k", "n"),
    lambda x, o: x.unionByName(o, allowMissingColumns=True).groupBy("k").agg(F.max("w"), F.count("v")),
    lambda x, o: x.fillna(9, ["n"]).na.drop().groupBy("n").count(),
    lambda x, o: x.transform(lambda y: y.exceptAll(o.selectExpr("k", "w", "w AS n"))).groupBy("k").count(),
    lambda x, o: x[["k", "v"]][x.v < 90].cube("k").avg("v"),
    lambda x, o: x.alias("a").join(o.alias("b"), F.col("a.k") == F.col("b.k")).selectExpr("a.k", "b.w").distinct(),
]


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_steps_give_what_they_give_in_spark(df: DataFrame, other: DataFrame, number: int) -> None:
    flow, want = STEPS[number](reshape.flow(df, joins="all"), other), STEPS[number](df, other)
    assert isinstance(flow, Flow)
    assert any(placement.where == "reshape" for placement in flow.placements)
    assert flow.schema == want.schema
    assert sorted(map(repr, flow.collect())) == sorted(map(repr, want.collect()))


def test_flows_meet_flows_and_keep_their_settings(df: DataFrame, other: DataFrame) -> None:
    one, two = reshape.flow(df, workers=5, name="one"), reshape.flow(other, workers=3, hosts=1, joins="all")
    met = one.join(two, "k")
    assert met._choices.options == {"workers": 5, "name": "one", "hosts": 1, "joins": "all"}
    parts = met.randomSplit([1.0, 1.0], seed=1)
    assert [type(part) for part in parts] == [Flow, Flow]
    assert parts[0]._choices == met._choices


def test_nothing_runs_before_an_action(df: DataFrame, spark: SparkSession) -> None:
    flow = reshape.flow(df).groupBy("k").count()
    assert repr(flow) == "Flow[k: bigint, count: bigint]"
    assert flow._planned is None
    assert (flow.columns, flow.dtypes, flow.sparkSession) == (
        ["k", "count"],
        [("k", "bigint"), ("count", "bigint")],
        spark,
    )
    assert isinstance(flow.k, Column)
    assert flow._planned is None


def test_actions_run_the_flow(df: DataFrame, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    flow = reshape.flow(df).groupBy("k").count().orderBy("k")
    want = df.groupBy("k").count().orderBy("k")
    assert flow.take(2) == want.take(2)
    assert flow.first() == want.first()
    assert flow.toDF("a", "b").columns == ["a", "b"]
    flow.show(1)
    assert "|  0|" in capsys.readouterr().out
    flow.createOrReplaceTempView("counted")
    assert "reshape_hosts_of" in str(spark.table("counted")._jdf.queryExecution().optimizedPlan())
    assert spark.sql("SELECT sum(count) FROM counted").collect()[0][0] == 400
    spark.catalog.dropTempView("counted")


def test_a_flow_is_kept_as_a_dataframe_is(df: DataFrame) -> None:
    flow = reshape.flow(df, hosts=1).groupBy("k").count()
    assert flow.cache() is flow
    assert flow.count() == 7
    assert flow.storageLevel.useMemory
    assert flow.placements == ()  # what follows reads what is kept
    assert flow.agg(F.sum("count")).collect()[0][0] == 400
    flow.unpersist()
    assert not flow.storageLevel.useMemory
    assert flow.count() == 7
