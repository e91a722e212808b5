"""Queries with known skew, inspected on Spark: the keys that are hot are named, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import reshape
from reshape.errors import FlowError
from reshape.inspection import sampling
from reshape.inspection.records import Finding, Remedy

WORKERS = 8
ROWS = 40_000


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the sales, 40 % have the item 7, a tenth has none, and the rest is spread over 1,000 items."""
    made = tmp_path_factory.mktemp("tables")
    sales = spark.range(0, ROWS, numPartitions=4).selectExpr(
        "id",
        "CASE WHEN id % 10 < 4 THEN 7 WHEN id % 10 = 5 THEN NULL ELSE 1000 + id % 1000 END AS item",
        "id % 4 AS shop",
        "named_struct('a', array(id % 2), 'b', 'x') AS nested",
    )
    sales.write.parquet(str(made / "sales"))
    items = spark.range(2000).selectExpr("id AS item", "IF(id = 7, 'food', 'rest') AS sort")
    items.write.parquet(str(made / "items"))
    return made


@pytest.fixture
def session(spark: Any, folder: Path) -> Any:
    made = spark.newSession()
    made.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    made.conf.set("spark.sql.shuffle.partitions", 20)
    for name in ("sales", "items"):
        made.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    return made


def only(found: reshape.Inspection) -> Finding:
    [finding] = found.findings
    return finding


def test_a_hot_key_and_null_of_a_join_are_named(session: Any) -> None:
    found = reshape.inspect(session.sql("SELECT * FROM sales LEFT JOIN items USING (item)"), workers=WORKERS)
    left, right = found.findings
    assert (left.operation, left.keys) == ("left outer join, left input", ("item",))
    assert [key.values for key in left.hot] == [(7,), (None,)]
    assert [key.share for key in left.hot] == [0.4, 0.1]
    assert [key.has_null for key in left.hot] == [False, True]
    assert left.looked is not None
    assert (left.looked.rows, left.looked.whole) == (ROWS, True)
    assert left.hot[0].low == left.hot[0].high == 0.4  # all rows were looked at
    assert left.remedy is Remedy.NOTHING
    assert "AQE splits those above 256 MiB" in left.spark
    assert left.times is not None
    assert left.times.unmitigated == left.times.spark == pytest.approx(8 * (0.4 + 0.5 / 8), rel=0.1)
    assert left.times.reshape < 0.6 * left.times.unmitigated
    assert right.hot == ()
    assert found.hot == (left,)
    assert "7 has 40.0 % of the rows" in found.conclusion
    assert "matches nothing in a join" in str(found)


def test_nulls_that_spark_drops_are_no_keys(session: Any) -> None:
    found = reshape.inspect(session.sql("SELECT * FROM sales JOIN items USING (item)"), workers=WORKERS)
    assert [key.values for key in found.findings[0].hot] == [(7,)]


def test_what_spark_broadcasts_is_left_to_it(session: Any) -> None:
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "100m")
    found = reshape.inspect(session.sql("SELECT * FROM sales JOIN items USING (item)"), workers=WORKERS)
    assert found.findings[0].remedy is Remedy.BROADCAST
    assert found.findings[0].times is not None
    assert found.findings[0].times.spark == 1.0
    assert found.hot == ()
    assert found.conclusion == "There are hot keys, and Spark copes with them by itself."


@pytest.mark.parametrize(
    ("settings", "how", "reason"),
    [
        ({"skewedPartitionThresholdInBytes": "10b"}, "LEFT", ""),
        ({"skewedPartitionThresholdInBytes": "10b"}, "FULL", "does not split the left side"),
        ({"skewedPartitionThresholdInBytes": "10b"}, "RIGHT", "does not split the left side"),
        ({"enabled": "false"}, "LEFT", "spark.sql.adaptive.skewJoin.enabled is off"),
        ({"skewedPartitionThresholdInBytes": "10b", "skewedPartitionFactor": "50"}, "LEFT", "less than 50 times"),
    ],
)
def test_whether_spark_splits_a_partition(session: Any, settings: dict[str, str], how: str, reason: str) -> None:
    for name, value in settings.items():
        session.conf.set(f"spark.sql.adaptive.skewJoin.{name}", value)
    found = reshape.inspect(session.sql(f"SELECT * FROM sales {how} JOIN items USING (item)"), workers=WORKERS)
    left = found.findings[0]
    assert left.remedy is (Remedy.NOTHING if reason else Remedy.SKEW_JOIN)
    assert reason in left.spark


@pytest.mark.parametrize(
    ("query", "operation", "keys", "remedy"),
    [
        ("SELECT item, count(*) FROM sales GROUP BY item", "group by", ("item",), Remedy.PARTIAL_AGGREGATION),
        ("SELECT DISTINCT item FROM sales", "distinct", ("item",), Remedy.PARTIAL_AGGREGATION),
        ("SELECT item, median(id) FROM sales GROUP BY item", "group by", ("item",), Remedy.NOTHING),
        ("SELECT item, collect_list(id) FROM sales GROUP BY item", "group by", ("item",), Remedy.NOTHING),
        ("SELECT *, rank() OVER (PARTITION BY item ORDER BY id) FROM sales", "window", ("item",), Remedy.NOTHING),
        ("SELECT * FROM sales ORDER BY item", "sort", ("item",), Remedy.NOTHING),
        ("SELECT /*+ REPARTITION(item) */ * FROM sales", "repartition", ("item",), Remedy.NOTHING),
    ],
)
def test_every_kind_of_operation(
    session: Any, query: str, operation: str, keys: tuple[str, ...], remedy: Remedy
) -> None:
    finding = only(reshape.inspect(session.sql(query), workers=WORKERS))
    assert (finding.operation, finding.keys, finding.remedy) == (operation, keys, remedy)
    assert finding.hot[0].values == (7,)


def test_keys_that_are_computed_or_nested(session: Any) -> None:
    computed = only(reshape.inspect(session.sql("SELECT item % 2, count(*) FROM sales GROUP BY item % 2"), workers=4))
    assert "item % " in computed.keys[0]
    assert computed.hot[0].values == (1,)
    nested = only(reshape.inspect(session.sql("SELECT nested, count(*) FROM sales GROUP BY nested"), workers=4))
    assert sorted(key.values[0]["a"] for key in nested.hot) == [[0], [1]]


def test_a_key_behind_a_join_is_found_as_well(session: Any) -> None:
    query = "SELECT sort, median(id) FROM sales JOIN items USING (item) GROUP BY sort"
    *_, grouping = reshape.inspect(session.sql(query), rows=4_000, workers=WORKERS).findings
    assert grouping.operation == "group by"
    assert {key.values for key in grouping.hot} == {("food",), ("rest",)}
    food = next(key for key in grouping.hot if key.values == ("food",))
    assert food.low < 0.4 / 0.9 < food.high


def test_first_rows_need_no_sort_of_all(session: Any) -> None:
    found = reshape.inspect(session.sql("SELECT * FROM sales ORDER BY item LIMIT 5"), workers=WORKERS)
    assert found.findings == ()
    assert str(found).startswith("Nothing in this query brings rows of one key together")


def test_all_rows_of_a_window_without_keys_go_to_one_worker(session: Any) -> None:
    finding = only(reshape.inspect(session.sql("SELECT id, sum(id) OVER () FROM sales"), workers=WORKERS))
    assert finding.operation == "window without PARTITION BY"
    assert finding.hot[0].share == 1.0


def plans_of_actions(session: Any) -> dict[int, str]:
    """Physical plans of what Spark has run, by number."""
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    executions = session._jsparkSession.sharedState().statusStore().executionsList()
    return {
        each.executionId(): each.physicalPlanDescription() for each in map(executions.apply, range(executions.size()))
    }


def test_keys_are_not_brought_to_one_task(session: Any) -> None:
    """A window without PARTITION BY would do that, and Spark would print warnings of it for each operation."""
    before = plans_of_actions(session)
    reshape.inspect(session.sql("SELECT item, collect_list(id) FROM sales GROUP BY item"), workers=WORKERS)
    made = [plan for number, plan in plans_of_actions(session).items() if number not in before]
    assert any("HashAggregate" in plan for plan in made)
    assert not any("Window" in plan for plan in made)


def test_an_even_query_and_an_empty_one(session: Any) -> None:
    even = reshape.inspect(session.sql("SELECT id, median(item) FROM sales GROUP BY id"), workers=WORKERS)
    assert only(even).hot == ()
    assert even.conclusion == "No key is hot on 8 workers: an even load is to be expected."
    empty = reshape.inspect(session.sql("SELECT item, count(*) FROM sales WHERE id < 0 GROUP BY item"))
    assert "no rows" in str(empty)
    assert empty.conclusion == "The input is empty: there are no keys to look at."


def test_rows_drawn_at_random_have_intervals_that_hold_the_truth(session: Any) -> None:
    query = session.sql("SELECT item, median(id) FROM sales GROUP BY item")
    finding = only(reshape.inspect(query, rows=5_000, workers=WORKERS))
    assert finding.looked is not None
    assert not finding.looked.whole
    assert finding.looked.rows < 6_000
    assert finding.looked.how == f"rows drawn at random out of {ROWS:,}"
    for key, truth in zip(finding.hot, (0.4, 0.1), strict=True):
        assert key.low < truth < key.high
        assert key.high - key.low < 0.05


def test_of_a_large_relation_the_first_rows_of_each_split_are_read(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "WHOLE_BYTES", 1_000)
    query = session.range(0, 100_000, numPartitions=5).selectExpr("IF(id < 20000, 1, id) AS k").groupBy("k")
    finding = only(reshape.inspect(query.agg({"k": "count"}), rows=5_000, workers=WORKERS))
    assert finding.looked is not None
    assert (finding.looked.rows, finding.looked.how) == (5_000, "the first 1,000 rows of each of 5 splits")
    # All rows of the key are in one split: one of five that differ says little, and the interval is wide.
    assert finding.top[0].share == 0.2
    assert (finding.top[0].low, finding.hot) == (0.0, ())
    assert finding.top[0].high > 0.5


def test_keys_behind_two_large_relations_are_not_guessed(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "BESIDE_BYTES", 100)
    found = reshape.inspect(session.sql("SELECT sort, median(id) FROM sales JOIN items USING (item) GROUP BY sort"))
    finding = found.findings[-1]
    assert (finding.looked, finding.hot, finding.times) == (None, (), None)
    assert "several large relations" in finding.reason
    assert "not looked at" in str(found)


def test_an_input_that_spark_fails_on_is_told(session: Any, tmp_path: Path) -> None:
    lost = str(tmp_path / "lost")
    session.range(10).write.parquet(lost)
    query = session.read.parquet(lost).groupBy("id").count()
    for file in Path(lost).glob("*.parquet"):
        file.unlink()
    finding = only(reshape.inspect(query))
    assert finding.looked is None
    assert finding.reason.startswith("Spark: ")


def test_it_prints_and_travels(session: Any) -> None:
    session.sql("SELECT IF(item = 7, '<b>', 'x') AS item, id FROM sales").createOrReplaceTempView("marked")
    found = reshape.inspect(session.sql("SELECT item, median(id) FROM marked GROUP BY item"), workers=WORKERS)
    text = str(found)
    assert max(map(len, text.splitlines())) <= 100
    assert "estimates by the simulator" in text
    page = found._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>," not in page
    written = json.loads(json.dumps(found.as_json()))
    assert written["findings"][0]["remedy"] == "nothing"
    assert written["conclusion"] == found.conclusion


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"workers": 0}])
def test_numbers_that_make_no_sense(session: Any, wrong: dict[str, int]) -> None:
    with pytest.raises(reshape.ParameterError, match=next(iter(wrong))):
        reshape.inspect(session.table("sales"), **wrong)


def test_a_stream_is_refused(session: Any) -> None:
    with pytest.raises(FlowError, match="is a stream"):
        reshape.inspect(session.readStream.format("rate").load())


def test_rows_that_stay_together_bound_what_can_be_gained(session: Any) -> None:
    groups = session.table("sales").select("id", "item").groupBy("item")
    query = groups.applyInPandas(lambda rows: rows, "id long, item long")
    finding = only(reshape.inspect(query, workers=WORKERS))
    assert (finding.operation, finding.keys) == ("function of each group", ("item",))
    assert finding.times is not None
    assert finding.times.reshape == pytest.approx(0.4 * WORKERS)
