"""The two tables of W4 as Spark DataFrames: keys and values, with a distribution that changes after a quarter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reshape.datasets.draws import bits, choice
from reshape.datasets.synthetic import KEYS, changing_distribution

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def changing_table(spark: SparkSession, rows: int, *, partitions: int = 2, seed: int = 1) -> DataFrame:
    """``key`` and ``value``; ``value`` is the place in the sequence of rows.

    Rows are dealt out to the partitions in turn, so that all partitions that run side by side come to the change at the
    same time: have no more partitions than the sources have task slots to see one change.
    """
    before, after = changing_distribution()
    change = rows * sum(before.values()) // (sum(before.values()) + sum(after.values()))
    each = -(-rows // partitions)
    dealt = (
        spark.range(0, each * partitions, 1, partitions)
        .selectExpr(f"id % {each} * {partitions} + id DIV {each} AS value")
        .where(f"value < {rows}")
        .selectExpr("value", f"{bits('value', seed, 'key')} AS draw")
    )
    key = f"IF(value < {change}, {choice(before, 'draw')}, {choice(after, 'draw')})"
    return dealt.selectExpr(f"{key} AS key", "value")


def even_table(spark: SparkSession, rows: int) -> DataFrame:
    """``key`` and ``even_value``; each key as often as any other."""
    return spark.range(0, rows, 1, 1).selectExpr(f"CAST(id % {KEYS} AS INT) AS key", "id AS even_value")
