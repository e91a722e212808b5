"""Flows beside the same queries in plain Spark, on a given master; prints what came out as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import reshape
from reshape.machine.java import ensure_java

KINDS = ("inner", "left", "right", "full", "left_semi", "left_anti")


def session(master: str, python: str) -> SparkSession:
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    return (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "2")
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.executor.extraJavaOptions", options)
        .getOrCreate()
    )


def modules(spark: SparkSession) -> list[Any]:
    """Whether executors find reshape, and where they run."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib.util

        found = importlib.util.find_spec("reshape") is not None
        for _ in batches:
            yield pa.record_batch({"found": [found], "executable": [sys.executable]})

    df = spark.range(0, 4, 1, 4).mapInArrow(look, "found boolean, executable string")
    return sorted({(row["found"], row["executable"]) for row in df.collect()})


def rows(df: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in df.collect())


def pairs(spark: SparkSession) -> Iterator[tuple[str, DataFrame, DataFrame]]:
    facts = spark.range(0, 3000, 1, 3).selectExpr(
        "CASE WHEN id % 3 = 0 THEN 7 WHEN id % 11 = 0 THEN NULL ELSE id % 97 END AS k", "id AS v"
    )
    names = spark.range(0, 140, 1, 2).selectExpr("id % 110 AS k", "concat('n', id) AS name")
    for how in KINDS:
        yield f"{how} join", reshape.flow(facts, joins="all").join(names, "k", how).toDF(), facts.join(names, "k", how)
    totals = [F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("last")]
    yield "group-by", reshape.flow(facts, joins="all").groupBy("k").agg(*totals).toDF(), facts.groupBy("k").agg(*totals)
    factor = 3

    def scaled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"name": batch.column("name"), "w": pc.multiply(batch.column("v"), factor)})

    chain = reshape.flow(facts, joins="all").join(names, "k").mapInArrow(scaled, "name string, w long").groupBy("name")
    plain = facts.join(names, "k").selectExpr("name", f"v * {factor} AS w").groupBy("name")
    yield "chain", chain.agg(F.sum("w").alias("s")).toDF(), plain.agg(F.sum("w").alias("s"))


def main() -> None:
    spark = session(sys.argv[1], sys.argv[2])
    found: dict[str, Any] = {"before": modules(spark), "master": spark.sparkContext.master}
    for name, got, want in pairs(spark):
        found[name] = rows(got) == rows(want)
    order = [F.col("v").desc()]
    numbers = spark.range(0, 3000, 1, 3).selectExpr("(id * 7919) % 3001 AS v")
    found["sort"] = [
        row["v"] for row in reshape.flow(numbers, hosts=2, workers=4).orderBy(*order).toDF().collect()
    ] == [row["v"] for row in numbers.orderBy(*order).collect()]
    found["after"] = modules(spark)
    spark.stop()
    assert sys.__stdout__ is not None
    sys.__stdout__.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
