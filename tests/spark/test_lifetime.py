"""How long the driver keeps a flow: as long as anything can run it, and not more of it than that needs."""

from __future__ import annotations

import gc

import pytest
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.driver import launch
from reshape.driver.attempts import Attempts
from reshape.driver.service import DriverService
from reshape.exchange.addresses import AS_NEEDED


def joined(spark: SparkSession) -> DataFrame:
    rows = spark.range(0, 1000, 1, 2).selectExpr("id % 10 AS k", "id AS v")
    return reshape.flow(rows, hosts=1, joins="all").join(spark.range(10).selectExpr("id AS k", "id AS w"), "k").toDF()


def service(spark: SparkSession) -> DriverService:
    """The one of flows without TLS; other tests of this session may have used it."""
    return launch._SERVICES[spark.sparkContext][None, AS_NEEDED]


def collect_garbage(spark: SparkSession) -> None:
    gc.collect()
    assert spark._jvm is not None
    spark._jvm.java.lang.System.gc()


def test_a_dataframe_made_of_the_result_outlives_it(spark: SparkSession) -> None:
    derived = joined(spark).select("v").where("v < 500")
    collect_garbage(spark)
    service(spark).drop_unneeded()
    assert derived.count() == 500
    assert [row["v"] for row in derived.orderBy("v").take(2)] == [0, 1]


def test_runs_that_are_over_are_forgotten_and_so_is_a_flow_that_nobody_can_run(spark: SparkSession) -> None:
    df = joined(spark)
    name, flow = list(service(spark)._flows.items())[-1]
    assert [df.count() for _ in range(3)] == [1000] * 3
    assert isinstance(flow, Attempts)
    assert list(flow._executions) == [3]
    del df
    for _ in range(20):  # the JVM lets go when it likes
        collect_garbage(spark)
        service(spark).drop_unneeded()
        if name not in service(spark)._flows:
            return
    pytest.fail("a flow that nobody can run is still registered")
