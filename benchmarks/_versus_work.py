"""The work of `versus_spark.py`: each query written once for a flow and for plain Spark, and ways to consume it."""

from __future__ import annotations

import contextlib
import heapq
import io
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from _versus_data import KEYED, LAWS, Store
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import reshape

Tables = Mapping[str, DataFrame]
Query = Any  # a flow or a DataFrame: queries use what both have under the same names
Sink = Callable[[Query, Path], object]


@dataclass(frozen=True, slots=True)
class Side:
    """Who runs a query: plain Spark, or a flow with these options."""

    options: Mapping[str, Any] | None = None

    def read(self, df: DataFrame) -> Query:
        return df if self.options is None else reshape.flow(df, **{"joins": "all", **self.options})

    def second_largest(self, column: str) -> Column:
        """An aggregate that Spark lacks, as each side lets users write it."""
        if self.options is not None:
            return reshape.aggregate(_second_largest(), column)
        return F.pandas_udf(_second_of_series(), "long")(column)


@dataclass(frozen=True, slots=True)
class Work:
    """A query over tables. ``joins``: broadcast joins make a difference. ``started``: run by start() too."""

    name: str
    tables: Mapping[str, str]  # name in the query -> name in the store; {law} stands for that of the data set
    query: Callable[[Side, Tables], Query]
    joins: bool = False
    ordered_by: str | None = None
    started: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the result: work on a data set, consumed in some way."""

    data_set: str
    work: Work
    sink: str = "noop"

    @property
    def label(self) -> str:
        return self.work.name if self.sink == "noop" else f"{self.work.name}:{self.sink}"

    @property
    def name(self) -> str:
        return f"{self.label}@{self.data_set}"

    def table_names(self) -> dict[str, str]:
        return {short: name.format(law=self.data_set) for short, name in self.work.tables.items()}

    def read(self, spark: SparkSession, store: Store) -> Tables:
        return {short: store.read(spark, name) for short, name in self.table_names().items()}


def _show(df: Query, _: Path) -> object:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        df.show()
    return shown.getvalue()


SINKS: dict[str, Sink] = {
    "noop": lambda df, _: df.write.format("noop").mode("overwrite").save(),
    "parquet": lambda df, scratch: df.write.mode("overwrite").parquet((scratch / "written").as_uri()),
    "count": lambda df, _: df.count(),
    "arrow": lambda df, _: df.toArrow(),
    "show": _show,
}
# These ask for all partitions in one job, so a flow without an exchange behind it will do.
WHOLE = ("noop", "parquet", "count", "arrow")


def turns_of(us: float) -> int:
    """So many turns of the loop of `python_function` take this long here, by CPU time."""
    took = []
    for _ in range(3):
        begun, x = time.thread_time(), 1
        for _ in range(200_000):
            x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        took.append(time.thread_time() - begun)
    return max(1, round(us * 0.2 / min(took)))  # the least: neighbours in the same core make it longer, never shorter


def python_function(us: int) -> Callable[[Side, Tables], Query]:
    """A function of so many microseconds of CPU time a row, on rows that were brought together by key."""
    measured: list[int] = []

    def query(side: Side, t: Tables) -> Query:
        if not measured:
            measured.append(turns_of(us))
        (turns,) = measured

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                made = []
                for value in batch.column("v").to_pylist():
                    x = value
                    for _ in range(turns):
                        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
                    made.append(x)
                yield pa.RecordBatch.from_arrays([batch.column("k"), pa.array(made, pa.int64())], names=["k", "v"])

        return side.read(t["rows"]).repartition("k").mapInArrow(work, "k int, v long")

    return query


def _second_largest() -> Any:
    """Made inside a function, so that it travels to tasks by value: they lack this file."""

    class SecondLargest:
        state_type = pa.list_(pa.int64())
        output_type = pa.int64()

        def init(self) -> list[int]:
            return []

        def update(self, state: list[int], rows: pa.RecordBatch) -> list[int]:
            return self.merge(state, rows.column(0).to_pylist())

        def merge(self, state: list[int], other: list[int]) -> list[int]:
            return heapq.nlargest(2, [*state, *other])

        def finish(self, state: list[int]) -> int | None:
            return state[1] if len(state) > 1 else None

    return SecondLargest()


def _second_of_series() -> Any:
    def second(values: pd.Series) -> int:
        return values.nlargest(2).iloc[1] if len(values) > 1 else None

    return second


def _totals() -> list[Column]:
    return [F.count("*").alias("sales"), F.sum("price").alias("paid"), F.max("quantity").alias("most")]


def _three_joins(side: Side, t: Tables) -> Query:
    joined = side.read(t["sales"]).join(t["items"], "item").join(t["days"], "day").join(t["customers"], "customer")
    return joined.groupBy("category", "month", "segment").agg(*_totals())


def _w2(side: Side, t: Tables) -> Query:
    """After TPC-DS query 18, as the paper's W2. Keys get their names before: one form for both sides."""
    sales = t["sales"].selectExpr("ws_sold_date_sk AS day", "ws_item_sk AS item", "ws_bill_customer_sk AS customer")
    days = t["days"].where("d_year = 2001").selectExpr("d_date_sk AS day")
    items = t["items"].selectExpr("i_item_sk AS item", "i_category")
    customers = t["customers"].where("c_birth_month >= 6").selectExpr("c_customer_sk AS customer")
    return (
        side.read(sales).join(days, "day").join(items, "item").join(customers, "customer").groupBy("i_category").count()
    )


SALES = {"sales": "sales-{law}"}
ITEMS = {**SALES, "items": "items"}
CUSTOMERS = {**SALES, "customers": "customers"}

# On every data set of sales.
EVERYWHERE = (
    Work(
        "join-group",
        ITEMS,
        lambda side, t: side.read(t["sales"]).join(t["items"], "item").groupBy("category").agg(*_totals()),
        joins=True,
        started=True,
    ),
    Work(
        "large-join-group",
        CUSTOMERS,
        lambda side, t: side.read(t["sales"]).join(t["customers"], "customer").groupBy("segment").agg(*_totals()),
        joins=True,
    ),
    Work("full-outer", ITEMS, lambda side, t: side.read(t["sales"]).join(t["items"], "item", "full"), joins=True),
    Work("sort", SALES, lambda side, t: side.read(t["sales"]).orderBy("item"), ordered_by="item"),
    Work(
        "median", SALES, lambda side, t: side.read(t["sales"]).groupBy("item").agg(F.median("quantity")), started=True
    ),
    Work("group-count", SALES, lambda side, t: side.read(t["sales"]).groupBy("item").count(), started=True),
)
# On three of them.
ON_SOME = (
    Work(
        "inner-large",
        {**SALES, "offers": "offers"},
        lambda side, t: side.read(t["sales"]).join(t["offers"], "item"),
        joins=True,
    ),
    Work(
        "semi",
        ITEMS,
        lambda side, t: side.read(t["sales"]).join(t["items"].where("item % 2 = 0"), "item", "left_semi"),
        joins=True,
    ),
    Work(
        "anti",
        ITEMS,
        lambda side, t: side.read(t["sales"]).join(t["items"].where("item % 2 = 0"), "item", "left_anti"),
        joins=True,
    ),
    Work(
        "count-distinct",
        SALES,
        lambda side, t: side.read(t["sales"]).groupBy("item").agg(F.countDistinct("customer")),
    ),
    Work("distinct-pairs", SALES, lambda side, t: side.read(t["sales"].select("item", "day")).distinct()),
    Work("three-joins", {**ITEMS, "days": "days", "customers": "customers"}, _three_joins, joins=True),
    Work("collect-list", SALES, lambda side, t: side.read(t["sales"]).groupBy("item").agg(F.collect_list("order"))),
    Work(
        "user-aggregate",
        SALES,
        lambda side, t: side.read(t["sales"]).groupBy("item").agg(side.second_largest("order").alias("second")),
    ),
)
SOME = ("even", "zipf1.2", "one30")
FILES = (
    Work(
        "ordered-sort", {"files": "files"}, lambda side, t: side.read(t["files"]).orderBy("mtime"), ordered_by="mtime"
    ),
    Work(
        "string-median",
        {"files": "files"},
        lambda side, t: side.read(t["files"]).groupBy("directory").agg(F.median("size")),
        started=True,
    ),
    Work(
        "string-count",
        {"files": "files"},
        lambda side, t: side.read(t["files"]).groupBy("directory").agg(F.count("*"), F.sum("size"), F.max("mtime")),
    ),
)
WIDE = (
    Work("wide-sort", {"wide": "wide"}, lambda side, t: side.read(t["wide"]).orderBy("note"), ordered_by="note"),
    Work(
        "wide-join",
        {"wide": "wide", "labels": "labels"},
        lambda side, t: side.read(t["wide"]).join(t["labels"], "k"),
        joins=True,
    ),
)
TPCDS = {"sales": "tpcds-web_sales", "days": "tpcds-date_dim", "items": "tpcds-item", "customers": "tpcds-customer"}
# Other ways to consume what the works above give.
CONSUMED = {
    "full-outer": ("parquet", "count", "arrow"),
    "inner-large": ("parquet", "count", "arrow"),
    "sort": ("parquet", "arrow", "show"),
    "median": ("arrow", "show"),
    "join-group": ("arrow", "show"),
}
CONSUMED_ON = "zipf1.2"
QUICK = ("join-group@zipf1.2", "sort@one30")


def lines() -> list[Line]:
    """All of them, data set by data set."""
    made = []
    for law in LAWS:
        works = EVERYWHERE + (ON_SOME if law in SOME else ())
        made += [Line(law, work) for work in works]
        if law == CONSUMED_ON:
            made += [Line(law, work, sink) for work in works for sink in CONSUMED.get(work.name, ())]
    made += [Line("files", work) for work in FILES]
    made += [Line("wide", work) for work in WIDE]
    functions = {us: python_function(us) for us in KEYED}
    for shape in ("flat", "hot50"):
        made += [Line(shape, Work(f"python-{us}", {"rows": f"keyed-{us}-{shape}"}, functions[us])) for us in KEYED]
    made.append(Line("tpcds", Work("w2", TPCDS, _w2, joins=True)))
    return made
