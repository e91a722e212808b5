"""W1 to W4 (§7.1) and the workflow of Figure 1: each as a query in plain Spark, and as a flow of it.

Sizes default to what two cores do in seconds; the paper's are 180 million tweets (W1), 100 to 200 GB (W2), 50 to 200 GB
(W3) and 80 million rows (W4). ``settings`` are those of :func:`reshape.flow`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reshape import flow
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
    return _workload("W1", found.join(slang, "location"), settings)


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
    plain = (
        sales.join(days, sales.ws_sold_date_sk == days.d_date_sk)
        .join(items, sales.ws_item_sk == items.i_item_sk)
        .join(customers, sales.ws_bill_customer_sk == customers.c_customer_sk)
        .groupBy("i_category")
        .count()
    )
    return _workload("W2", plain, settings)


def w3(
    spark: SparkSession, directory: Directory, scale: float = 1.0, *, status: str = "F", **settings: Any
) -> Workload:
    """TPC-H orders of one status by total price. ``directory`` keeps the generated table."""
    orders = tpc_tables.orders(spark, directory, scale).where(f"o_orderstatus = '{status}'")
    return _workload("W3", orders.orderBy("o_totalprice"), settings, ordered_by="o_totalprice")


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
    return _workload("W4", changing.join(even, "key"), settings)


def covid_months(
    spark: SparkSession, tweets: int = 2_000_000, *, partitions: int = 8, seed: int = 1, **settings: Any
) -> Workload:
    """Figure 1: tweets on Covid per month beside the cases of that month."""
    from pyspark.sql import functions as F  # noqa: N812

    found = tweet_tables.covid_tweets(spark, tweets, partitions=partitions, seed=seed)
    cases = tweet_tables.covid_cases(spark)
    shown = [F.count("*").alias("tweets"), F.max("cases").alias("cases")]
    return _workload("covid months", found.join(cases, "month").groupBy("month").agg(*shown), settings)


def _workload(name: str, plain: DataFrame, settings: dict[str, Any], ordered_by: str | None = None) -> Workload:
    """As in the paper, all joins move rows, whatever the size of a side."""
    return Workload(name, flow(plain, **{"name": name, "joins": "all", **settings}), plain, ordered_by)
