"""The page of a query that runs on Spark. The cost of its rows is emulated, so that there is something to watch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

import reshape
from reshape.page.replay import ReplayedRun
from reshape.page.server import PageServer, open_page

from .conftest import OpenPage

if TYPE_CHECKING:
    from reshape.page.runs import Runs

HOT, ROWS = "m12", 12_000
PACED_ROWS, PAUSE_MS = 250, 400

# Roles come and go: whatever was ever drawn counts.
WATCH = """
window.seen = new Set();
const look = () => {
  for (const node of document.querySelectorAll("[data-role], [data-arrow]")) {
    window.seen.add(node.dataset.role ?? "arrow");
  }
};
new MutationObserver(look).observe(document, { childList: true, subtree: true });
"""


def slow_flow(spark: Any, log: Path) -> reshape.Flow:
    """Four of ten rows have one key. Each row of the join costs its worker two milliseconds, and the input takes its
    time: load that comes all at once is moved in a tenth of a second."""
    from pyspark.sql import functions as F  # noqa: N812

    key = F.when(F.col("id") % 10 < 4, HOT).otherwise(F.concat(F.lit("m"), (F.col("id") % 11 + 1).cast("string")))
    spark = spark.newSession()
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", PACED_ROWS)
    pause = f"java_method('java.lang.Thread', 'sleep', CAST({PAUSE_MS} AS BIGINT))"
    paced = spark.range(0, ROWS, 1, 2).where(f"IF(id % {PACED_ROWS} = 0, {pause}, '') IS NOT NULL")
    rows = paced.select(key.alias("month"), "id")
    months = spark.createDataFrame([(f"m{number}", number) for number in range(1, 13)], "month string, number int")
    flow = reshape.flow(rows, name="on-spark", workers=4, hosts=2, event_log=str(log), joins="all")
    return flow.join(months, "month").groupBy("month").count().tuned("join", cost_s_per_row=0.002)


def descriptions(spark: Any) -> list[str]:
    """Of all jobs that Spark knows."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return [str(jobs.apply(at).description()) for at in range(jobs.size())]


@pytest.fixture
def own_page() -> Any:
    """The page of this process ends with the test: others look for what is left."""
    yield
    open_page().close()


def test_a_query_on_spark_is_watched_paused_explained_and_replayed(
    spark: Any, tmp_path: Path, own_page: None, open_url: OpenPage, served: tuple[Runs, PageServer]
) -> None:
    open_page()
    query = slow_flow(spark, tmp_path).start()
    try:
        page = open_url(query.url, script=WATCH)
        expect(page.locator("h2")).to_have_text("on-spark")
        bar = page.locator(".bars li").filter(has=page.locator(".name", has_text=re.compile(f"^{HOT}$")))
        expect(bar).to_be_visible()
        first = int((bar.locator(".value").get_attribute("title") or "").split(", ")[0].replace(",", ""))
        page.locator("[data-action=pause]").click()
        expect(page.locator(".badge")).to_contain_text("paused")
        page.locator("[data-action=resume]").click()
        expect(page.locator(".badge")).to_contain_text("running")
        page.wait_for_function("['skewed', 'helper', 'arrow'].every((what) => window.seen.has(what))")
        page.locator(".entries button").filter(has=page.locator("[data-kind=started]")).first.click()
        expect(page.locator(".story")).to_contain_text("join")
        assert query.awaitTermination(300)
        expect(page.locator(".badge")).to_have_text("done")
        expect(page.get_by_text("The final result.")).to_be_visible()
        last = int((bar.locator(".value").get_attribute("title") or "").split(", ")[0].replace(",", ""))
        counted = {row["month"]: row["count"] for row in query.result().collect()}
        assert first <= last == counted[HOT]
        assert any(open_page().address in text for text in descriptions(spark))
        assert not any("token" in text for text in descriptions(spark))
    finally:
        query.stop()
        query.release()
    (log,) = tmp_path.glob("*.jsonl")
    runs, server = served
    replayed = open_url(server.url(runs.add(ReplayedRun(log, speed=1_000.0))))
    expect(replayed.get_by_text("The final result.")).to_be_visible()
    expect(replayed.locator(".kind[data-kind=started]").first).to_be_attached()


def test_the_stop_button_stops_a_query_on_spark(spark: Any, tmp_path: Path, own_page: None, open_url: OpenPage) -> None:
    query = slow_flow(spark, tmp_path).start()
    try:
        page = open_url(query.url)
        expect(page.locator(".bars li").first).to_be_visible()
        page.locator("[data-action=stop]").click()
        expect(page.locator(".badge")).to_have_text("stopped")
        assert not query.isActive
        with pytest.raises(reshape.FlowCancelled):
            query.awaitTermination(60)
    finally:
        query.stop()
