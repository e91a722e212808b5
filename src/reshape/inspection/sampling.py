"""Keys of an operation's input, counted by Spark on a sample that is bounded.

An input is made of *scans*: a relation with the projections and filters right above it. The largest of them is sampled,
the others are read whole, so that each row of the sample meets in joins what it would meet anyway.

- A scan of at most `WHOLE_BYTES` is read whole, and rows are drawn out of it at random.
- A larger one gives the first rows of each of its splits. No split is left out, so files that came later than others
  are looked at too, and rows beyond are not read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reshape.errors import ReshapeError
from reshape.inspection.operations import Operation
from reshape.inspection.records import Looked
from reshape.plan.analysis import analyzed, as_column, kind, scala_list

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# So much is read in a second or two by a few cores.
WHOLE_BYTES = 128 * 1024 * 1024
# Scans beside the sampled one are read as often as there are operations above them.
BESIDE_BYTES = 1024 * 1024 * 1024
# The first rows of a split alone say little about it.
LEAST_OF_SPLIT = 100
SEED = 13
_LONGEST_NAME = 60


class NotLookedAt(ReshapeError):
    """An input that cannot be sampled; says why."""


@dataclass(frozen=True, slots=True)
class KeyCount:
    """``squares``: the sum over splits of its rows in each, squared."""

    values: tuple[Any, ...]
    rows: int
    squares: float


@dataclass(frozen=True, slots=True)
class Sampled:
    """Keys with the most rows, most first. ``splits`` is 0 where rows were drawn one by one."""

    keys: tuple[KeyCount, ...]
    looked: Looked
    splits: int


@dataclass(frozen=True, slots=True)
class _Scan:
    """``path``: which child of which child it is, from the operation's input down."""

    path: tuple[int, ...]
    plan: Any

    @property
    def bytes(self) -> int:
        """Of the relation, whatever filters leave of it."""
        return int(str(self._leaf.stats().sizeInBytes()))

    @property
    def name(self) -> str:
        return str(self._leaf.simpleString(5)).partition("[")[0].strip()[:_LONGEST_NAME]

    @property
    def _leaf(self) -> Any:
        [leaf] = scala_list(self.plan.collectLeaves())
        return leaf


@dataclass(frozen=True, slots=True)
class _Drawn:
    plan: Any
    whole: bool
    splits: int
    how: str


class Sampler:
    """Takes samples of at most ``rows`` rows in one session."""

    def __init__(self, spark: SparkSession, rows: int, most_keys: int) -> None:
        self._spark = spark
        self._rows = rows
        self._most_keys = most_keys

    def counted(self, operation: Operation) -> Sampled:
        """The keys of an operation's input. Raises `NotLookedAt`, and what Spark raises while it reads."""
        largest, *others = sorted(_scans(operation.child), key=lambda scan: scan.bytes, reverse=True)
        beside = [scan.name for scan in others if scan.bytes > BESIDE_BYTES]
        if beside:
            raise NotLookedAt(
                f"its input joins several large relations ({', '.join([largest.name, *beside])}); keys behind such a "
                "join are not known before it has run. Write its result to a table and inspect the rest"
            )
        drawn = self._drawn(largest)
        frame = self._frame(self._replaced(operation.child, largest.path, drawn.plan))
        if largest.path:  # rows have met others since, or were brought together
            drawn = replace(drawn, how=drawn.how if drawn.whole else f"what comes of {drawn.how}", splits=0)
        return self._count(frame, operation, drawn)

    def _drawn(self, scan: _Scan) -> _Drawn:
        frame = self._frame(scan.plan)
        if scan.bytes <= WHOLE_BYTES:
            rows = frame.count()
            if rows <= self._rows:
                return _Drawn(scan.plan, True, 0, "all rows")
            sample = frame.sample(self._rows / rows, SEED)
            return _Drawn(analyzed(sample), False, 0, f"rows drawn at random out of {rows:,}")
        splits = max(1, frame.rdd.getNumPartitions())
        each = max(LEAST_OF_SPLIT, -(-self._rows // splits))
        # Spark's limit is one of each partition, and above it one of all: the first is wanted alone.
        limited = analyzed(frame.limit(each)).child()
        return _Drawn(limited, False, splits, f"the first {each:,} rows of each of {splits:,} splits")

    def _count(self, frame: DataFrame, operation: Operation, drawn: _Drawn) -> Sampled:
        from pyspark.sql import functions as F  # noqa: N812

        columns = [as_column(key).alias(f"k{number}") for number, key in enumerate(operation.expressions)]
        # As a text each key can be counted and shown, structs and arrays too.
        key = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}) if columns else F.lit("{}")
        split = F.spark_partition_id() if drawn.splits else F.lit(0)
        parts = frame.select(key.alias("key"), split.alias("split")).groupBy("key", "split").count()
        square = F.col("count").cast("double") * F.col("count")
        # All rows are counted beside the keys: a window would bring these to one task, with warnings of Spark.
        keys = parts.rollup("key").agg(
            F.grouping("key").alias("all"), F.sum("count").alias("rows"), F.sum(square).alias("squares")
        )
        found = keys.orderBy(F.desc("all"), F.desc("rows"), "key").limit(self._most_keys + 1).collect()
        rows = found.pop(0)["rows"] if found else 0
        counts = [KeyCount(tuple(json.loads(row["key"]).values()), row["rows"], row["squares"]) for row in found]
        looked = Looked(rows, drawn.whole, drawn.how)
        return Sampled(tuple(counts), looked, drawn.splits)

    def _replaced(self, plan: Any, path: tuple[int, ...], by: Any) -> Any:
        """The same plan with another one at a place."""
        if not path:
            return by
        children = scala_list(plan.children())
        children[path[0]] = self._replaced(children[path[0]], path[1:], by)
        jvm: Any = self._spark._jvm
        return plan.withNewChildren(jvm.PythonUtils.toSeq(children))

    def _frame(self, plan: Any) -> DataFrame:
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

        jvm: Any = self._spark._jvm
        made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, plan)
        return ClassicDataFrame(made, self._spark)


def _scans(plan: Any, path: tuple[int, ...] = ()) -> list[_Scan]:
    """The relations of a plan, each with the projections and filters right above it."""
    if _is_scan(plan):
        return [_Scan(path, plan)]
    children = enumerate(scala_list(plan.children()))
    return [scan for number, child in children for scan in _scans(child, (*path, number))]


def _is_scan(plan: Any) -> bool:
    while kind(plan) in ("Project", "Filter"):
        plan = plan.child()
    return bool(plan.children().isEmpty())
