"""W1 to W4 (§7.1) and the workflow of Figure 1: each as a flow, and as the same query in plain Spark.

Sizes default to what two cores do in seconds; the paper's are 180 million tweets (W1), 100 to 200 GB (W2), 50 to 200 GB
(W3) and 80 million rows (W4). ``settings`` are those of :func:`reshape.read`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reshape import read
from reshape.datasets import synthetic_tables, tpc_tables, tweet_tables
from reshape.datasets.tpc_tables import Directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reshape.flows import Flow


@dataclass(frozen=True, slots=True)
class Workload:
    """A workflow of the paper. ``ordered_by`` names the column that a sort orders the result by."""

    name: str
    flow: Flow
    plain: DataFrame
    ordered_by: str | None = None


def w1(
    spark: SparkSession,
    tweets: int = 4_000_000,
    *,
    keyword: str = "covid",
    partitions: int = 8,
    seed: int = 1,
    skewed: bool = True,
    **settings: Any,
) -> Workload:
    """Tweets with a keyword, joined with the top slang words of their location. One tweet of four has the keyword."""
    found = tweet_tables.tweets(spark, tweets, partitions=partitions, seed=seed, skewed=skewed)
    found = found.where(found.text.contains(keyword))
    slang = tweet_tables.slang(spark)
    flow = read(found, **{"name": "W1", **settings}).join(slang, "location")
    return Workload("W1", flow, found.join(slang, "location"))


def w2(
    spark: SparkSession, directory: Directory, scale: float = 1.0, *, seed: int = 1, year: int = 2001, **settings: Any
) -> Workload:
    """Web sales of a year by customers born in June or later, counted per category of item (after TPC-DS query 18).

    ``directory`` keeps the generated tables.
    """
    sales = tpc_tables.web_sales(spark, directory, scale, seed=seed).select(
        "ws_sold_date_sk", "ws_item_sk", "ws_bill_customer_sk"
    )
    days = tpc_tables.date_dim(spark, directory, scale).where(f"d_year = {year}").select("d_date_sk")
    items = tpc_tables.item(spark, directory, scale).select("i_item_sk", "i_category")
    customers = tpc_tables.customer(spark, directory, scale).where("c_birth_month >= 6").select("c_customer_sk")
    flow = (
        read(sales, **{"name": "W2", **settings})
        .join(days, [("ws_sold_date_sk", "d_date_sk")])
        .join(items, [("ws_item_sk", "i_item_sk")])
        .join(customers, [("ws_bill_customer_sk", "c_customer_sk")])
        .groupBy("i_category")
        .count()
    )
    plain = (
        sales.join(days, sales.ws_sold_date_sk == days.d_date_sk)
        .join(items, sales.ws_item_sk == items.i_item_sk)
        .join(customers, sales.ws_bill_customer_sk == customers.c_customer_sk)
        .groupBy("i_category")
        .count()
    )
    return Workload("W2", flow, plain)


def w3(
    spark: SparkSession, directory: Directory, scale: float = 1.0, *, status: str = "F", **settings: Any
) -> Workload:
    """TPC-H orders of one status by total price. ``directory`` keeps the generated table."""
    orders = tpc_tables.orders(spark, directory, scale).where(f"o_orderstatus = '{status}'")
    flow = read(orders, **{"name": "W3", **settings}).orderBy("o_totalprice")
    return Workload("W3", flow, orders.orderBy("o_totalprice"), ordered_by="o_totalprice")


def w4(
    spark: SparkSession,
    rows: int = 400_000,
    *,
    even_rows: int = 4_200,
    partitions: int = 2,
    seed: int = 1,
    **settings: Any,
) -> Workload:
    """Two synthetic tables joined on their key; the larger one's distribution changes after a quarter (§7.8).

    As in the paper a key has 100 rows in the smaller table, so the result has 100 times the rows of the larger one.
    """
    changing = synthetic_tables.changing_table(spark, rows, partitions=partitions, seed=seed)
    even = synthetic_tables.even_table(spark, even_rows)
    flow = read(changing, **{"name": "W4", **settings}).join(even, "key")
    return Workload("W4", flow, changing.join(even, "key"))


def covid_months(
    spark: SparkSession, tweets: int = 2_000_000, *, partitions: int = 8, seed: int = 1, **settings: Any
) -> Workload:
    """Figure 1: tweets on Covid per month beside the cases of that month."""
    from pyspark.sql import functions as F  # noqa: N812

    found = tweet_tables.covid_tweets(spark, tweets, partitions=partitions, seed=seed)
    cases = tweet_tables.covid_cases(spark)
    shown = [F.count("*").alias("tweets"), F.max("cases").alias("cases")]
    flow = read(found, **{"name": "covid months", **settings}).join(cases, "month").groupBy("month").agg(*shown)
    return Workload("covid months", flow, found.join(cases, "month").groupBy("month").agg(*shown))
