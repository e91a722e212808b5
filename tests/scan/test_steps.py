"""Scans that multiply rows, and that look up rows of others as Spark's broadcast joins do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reshape.scan.planning import plan_scan
from reshape.scan.reading import read_split
from reshape.scan.scan import Expand, LookUp, Scan
from reshape.scan.source import Source

from .conftest import counted, read_all

pytestmark = pytest.mark.jvm


@pytest.fixture
def star(session: Any, tmp_path: Path) -> Any:
    """Sales with missing and unknown items, items with one key twice, and kinds of items."""
    session.sql(
        """select if(id % 7 = 0, null, id % 40) item, id % 5 shop, id amount, (id % 9) / 2.0 size,
        concat('t', id % 3) word from range(3000)"""
    ).repartition(3).write.parquet(str(tmp_path / "sales"))
    session.sql(
        """select if(id = 33, null, id % 30) item, concat('item ', id) name, id % 4 sort, id * 60 least
        from range(34)"""
    ).write.parquet(str(tmp_path / "items"))
    session.sql("select id sort, if(id = 2, -0.0D, double(id)) weight from range(3)").write.parquet(
        str(tmp_path / "kinds")
    )
    for name in ("sales", "items", "kinds"):
        session.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    return session


def lookups(scan: Scan) -> int:
    return sum(isinstance(step, LookUp) for step in scan.steps)


@pytest.mark.parametrize(
    "query",
    [
        "select * from sales join items using (item)",
        "select amount, name from items right join sales on items.item = sales.item and amount > least",
        "select sales.*, name from sales left join items on sales.item = items.item where shop < 3",
        "select * from sales where item in (select item from items where sort = 1)",
        "select * from sales where not exists (select 1 from items where items.item = sales.item)",
        "select * from sales s left join items i on s.item + 1 = i.item and i.least < s.amount",
        "select amount, weight from sales join kinds on size = weight",
        "select word, shop from sales join kinds on shop = sort and word = concat('t', sort)",
        "select /*+ broadcast(items) */ items.* from items join sales on items.item = sales.amount",
        "select 1 one from sales join kinds on shop = sort",
    ],
)
def test_rows_that_spark_broadcasts_are_looked_up(star: Any, query: str, same_as_spark: Callable[[Any], Scan]) -> None:
    assert lookups(same_as_spark(star.sql(query))) == 1


def test_what_is_looked_up_may_look_up_others(star: Any, same_as_spark: Callable[[Any], Scan]) -> None:
    scan = same_as_spark(
        star.sql(
            """select amount, name, weight from sales join (select items.*, weight from items join kinds using (sort)) i
            using (item) left join (select sort shop from kinds) using (shop)"""
        )
    )
    assert 2 <= lookups(scan) <= 3
    assert "joined with" in Source(star.table("sales"), scan).described


def test_two_joins_may_share_what_is_broadcast(star: Any, same_as_spark: Callable[[Any], Scan]) -> None:
    """Spark shares an exchange in plans that are not adaptive."""
    star.conf.set("spark.sql.adaptive.enabled", "false")
    df = star.sql(
        """select amount, a.weight one, b.weight two from sales join kinds a on shop = a.sort
        join kinds b on amount = b.sort"""
    )
    assert "ReusedExchange" in df._jdf.queryExecution().executedPlan().toString()
    assert lookups(same_as_spark(df)) == 2


def test_a_row_is_given_once_for_each_grouping_set(star: Any, same_as_spark: Callable[[Any], Scan]) -> None:
    df = star.sql(
        "select word, shop, sum(amount), grouping_id() from sales join kinds on shop = sort group by cube(1, 2)"
    )
    aggregate = df._jdf.queryExecution().optimizedPlan()
    while aggregate.getClass().getSimpleName() != "Expand":
        aggregate = aggregate.children().head()
    from pyspark.sql import DataFrame

    of_rows = star._jvm.org.apache.spark.sql.classic.Dataset.ofRows
    scan = same_as_spark(DataFrame(of_rows(star._jsparkSession, aggregate), star))
    assert [step.lists for step in scan.steps if isinstance(step, Expand) and len(step.lists) == 4]
    assert not scan.row_by_row


def test_rows_can_be_skipped_behind_a_look_up(star: Any) -> None:
    scan = plan_scan(star.sql("select amount, name from sales join items using (item)"))
    split = scan.splits[0]
    whole = [row for batch in read_split(scan, split, batch_rows=50) for row in batch.to_pylist()]
    rest = [row for batch in read_split(scan, split, batch_rows=70, skip_rows=100) for row in batch.to_pylist()]
    assert rest == whole[100:]


def test_a_join_that_spark_shuffles_is_no_plain_scan(star: Any, reason: Callable[[Any], str]) -> None:
    star.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    assert "a join" in reason(star.sql("select * from sales join items using (item)"))


def test_joins_of_other_kinds_are_sparks(star: Any, reason: Callable[[Any], str]) -> None:
    anti = star.sql("select * from sales where item not in (select item from items)")
    assert "of a kind that hosts do not look up" in reason(anti)
    assert counted(read_all(plan_scan(star.table("sales"))))
