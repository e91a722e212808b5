"""An aggregate and a function of your own: the most frequent number of words in the reviews of each shop.

.venv/bin/python examples/own_aggregate.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import reshape

ROWS, SHOPS = 20_000, 5


class MostFrequent:
    """The value that comes most often, the least of them where several do. A state is how often each value came."""

    state_type = pa.map_(pa.int64(), pa.int64())
    output_type = pa.int64()

    def init(self) -> list[tuple[int, int]]:
        return []

    def update(self, state: list[tuple[int, int]], rows: pa.RecordBatch) -> list[tuple[int, int]]:
        counted = rows.column(0).value_counts()
        return self.merge(state, [(each["values"].as_py(), each["counts"].as_py()) for each in counted])

    def merge(self, state: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Parts come from several workers, in any order."""
        counts = dict(state)
        for value, count in other:
            counts[value] = counts.get(value, 0) + count
        return sorted(counts.items())

    def finish(self, state: list[tuple[int, int]]) -> int | None:
        return max(state, key=lambda pair: pair[1])[0] if state else None


def count_words(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on the workers, behind the operator before it; how rows are cut into batches must not matter."""
    for batch in batches:
        words = pc.add(pc.count_substring(batch.column("review"), " "), 1)
        yield pa.record_batch({"shop": batch.column("shop"), "words": words.cast(pa.int64())})


def write_reviews(path: Path) -> None:
    """Half of the reviews are of shop 0; those of shop s have s + 2 words, or two more."""
    rng = np.random.default_rng(1)
    shop = np.where(rng.random(ROWS) < 0.5, 0, rng.integers(0, SHOPS, ROWS))
    words = shop + 2 + 2 * (rng.random(ROWS) < 0.2)
    pq.write_table(pa.table({"shop": shop, "review": [" ".join(["word"] * count) for count in words]}), path)


def main() -> None:
    spark = reshape.local_session(spark_log_level="ERROR")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "reviews.parquet"
        write_reviews(path)
        counted = (
            reshape.flow(spark.read.parquet(str(path)))
            .repartition("shop")
            .mapInArrow(count_words, "shop long, words long")
        )
        frequent = reshape.aggregate(MostFrequent(), "words").alias("frequent")
        for shop, words in sorted(counted.groupBy("shop").agg(frequent).toDF().collect()):
            print(f"shop {shop}: most reviews have {words} words")
    spark.stop()


if __name__ == "__main__":
    main()
