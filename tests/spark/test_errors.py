"""Errors: PySpark's own for what PySpark checks; ours say what failed, what was found and what to change."""

from __future__ import annotations

import ast
import re
import sys
import threading
import venv
from collections.abc import Callable
from pathlib import Path
from pickle import PicklingError
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


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    return spark.range(0, 300, 1, 3).selectExpr(
        "id % 7 AS k", "id AS v", "concat('s', id % 5) AS s", "map(id, id) AS m", "date'2024-01-01' AS day"
    )


@pytest.fixture(scope="module")
def other(spark: SparkSession) -> DataFrame:
    return spark.range(0, 30).selectExpr("id AS k", "id AS w", "map(id, id) AS m", "array(id) AS many")


WRONG: list[Callable[[Any, DataFrame], Any]] = [
    lambda x, o: x.join(o, "w"),
    lambda x, o: x.groupBy("nope").count(),
    lambda x, o: x.groupBy("k").agg(F.sum("nope")),
    lambda x, o: x.orderBy(F.col("nope").desc()),
    lambda x, o: x.groupBy("k").count().orderBy("v"),
    lambda x, o: x.nope,
    lambda x, o: x.groupBy("k").agg(reshape.aggregate(Least(), "nope")),
    lambda x, o: x.join(o, [], "sideways"),
    lambda x, o: x.join(o, x.day == o.w),
    lambda x, o: x.union(o.select("many")),
    lambda x, o: x.groupBy("k").agg(),
    lambda x, o: x.repartition("k", 3.5),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_errors_are_pysparks(df: DataFrame, other: DataFrame, number: int) -> None:
    """What PySpark checks it checks when a flow is built, and says what it says to its own users."""
    with pytest.raises(Exception) as plain:  # noqa: PT011 - whatever it is
        WRONG[number](df, other)
    with pytest.raises(plain.type) as caught:
        WRONG[number](reshape.flow(df), other)
    assert _first_line(caught.value) == _first_line(plain.value)


def _first_line(error: BaseException) -> str:
    return re.sub(r"#\d+", "#", str(error).splitlines()[0] if str(error) else "")


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda x: x.groupBy("k").agg(F.histogram_numeric("v", F.lit(3))), "is not among a flow's aggregates"),
        (lambda x: x.groupBy("k").agg(F.min(F.array("v"))), "min of column .* of type list"),
        (lambda x: x.select("k", F.col("s").cast("string collate UNICODE").alias("c")).distinct(), "by their bytes"),
        (lambda x: x.groupBy("k").agg(F.first("m")).groupBy(F.col("first(m)")[1]).count(), ""),
    ],
)
def test_what_flows_do_not_have_is_sparks(df: DataFrame, build: Callable[[Any], Any], reason: str) -> None:
    flow, want = build(reshape.flow(df)), build(df)
    if reason:
        assert [placement.where for placement in flow.placements] == ["spark"]
        assert re.search(reason, flow.placements[0].reason), flow.placements
    assert sorted(map(repr, flow.collect())) == sorted(map(repr, want.collect()))


def test_too_few_slots(df: DataFrame) -> None:
    with pytest.raises(TooFewSlots, match=r"has 4 task slots; this flow needs 4 for its hosts.*local\[6\]"):
        reshape.flow(df, hosts=4, workers=4).groupBy("k").count().toDF()


@pytest.mark.parametrize("setting", ["spark.dynamicAllocation.enabled"])
def test_settings_that_rule_flows_out(
    spark: SparkSession, df: DataFrame, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """The setting of a running application cannot change, so its copy of the settings is changed here."""
    monkeypatch.setattr(spark.sparkContext, "_conf", spark.sparkContext.getConf().set(setting, "true"))
    with pytest.raises(UnsuitableSession, match=f"set {re.escape(setting)} to false"):
        reshape.flow(df).groupBy("k").count().toDF()
    monkeypatch.undo()
    check(spark, FlowSlots("small", 1, sources=True))


def test_tasks_without_the_package(
    spark: SparkSession, df: DataFrame, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a script that a Python runs whose environment is not the one of PATH, with a session of its own."""
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False)
    for python, cause in ((f"{bare}/bin/python", "cannot import reshape"), (f"{bare}/bin/nothing", "is not there")):
        monkeypatch.setattr(spark.sparkContext, "pythonExec", python)
        with pytest.raises(UnsuitableSession, match=rf"{python}, which {cause}.*PYSPARK_PYTHON to {sys.executable}"):
            reshape.flow(df).groupBy("k").count().toDF()


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
        reshape.flow(df, partitions=3)  # type: ignore[call-arg]
    with pytest.raises(SettingError, match="workers = 'all' is not possible; it must be a whole number"):
        reshape.flow(df).options(workers="all")  # type: ignore[arg-type]
    session = spark.newSession()
    session.conf.set("spark.reshape.hots", "1")
    with pytest.raises(SettingError, match=r"no setting spark\.reshape\.hots \(did you mean spark\.reshape\.hosts\?\)"):
        reshape.flow(session.range(3)).groupBy("id").count().toDF()


def test_what_can_be_read(spark: SparkSession) -> None:
    with pytest.raises(FlowError, match=r"flow: builtins\.list is not a DataFrame of a classic Spark session"):
        reshape.flow([1, 2])  # type: ignore[arg-type]
    with pytest.raises(FlowError, match="is a stream, which does not end"):
        reshape.flow(spark.readStream.format("rate").load())


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
    """PySpark pickles them when the flow is built."""
    with pytest.raises(PicklingError, match="cannot pickle"):
        reshape.flow(df).groupBy("k").agg(reshape.aggregate(Least(threading.Lock()), "v"))


def test_objects_that_are_no_aggregate() -> None:
    with pytest.raises(
        FlowError, match="aggregate: dict has no state_type, output_type, init, merge, finish; an aggregat"
    ):
        reshape.aggregate({}, "v")  # type: ignore[arg-type]
    with pytest.raises(FlowError, match="aggregate: name at least one column for Least"):
        reshape.aggregate(Least())


def test_tuning(df: DataFrame) -> None:
    flow = reshape.flow(df).groupBy("k").count()
    assert "skew: strategy flux" in flow.tuned("group by", strategy="flux")._explained()
    assert "skew: strategy flux" in flow.tuned("operator 0", strategy="flux")._explained()
    with pytest.raises(FlowError, match=r"no operator of this flow is called 'sort'; there are group by \(op"):
        flow.tuned("sort", strategy="flux").toDF()
    with pytest.raises(SettingError, match="tuned: workers holds for a whole flow; operators can have strategy, "):
        flow.tuned("group by", workers=3)  # type: ignore[call-arg]
