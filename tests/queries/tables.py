"""The tables of the suite, as Parquet: TPC-H's and TPC-DS's as generated, and again with heavy hitters.

In the skewed tables every foreign key and grouping column of a table with many rows has two values that hold two
fifths of its rows, and some nulls. Columns that queries join a table with itself by have a bounded number of rows for
a value: their answers would grow with its square.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import SparkSession

from reshape.datasets.tpcgen import Benchmark, table_file

UNIFORM, SKEWED = KINDS = ("uniform", "skewed")
SHARES = (0.3, 0.1)  # of the heavy hitters of a column
NULLS = 0.05
MOST_OF_AN_ORDER = 200  # rows of a hitter in a column by which a table is joined with itself
FILES = 2  # of a table with many rows: a scan in more than one piece
MANY = 1_000  # rows of such a table

TPCH = ("nation", "region", "customer", "supplier", "part", "partsupp", "orders", "lineitem")
TPCDS = (
    "store_sales",
    "store_returns",
    "web_sales",
    "catalog_sales",
    "inventory",
    "date_dim",
    "item",
    "customer",
    "customer_address",
    "store",
    "household_demographics",
)
CLASHES = {"customer": "ds_customer"}  # a name that both have
FIRST_YEAR, LAST_YEAR = 1998, 2003  # of sales and returns

# Columns that get heavy hitters, and columns by which tables are joined with themselves.
HOT = {
    "customer": ("c_nationkey", "c_mktsegment"),
    "supplier": ("s_nationkey",),
    "partsupp": ("ps_suppkey",),
    "orders": ("o_custkey", "o_orderpriority", "o_orderstatus", "o_clerk"),
    "lineitem": ("l_partkey", "l_suppkey", "l_shipmode", "l_returnflag"),
    "store_sales": ("ss_sold_date_sk", "ss_item_sk", "ss_customer_sk", "ss_hdemo_sk", "ss_addr_sk", "ss_store_sk"),
    "web_sales": ("ws_sold_date_sk", "ws_item_sk", "ws_bill_customer_sk", "ws_bill_addr_sk", "ws_ship_addr_sk"),
    "catalog_sales": ("cs_sold_date_sk", "cs_item_sk", "cs_bill_customer_sk", "cs_call_center_sk"),
    "inventory": ("inv_item_sk",),
    "ds_customer": ("c_current_addr_sk", "c_last_name"),
    "customer_address": ("ca_state",),
}
WARM = {"lineitem": ("l_orderkey",), "store_sales": ("ss_ticket_number",)}
# Where only the first rows of a dimension are kept, sales point at those.
POINTS_AT = {
    "item": ("ss_item_sk", "ws_item_sk", "cs_item_sk", "inv_item_sk"),
    "ds_customer": ("ss_customer_sk", "ws_bill_customer_sk", "cs_bill_customer_sk"),
    "customer_address": ("ss_addr_sk", "ws_bill_addr_sk", "ws_ship_addr_sk", "c_current_addr_sk"),
    "household_demographics": ("ss_hdemo_sk",),
}
# A return has the sale that it belongs to.
OF_THE_SALE = {
    "sr_item_sk": "ss_item_sk",
    "sr_customer_sk": "ss_customer_sk",
    "sr_ticket_number": "ss_ticket_number",
    "sr_store_sk": "ss_store_sk",
}


@dataclass(frozen=True, slots=True)
class Size:
    """Scales of the two benchmarks, and how many rows are kept of TPC-DS's tables (its smallest are still large)."""

    tpch: float
    tpcds: float
    sales: int | None = None
    dimension: int | None = None


TINY = Size(0.001, 0.01, sales=3_000, dimension=300)


def make_tables(folder: Path, size: Size) -> None:
    """Write the tables of both kinds to ``folder / kind / table``."""
    generated = _generated(folder / "generated", size)
    for kind in KINDS:
        tables = {name: _skewed(name, table) if kind == SKEWED else table for name, table in generated.items()}
        tables["store_returns"] = _of_sales(tables["store_returns"], tables["store_sales"])
        for name, table in tables.items():
            _write(table, folder / kind / name)


def register(spark: SparkSession, folder: Path, kind: str) -> None:
    """Make the tables of one kind the views of a session."""
    for home in sorted((folder / kind).iterdir()):
        spark.read.parquet(home.as_uri()).createOrReplaceTempView(home.name)


def _generated(folder: Path, size: Size) -> dict[str, pa.Table]:
    wanted: list[tuple[Benchmark, float, str]] = [("tpch", size.tpch, name) for name in TPCH]
    wanted += [("tpcds", size.tpcds, name) for name in TPCDS]
    with ThreadPoolExecutor(2) as pool:
        files = list(pool.map(lambda each: table_file(folder, *each), wanted))
    tables = {}
    for (benchmark, _, name), file in zip(wanted, files, strict=True):
        own = CLASHES.get(name, name) if benchmark == "tpcds" else name
        table = _plain(parquet.read_table(file))
        tables[own] = _kept(own, table, size) if benchmark == "tpcds" else table
    for dimension, columns in POINTS_AT.items():
        for name, table in tables.items():
            tables[name] = _pointed(table, columns, tables[dimension].num_rows)
    return tables


def _plain(table: pa.Table) -> pa.Table:
    """Views of strings as strings: not every function of Arrow takes them."""
    fields = [field.with_type(pa.string()) if "view" in str(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields))


def _kept(name: str, table: pa.Table, size: Size) -> pa.Table:
    if name == "date_dim":
        return table.filter((pc.field("d_year") >= FIRST_YEAR) & (pc.field("d_year") <= LAST_YEAR))
    most = size.dimension if name in POINTS_AT else size.sales
    if name == "store_returns" and most is not None:
        most //= 5
    return table.slice(0, most)


def _pointed(table: pa.Table, columns: Iterable[str], rows: int) -> pa.Table:
    for column in set(columns) & set(table.column_names):
        keys = table[column].combine_chunks()
        numbers = keys.fill_null(0).to_numpy()
        if numbers.max(initial=0) > rows:
            folded = pa.array((numbers - 1) % rows + 1, keys.type, mask=keys.is_null().to_numpy(zero_copy_only=False))
            table = _with(table, column, folded)
    return table


def _skewed(name: str, table: pa.Table) -> pa.Table:
    for column in HOT.get(name, ()):
        table = _with(table, column, _hit(table[column].combine_chunks(), f"{name}.{column}", SHARES, NULLS))
    for column in WARM.get(name, ()):
        share = min(SHARES[0], MOST_OF_AN_ORDER / table.num_rows)
        table = _with(table, column, _hit(table[column].combine_chunks(), f"{name}.{column}", (share,), NULLS))
    return table


def _hit(values: pa.Array, seed: str, shares: Iterable[float], nulls: float) -> pa.Array:
    """The values, but for some rows, which get one of a few values or null."""
    rng = np.random.default_rng(crc32(seed.encode()))
    drawn = rng.random(len(values))
    known = values.drop_null()
    below = 0.0
    for share in shares:
        hitter = known[int(rng.integers(len(known)))]
        values = pc.if_else(pa.array((drawn >= below) & (drawn < below + share)), hitter, values)
        below += share
    return pc.if_else(pa.array(drawn >= 1 - nulls), pa.scalar(None, values.type), values)


def _of_sales(returns: pa.Table, sales: pa.Table) -> pa.Table:
    """Returns of sales that are there, up to three months later."""
    rng = np.random.default_rng(7)
    rows = pa.array(np.sort(rng.permutation(sales.num_rows)[: returns.num_rows]))
    returns = returns.slice(0, len(rows))
    for column, of_sale in OF_THE_SALE.items():
        returns = _with(returns, column, sales[of_sale].combine_chunks().take(rows))
    later = pa.array(rng.integers(1, 90, len(rows), dtype=np.int32))
    return _with(returns, "sr_returned_date_sk", pc.add(sales["ss_sold_date_sk"].combine_chunks().take(rows), later))


def _with(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, values)


def _write(table: pa.Table, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    files = FILES if table.num_rows > MANY else 1
    piece = -(-table.num_rows // files)
    for number in range(files):
        part = table.slice(number * piece, piece)
        parquet.write_table(part, home / f"part-{number}.parquet", row_group_size=max(1, -(-piece // 2)))
