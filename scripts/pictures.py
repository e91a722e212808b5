"""Takes the pictures of `docs/pictures` from a live page, while the queries that it shows run on Spark.

The cost of a row is emulated, so that there is something to see. Needs Chromium: .venv/bin/python scripts/pictures.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import Browser, Page, sync_playwright
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.query import Query

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
ROWS, FILES = 48_000, 48
COST_S = 0.002
HOT_PART = 0.4  # of the tweets are of the last month
SHAPES = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]


def tables(spark: SparkSession, folder: Path) -> tuple[DataFrame, DataFrame]:
    """Tweets with their month, and a little about each month."""
    rng = np.random.default_rng(7)
    months = np.array([f"2020-{number:02}" for number in range(1, 13)])
    drawn = np.where(rng.random(ROWS) < HOT_PART, 11, rng.integers(0, 11, ROWS))
    tweets = pa.table({"month": months[drawn], "likes": rng.poisson(20, ROWS)})
    (folder / "tweets.parquet").mkdir()
    for number in range(FILES):
        part = tweets.slice(number * ROWS // FILES, ROWS // FILES)
        pq.write_table(part, folder / "tweets.parquet" / f"{number}.parquet")
    pq.write_table(pa.table({"month": months, "season": np.arange(12) // 3}), folder / "months.parquet")
    tweets_of, months_of = (spark.read.parquet(str(folder / f"{name}.parquet")) for name in ("tweets", "months"))
    return tweets_of, months_of


def joined(tweets: DataFrame, months: DataFrame, strategy: str) -> Query:
    counted = tweets.join(months, "month").groupBy("month").count()
    flow = reshape.flow(counted, name=f"tweets per month, {strategy}", hosts=2, workers=8, strategy=strategy)
    return flow.options(joins="all").tuned("join", cost_s_per_row=COST_S).start()


def grouped(tweets: DataFrame) -> Query:
    flow = reshape.flow(tweets, name="likes per month", hosts=2, workers=8, combine=False, cost_s_per_row=COST_S)
    return flow.groupBy("month").sum("likes").start()


@contextmanager
def page_of(browser: Browser, url: str, width: int, scheme: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(url)
    page.locator(".bars li").first.wait_for()
    yield page
    context.close()


def keep(page: Page, name: str) -> None:
    page.screenshot(path=str(PICTURES / f"{name}.png"), full_page=True)
    print(f"{name}.png")


def until_processed(query: Query, part: float) -> None:
    """By the first operator's last input."""
    while query.isActive:
        progress = query.lastProgress
        rows = 0 if progress is None else sum(each.rows_processed[-1] for each in progress.workers if not each.operator)
        if rows > part * ROWS:
            return
        time.sleep(0.05)


def main() -> int:
    browser_path = shutil.which("chromium")
    if browser_path is None:
        print("there is no Chromium: sudo apt-get install chromium", file=sys.stderr)
        return 2
    spark = reshape.local_session(cores=4)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        tweets, months = tables(spark, Path(folder))
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        reshape.flow(tweets).groupBy("month").count().count()  # processes are warm from here on
        for width, scheme in SHAPES:
            query = joined(tweets, months, "reshape")
            with page_of(browser, query.url, width, scheme) as page:
                until_processed(query, 0.35)
                keep(page, f"page-{scheme}-{width}")
            query.awaitTermination()
        both = [joined(tweets, months, strategy) for strategy in ("none", "reshape")]
        with page_of(browser, both[1].url, 1280, "light") as page:
            page.get_by_label("Beside it").select_option(index=len(SHAPES) + 1)
            until_processed(both[1], 0.35)
            keep(page, "page-two-1280")
        for query in both:
            query.stop()
        query = grouped(tweets)
        with page_of(browser, query.url, 1280, "light") as page:
            until_processed(query, 0.4)
            keep(page, "page-estimates-1280")
        query.stop()
        browser.close()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
