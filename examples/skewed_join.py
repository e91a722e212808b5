"""A skewed join whose result can be watched while it grows.

Six of ten sales are in one shop. Spark alone would wait for the worker that has this shop; here other workers help it,
and the counts have the right proportions long before they are complete. Hosts read the Parquet files by themselves.

    .venv/bin/python examples/skewed_join.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import reshape

ROWS, FILES, SHOPS, HOT = 400_000, 8, 100, 7
REGIONS = ("north", "east", "south", "west")
# Stands for a costly step, such as a lookup elsewhere, so that there is time to watch.
SECONDS_PER_ROW = 20e-6


def write_tables(folder: Path) -> None:
    """Sales in several files, so that there are splits to deal out, and shops with their regions in one."""
    rng = np.random.default_rng(1)
    (folder / "sales").mkdir()
    for number in range(FILES):
        rows = ROWS // FILES
        shop = np.where(rng.random(rows) < 0.6, HOT, rng.integers(0, SHOPS, rows))
        sales = pa.table({"shop": shop, "price": rng.integers(1, 100, rows)})
        pq.write_table(sales, folder / "sales" / f"{number}.parquet")
    shops = pa.table({"shop": np.arange(SHOPS), "region": [REGIONS[shop % len(REGIONS)] for shop in range(SHOPS)]})
    pq.write_table(shops, folder / "shops.parquet")


def as_text(counts: pa.Table) -> str:
    by_region = dict(zip(counts["region"].to_pylist(), counts["count"].to_pylist(), strict=True))
    return ", ".join(f"{region} {by_region.get(region, 0):,}" for region in REGIONS)


def main() -> None:
    spark = reshape.local_session(spark_log_level="ERROR")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        sales = spark.read.parquet(str(folder / "sales"))
        shops = spark.read.parquet(str(folder / "shops.parquet"))
        # As a rule Spark would send the few shops to all tasks; here the join is to be the flow's.
        counted = reshape.flow(sales, joins="all").join(shops, "shop").groupBy("region").count()
        query = counted.tuned("join", cost_s_per_row=SECONDS_PER_ROW).start()
        while not query.awaitTermination(timeout=0.5):
            shown = query.shown()
            if shown is not None and not shown.final:
                print(f"{shown.seconds:4.1f} s  {as_text(shown.table)}  ({shown.representativeness})")
        print(f"result  {as_text(query.result().toArrow())}")
        print("what was done about the skew:", *query.story()[:5], sep="\n  ")
        query.release()
    spark.stop()


if __name__ == "__main__":
    main()
