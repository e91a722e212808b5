"""The TPC tables of W2 and W3 as Spark DataFrames, the keys of W2's sales drawn anew with the skew of DSB."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from reshape.datasets.draws import bits, spread, zipf_rank
from reshape.datasets.tpc import CUSTOMER_EXPONENT, DATE_EXPONENT, DATES, ITEM_EXPONENT
from reshape.datasets.tpcgen import Benchmark, table_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST_DATE = 2_450_815  # d_date_sk of 1998-01-01
_SALE = "ws_order_number, ws_item_sk"  # the primary key of web_sales

Directory = str | os.PathLike[str]


def web_sales(spark: SparkSession, directory: Directory, scale: float = 1.0, *, seed: int = 1) -> DataFrame:
    """Sales with skewed ``ws_sold_date_sk``, ``ws_item_sk`` and ``ws_bill_customer_sk``; other columns are TPC-DS's.

    Sales without a date or a customer stay without.
    """
    items = _rows(directory, scale, "item")
    customers = _rows(directory, scale, "customer")
    laws = {
        "ws_sold_date_sk": (DATES, DATE_EXPONENT, FIRST_DATE),
        "ws_item_sk": (items, ITEM_EXPONENT, 1),
        "ws_bill_customer_sk": (customers, CUSTOMER_EXPONENT, 1),
    }
    sales = _table(spark, directory, "tpcds", scale, "web_sales")
    drawn = sales.selectExpr("*", *(f"{bits(_SALE, seed, column)} AS draw_{column}" for column in laws))
    columns = [_skewed(column, *laws[column]) if column in laws else f"`{column}`" for column in sales.columns]
    return drawn.selectExpr(*columns)


def date_dim(spark: SparkSession, directory: Directory, scale: float = 1.0) -> DataFrame:
    return _table(spark, directory, "tpcds", scale, "date_dim")


def item(spark: SparkSession, directory: Directory, scale: float = 1.0) -> DataFrame:
    return _table(spark, directory, "tpcds", scale, "item")


def customer(spark: SparkSession, directory: Directory, scale: float = 1.0) -> DataFrame:
    return _table(spark, directory, "tpcds", scale, "customer")


def orders(spark: SparkSession, directory: Directory, scale: float = 0.1) -> DataFrame:
    return _table(spark, directory, "tpch", scale, "orders")


def _skewed(column: str, keys: int, exponent: float, first: int) -> str:
    rank = zipf_rank(keys, exponent, f"draw_{column}")
    return f"IF({column} IS NULL, NULL, {first} + {spread(f'({rank})', keys)}) AS {column}"


def _table(spark: SparkSession, directory: Directory, benchmark: Benchmark, scale: float, name: str) -> DataFrame:
    # A URI, for a bare path would be looked for in the cluster's default file system.
    return spark.read.parquet(table_file(directory, benchmark, scale, name).as_uri())


def _rows(directory: Directory, scale: float, name: str) -> int:
    from pyarrow import parquet

    return int(parquet.read_metadata(table_file(directory, "tpcds", scale, name)).num_rows)
