"""Questions as DataFrame code, over the tables of both benchmarks. All were written for this suite."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from .query import Query

QUERIES: list[Query] = []
Build = Callable[[SparkSession], DataFrame]


def query(*, ordered: bool = False) -> Callable[[Build], Build]:
    """Enter a function into the list, by its name."""

    def entered(build: Build) -> Build:
        QUERIES.append(Query(f"f_{build.__name__}", build, inspect.getsource(build), ordered))
        return build

    return entered


@query()
def join_using_a_name(spark: SparkSession) -> DataFrame:
    orders = spark.table("orders").select(F.col("o_custkey").alias("customer"), "o_totalprice")
    names = spark.table("customer").select(F.col("c_custkey").alias("customer"), "c_name", "c_mktsegment")
    return orders.join(names, "customer", "left").withColumn("large", F.col("o_totalprice") > 150_000)


@query()
def semi_and_anti(spark: SparkSession) -> DataFrame:
    sales, returns, web = (spark.table(name) for name in ("store_sales", "store_returns", "web_sales"))
    back = sales.join(returns, sales.ss_ticket_number == returns.sr_ticket_number, "left_semi")
    not_online = back.join(web, back.ss_customer_sk == web.ws_bill_customer_sk, "left_anti")
    return not_online.groupBy("ss_item_sk").agg(F.count("*").alias("lines"), F.sum("ss_net_paid").alias("paid"))


@query()
def pivoted(spark: SparkSession) -> DataFrame:
    lines = spark.table("lineitem").withColumn("year", F.year("l_shipdate"))
    return lines.groupBy("l_shipmode").pivot("year", [1994, 1995, 1996]).agg(F.sum("l_quantity"))


@query()
def cube_with_filters(spark: SparkSession) -> DataFrame:
    orders = spark.table("orders").where("o_totalprice > 1000")
    return (
        orders.cube("o_orderstatus", "o_orderpriority")
        .agg(F.count("*").alias("orders"), F.avg("o_totalprice").alias("price"))
        .where("orders > 5")
    )


@query()
def rollup_of_dates(spark: SparkSession) -> DataFrame:
    sales = spark.table("web_sales").join(spark.table("date_dim"), F.col("ws_sold_date_sk") == F.col("d_date_sk"))
    return sales.rollup("d_year", "d_moy").agg(F.sum("ws_net_paid").alias("paid"), F.grouping_id().alias("level"))


@query(ordered=True)
def sorted_and_limited(spark: SparkSession) -> DataFrame:
    parts = spark.table("part").join(spark.table("partsupp"), F.col("p_partkey") == F.col("ps_partkey"))
    chosen = parts.select("p_name", "ps_suppkey", "ps_supplycost", "ps_partkey", "ps_availqty")
    return chosen.orderBy(F.desc("ps_supplycost"), "ps_partkey", "ps_availqty").limit(30)


@query(ordered=True)
def sorted_wholly(spark: SparkSession) -> DataFrame:
    orders = spark.table("orders").select("o_orderkey", "o_custkey", "o_orderdate", "o_comment")
    return orders.orderBy(F.col("o_custkey").desc_nulls_first(), F.col("o_orderdate"), "o_orderkey")


@query()
def window_over_groups(spark: SparkSession) -> DataFrame:
    by_nation = Window.partitionBy("c_nationkey")
    customers = spark.table("customer").withColumn("richest", F.max("c_acctbal").over(by_nation))
    placed = customers.withColumn("place", F.rank().over(by_nation.orderBy(F.desc("c_acctbal"))))
    return placed.where("place <= 2").select("c_nationkey", "c_custkey", "c_acctbal", "richest", "place")


@query()
def sessions_of_customers(spark: SparkSession) -> DataFrame:
    of_customer = Window.partitionBy("o_custkey").orderBy("o_orderdate", "o_orderkey")
    gap = F.datediff("o_orderdate", F.lag("o_orderdate").over(of_customer))
    starts = spark.table("orders").withColumn("starts", F.when(gap.isNull() | (gap > 120), 1).otherwise(0))
    numbered = starts.withColumn("session", F.sum("starts").over(of_customer))
    return numbered.groupBy("o_custkey", "session").agg(F.count("*").alias("orders"), F.min("o_orderdate").alias("at"))


@query()
def union_by_name(spark: SparkSession) -> DataFrame:
    web = spark.table("web_sales").select(F.col("ws_item_sk").alias("item"), F.col("ws_quantity").alias("quantity"))
    store = spark.table("store_sales").select(
        F.col("ss_quantity").alias("quantity"), F.col("ss_item_sk").alias("item"), F.col("ss_store_sk").alias("store")
    )
    both = store.unionByName(web, allowMissingColumns=True)
    return both.groupBy("item", "store").agg(F.sum("quantity").alias("quantity")).na.fill(-1, ["store"])


@query()
def distinct_pairs(spark: SparkSession) -> DataFrame:
    pairs = spark.table("catalog_sales").select("cs_item_sk", "cs_bill_customer_sk").distinct()
    return pairs.groupBy("cs_item_sk").count().withColumnRenamed("count", "customers").where("customers > 1")


@query()
def without_duplicates(spark: SparkSession) -> DataFrame:
    sales = spark.table("store_sales").select("ss_customer_sk", "ss_store_sk", "ss_promo_sk")
    return sales.dropDuplicates().exceptAll(sales.where("ss_promo_sk > 1").dropDuplicates())


@query()
def one_frame_twice(spark: SparkSession) -> DataFrame:
    spent = spark.table("orders").groupBy("o_custkey").agg(F.sum("o_totalprice").alias("spent"))
    other = spent.select(F.col("o_custkey").alias("other"), F.col("spent").alias("other_spent"))
    near = (F.col("o_custkey") == F.col("other") + 1) & (F.col("spent") > F.col("other_spent"))
    return spent.join(other, near)


@query()
def lists_of_modes(spark: SparkSession) -> DataFrame:
    lines = spark.table("lineitem")
    lists = lines.groupBy("l_suppkey").agg(
        F.sort_array(F.collect_set("l_shipmode")).alias("modes"), F.countDistinct("l_orderkey").alias("orders")
    )
    return lists.select("l_suppkey", "orders", F.explode("modes").alias("mode"))


@query()
def broadcast_by_hint(spark: SparkSession) -> DataFrame:
    sales, items = spark.table("store_sales"), spark.table("item")
    joined = sales.join(F.broadcast(items), sales.ss_item_sk == items.i_item_sk)
    return joined.groupBy("i_class").agg(
        F.max("ss_sales_price").alias("dearest"), (F.sum("ss_quantity") * 2).alias("twice")
    )


@query()
def expressions_everywhere(spark: SparkSession) -> DataFrame:
    orders = spark.table("orders").withColumn("month", F.date_format("o_orderdate", "yyyy-MM"))
    grouped = orders.groupBy(F.substring("o_clerk", 14, 2).alias("clerk"), "month").agg(
        (F.sum("o_totalprice") / F.count("*")).cast("decimal(20, 4)").alias("mean"),
        F.count_distinct(F.lower("o_orderpriority")).alias("priorities"),
    )
    return grouped.withColumn("label", F.concat_ws(" in ", "clerk", "month")).drop("clerk")


@query()
def function_for_each_group(spark: SparkSession) -> DataFrame:
    def spread(rows: pd.DataFrame) -> pd.DataFrame:
        prices = rows["price"]
        return pd.DataFrame({"brand": rows["brand"].iloc[:1], "lines": [len(rows)], "most": [prices.max()]})

    parts = spark.table("part").selectExpr("p_brand AS brand", "cast(p_retailprice AS double) AS price")
    return parts.groupBy("brand").applyInPandas(spread, "brand string, lines long, most double")


@query()
def keys_of_two_types(spark: SparkSession) -> DataFrame:
    lines = spark.table("lineitem").selectExpr("cast(l_suppkey AS string) AS supplier", "l_quantity")
    suppliers = spark.table("supplier").selectExpr("s_suppkey AS number", "s_name")
    joined = lines.join(suppliers, F.col("supplier") == F.col("number"), "full")
    return joined.groupBy("s_name", "supplier").agg(F.sum("l_quantity").alias("quantity"))
