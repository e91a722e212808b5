"""Every error says what failed, what was found and what to change. Most come when the flow is built."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import reshape
from reshape.conf import PREFIX, settings_of
from reshape.driver.session import check
from reshape.driver.slots import FlowSlots
from reshape.errors import FlowError, SettingError, TooFewSlots, UnsuitableSession
from reshape.flows import Flow
from reshape.operators.errors import UnsupportedAggregate, UnsupportedKeyType
from reshape.plan.resolve import NotSupported


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    return spark.range(0, 300, 1, 3).selectExpr(
        "id % 7 AS k", "id AS v", "concat('s', id % 5) AS s", "map(id, id) AS m", "date'2024-01-01' AS day"
    )


@pytest.fixture(scope="module")
def other(spark: SparkSession) -> DataFrame:
    return spark.range(0, 30).selectExpr("id AS k", "id AS w", "map(id, id) AS m", "array(id) AS many")


def counted(df: DataFrame) -> Flow:
    """A flow whose columns come from an operator."""
    return reshape.read(df).groupBy("k", "s").agg(F.sum("v").alias("t"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda f, o: f.join(o, "w"), "join: column 'w' is not among k, v, s, m, day"),
        (lambda f, o: f.join(o, [("v", "x")]), "join: column 'x' is not among k, w, m, many"),
        (lambda f, o: f.groupBy("nope").count(), "groupBy and agg: column 'nope' is not among k, v, s, m, day"),
        (lambda f, o: f.groupBy("k").agg(F.sum("nope")), "column 'nope' is not among k, v, s, m, day"),
        (lambda f, o: f.groupBy("k").sum("nope"), "nope"),
        (lambda f, o: f.orderBy(F.col("nope").desc()), "orderBy: column 'nope' is not among k, v, s, m, day"),
        (lambda f, o: f.repartition("nope"), "repartition: column 'nope' is not among k, v, s, m, day"),
        (lambda f, o: f.groupBy("k").count().orderBy("v"), "orderBy: column 'v' is not among k, count"),
        (lambda f, o: f.groupBy("k").agg(F.sum(o.w)), "a column of another DataFrame is used.*F.col.*k, v, s, m, day"),
        (
            lambda f, o: f.groupBy("k").agg(reshape.aggregate(Least(), "nope")),
            "aggregate: column 'nope' is not among k",
        ),
    ],
)
def test_unknown_columns(df: DataFrame, other: DataFrame, build: Callable[..., Any], message: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        build(reshape.read(df), other)
    assert message == "nope" or caught.type is FlowError


def test_the_form_of_a_join(df: DataFrame, other: DataFrame) -> None:
    flow = reshape.read(df)
    for on in (df.k == other.k, [], None, [("k",)], 3):
        with pytest.raises(FlowError, match="join: on is a column name, a list of names, or a list of pairs"):
            flow.join(other, on)  # type: ignore[arg-type]
    with pytest.raises(FlowError, match="how = 'cross' is not one of full, inner, left, left_anti, left_semi, right"):
        flow.join(other, "k", "cross")


def test_types_that_cannot_meet(df: DataFrame, other: DataFrame) -> None:
    flow = reshape.read(df)
    with pytest.raises(
        FlowError, match="key 'day' is date and key 'w' is bigint, and Spark does not compare these; cast"
    ):
        flow.join(other, [("day", "w")])
    with pytest.raises(FlowError, match=r"union: Spark has no type for 's' \(string\) with 'many' \(array<bigint>\)"):
        flow.union(other.selectExpr("k", "w", "many", "m", "date'2024-01-01'"))
    with pytest.raises(
        FlowError, match=r"intersect: the left side has 5 columns \(k, v, s, m, day\) and the right side 2"
    ):
        flow.intersect(other.select("k", "w"))


def test_casts_that_only_spark_can_do_behind_an_operator(df: DataFrame, other: DataFrame) -> None:
    texts = (
        "join: column 's' is string and would have to become bigint, which only Spark can do.*Cast it in the DataFrame"
    )
    with pytest.raises(FlowError, match=texts):
        counted(df).join(other, [("s", "w")])
    with pytest.raises(FlowError, match="subtract: column 's' is string and would have to become bigint"):
        counted(df).subtract(other.selectExpr("k", "w", "w"))


@pytest.mark.parametrize(
    "build",
    [
        lambda f, o: f.join(o, "m"),
        lambda f, o: f.groupBy("m").count(),
        lambda f, o: f.distinct(),
        lambda f, o: f.repartition("m"),
        lambda f, o: f.intersect(f),
        lambda f, o: f.groupBy("k").agg(F.countDistinct(F.struct("m"))),
    ],
)
def test_a_map_is_no_key(df: DataFrame, other: DataFrame, build: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedKeyType, match=r"cannot be a key\. Keys may be numbers, .* convert it"):
        build(reshape.read(df), other)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            lambda: F.sum("v") + 1,
            r"agg cannot use \(sum\(v\).*each expression must be one of approx_count_distinct, .*countDistinct, .*sum",
        ),
        (
            lambda: F.histogram_numeric("v", F.lit(3)),
            "agg cannot use histogram_numeric.*it can use .*count, countDistinct, .*sum.*, .*reshape.aggregate",
        ),
    ],
)
def test_aggregates_that_flows_do_not_have(df: DataFrame, expression: Callable[[], Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        reshape.read(df).groupBy("k").agg(expression())


def test_types_that_an_aggregate_does_not_take(df: DataFrame) -> None:
    with pytest.raises(UnsupportedAggregate, match="min of column 'pair' of type list"):
        reshape.read(df.selectExpr("k", "array(v) AS pair")).groupBy("k").agg(F.min("pair"))


def test_expressions_behind_an_operator(df: DataFrame) -> None:
    advice = (
        "behind another operator only plain columns can be used; compute it in the DataFrame.*Columns here: k, s, t"
    )
    builds: list[Callable[[Flow], Flow]] = [
        lambda flow: flow.groupBy(F.upper("s")).count(),
        lambda flow: flow.groupBy("k").agg(F.sum(F.col("t") * 2)),
        lambda flow: flow.orderBy(-F.col("t")),
    ]
    for build in builds:
        with pytest.raises(NotSupported, match=advice):
            build(counted(df))


def test_keys_that_change_rows(df: DataFrame) -> None:
    with pytest.raises(
        NotSupported, match="groupBy cannot use window; it changes rows as well; compute it in the Data"
    ):
        reshape.read(df).groupBy(F.window(F.timestamp_seconds("v"), "10 seconds")).count()


def test_names_that_clash_in_the_output(df: DataFrame, other: DataFrame) -> None:
    flow = reshape.read(df)
    with pytest.raises(FlowError, match="join: both sides have a column 'm'; rename one before the join"):
        flow.join(other, "k")
    with pytest.raises(FlowError, match="join: both sides have a column 'k', 'm'; rename one before the join"):
        flow.join(other, [("v", "w")])
    with pytest.raises(
        FlowError, match="agg: the result would have more than one column 'k'; give one of them another"
    ):
        flow.groupBy("k").agg(F.sum("v").alias("k"))


def test_too_few_slots(df: DataFrame) -> None:
    with pytest.raises(TooFewSlots, match=r"has 4 task slots; this flow needs 4 for its hosts.*local\[6\]"):
        reshape.read(df, hosts=4, workers=4).groupBy("k").count().toDF()


@pytest.mark.parametrize("setting", ["spark.dynamicAllocation.enabled"])
def test_settings_that_rule_flows_out(
    spark: SparkSession, df: DataFrame, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """The setting of a running application cannot change, so its copy of the settings is changed here."""
    monkeypatch.setattr(spark.sparkContext, "_conf", spark.sparkContext.getConf().set(setting, "true"))
    with pytest.raises(UnsuitableSession, match=f"set {re.escape(setting)} to false"):
        reshape.read(df).groupBy("k").count().toDF()
    monkeypatch.undo()
    check(spark, FlowSlots("small", 1, sources=True))


def test_settings_that_are_named_exist(spark: SparkSession) -> None:
    """In the texts of the package, whatever they are for: Spark itself knows its own, `reshape.conf` ours."""
    jvm: Any = spark._jvm
    named = {name for path in Path(reshape.__file__).parent.rglob("*.py") for name in NAMED.findall(_texts(path))}
    ours = {name for name in named if name.startswith(PREFIX)}
    with pytest.raises(SettingError) as caught:
        settings_of({f"{PREFIX}nothingLikeIt": "1"}, {})
    assert ours <= set(str(caught.value).partition("there are ")[2].split(", "))
    entries = jvm.org.apache.spark.internal.config.ConfigEntry
    unknown = {name for name in named - ours if entries.findEntry(name) is None}
    assert unknown - {"spark.log"} <= OF_NO_REGISTRY  # but for the name of a file
    assert len(named - ours) > 10


# Spark reads these by their names alone.
OF_NO_REGISTRY = {
    "spark.app.name",
    "spark.local.dir",
    "spark.master",
    "spark.sql.execution.id",
    "spark.sql.execution.root.id",
    "spark.ssl.enabled",
    "spark.ssl.rpc.enabled",
}
# Whole names; those that end in a star or a dot stand for many.
NAMED = re.compile(r"(?<![\w.])spark\.[a-z]\w*(?:\.\w+)*(?![\w*(]|\.(?!\s))")


def _texts(path: Path) -> str:
    """All texts in a file's code, comments left out."""
    tree = ast.parse(path.read_text())
    return "\0".join(str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant))


def test_settings(spark: SparkSession, df: DataFrame) -> None:
    with pytest.raises(SettingError, match=r"no option 'partitions'; there are name, hosts, workers"):
        reshape.read(df, partitions=3)  # type: ignore[call-arg]
    with pytest.raises(SettingError, match="workers = 'all' is not possible; it must be a whole number"):
        reshape.read(df).options(workers="all")  # type: ignore[arg-type]
    session = spark.newSession()
    session.conf.set("spark.reshape.hots", "1")
    with pytest.raises(SettingError, match=r"no setting spark\.reshape\.hots \(did you mean spark\.reshape\.hosts\?\)"):
        reshape.read(session.range(3)).groupBy("id").count().toDF()


def test_what_can_be_read(spark: SparkSession) -> None:
    with pytest.raises(FlowError, match=r"read: builtins\.list is not a DataFrame of a classic Spark session"):
        reshape.read([1, 2])  # type: ignore[arg-type]
    with pytest.raises(FlowError, match="is a stream, which does not end"):
        reshape.read(spark.readStream.format("rate").load())
    with pytest.raises(FlowError, match="column 's' is string collate UNICODE, but flows compare texts by their bytes"):
        reshape.read(spark.range(3).selectExpr("string(id) COLLATE UNICODE AS s"))


def holds_a_lock(lock: Any) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def guarded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with lock:
            yield from batches

    return guarded


class Least:
    state_type = pa.int64()
    output_type = pa.int64()

    def __init__(self, holds: Any = None) -> None:
        self.holds = holds

    def init(self) -> int | None:
        return None

    def update(self, state: int | None, rows: pa.RecordBatch) -> int:
        return int(min(rows.column(0).to_pylist()))

    def merge(self, state: int | None, other: int | None) -> int | None:
        return min(x for x in (state, other) if x is not None)

    def finish(self, state: int | None) -> int | None:
        return state


def test_functions_that_cannot_travel(df: DataFrame) -> None:
    named = (
        "mapInArrow: the function holds_a_lock.guarded cannot be sent to Spark's tasks .*cannot pickle '_thread.lock'"
    )
    for flow in (reshape.read(df), counted(df)):
        with pytest.raises(FlowError, match=named):
            flow.mapInArrow(holds_a_lock(threading.Lock()), "k long")
    with pytest.raises(FlowError, match=r"aggregate: Least cannot be sent to Spark's tasks \(TypeError: cannot pickle"):
        reshape.read(df).groupBy("k").agg(reshape.aggregate(Least(threading.Lock()), "v"))
    with pytest.raises(FlowError, match=r"cannot be sent to Spark's tasks.*CONTEXT_ONLY_VALID_ON_DRIVER"):
        counted(df).mapInArrow(holds_a_lock(df), "k long")
    with pytest.raises(FlowError, match="mapInArrow: 3 cannot be called"):
        counted(df).mapInArrow(3, "k long")  # type: ignore[arg-type]


def test_objects_that_are_no_aggregate() -> None:
    with pytest.raises(
        FlowError, match="aggregate: dict has no state_type, output_type, init, merge, finish; an aggregat"
    ):
        reshape.aggregate({}, "v")  # type: ignore[arg-type]
    with pytest.raises(FlowError, match="aggregate: name at least one column for Least"):
        reshape.aggregate(Least())


def test_a_function_that_gives_other_columns_than_promised(df: DataFrame) -> None:
    def renames(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"x": batch.column("t")})

    flow = counted(df).mapInArrow(renames, "total long")
    with pytest.raises(
        Exception, match=r"group by \(operator 0\), worker \d+: .*the columns \['x'\], but promised \['tot"
    ):
        flow.toDF().collect()
