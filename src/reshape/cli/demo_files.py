"""The last part of `reshape demo`: a skewed query on real Parquet files, by Spark alone and as a flow."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reshape.cli.demo_run import DemoFailed
from reshape.cli.running import saying, watch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from rich.console import Console

HOT, ITEMS = 7, 2_000
# Two fifths of all sales are of one item.
SALES = (f"IF(id % 5 < 2, {HOT}, abs(hash(id) % {ITEMS})) AS item", "rand(7) AS price")
QUERY = "SELECT item, count(*) AS sold, round(median(price), 9) AS price FROM sales GROUP BY item"


@dataclass(frozen=True, slots=True)
class FilesPart:
    """Nothing in it is emulated: seconds are those of this machine."""

    rows: int
    groups: int
    spark_s: float
    flow_s: float
    first_s: float | None

    def words(self) -> str:
        shown = "" if self.first_s is None else f", and showed a first result {self.first_s:.1f} s after it was ready"
        return (
            f"Real files: {self.rows:,} sales in Parquet, two fifths of them of one item, the median price of each of "
            f"{self.groups:,} items. Spark alone took {self.spark_s:.1f} s, the flow {self.flow_s:.1f} s{shown}. Both "
            "gave the same rows. On so few cores nobody waits for a hot key, so this shows that it is right, not that "
            "it is faster."
        )


def files_part(console: Console, spark: SparkSession, directory: Path, rows: int) -> FilesPart:
    """Make the files, run the query both ways, compare."""
    import reshape

    session = spark.newSession()
    where = str(directory / "sales")
    with saying(console, f"writing {rows:,} sales as Parquet files"):
        session.range(0, rows, numPartitions=4).selectExpr(*SALES).write.parquet(where)
    session.read.parquet(where).createOrReplaceTempView("sales")
    query = session.sql(QUERY)
    with saying(console, "the query by Spark alone"):
        expected, spark_s = _timed(query)
    began = time.monotonic()
    running = reshape.flow(query, name="real files").start()
    watch(console, running, quiet=False)
    found, _ = _timed(running.result())
    flow_s = time.monotonic() - began
    if found != expected:
        raise DemoFailed(f"real files: the flow's rows differ from Spark's ({len(found)} and {len(expected)})")
    first = running.first_partial
    running.release()
    return FilesPart(rows, len(expected), spark_s, flow_s, None if first is None else first.seconds)


def _timed(df: DataFrame) -> tuple[list[Any], float]:
    began = time.monotonic()
    rows = sorted(df.collect())
    return rows, time.monotonic() - began
