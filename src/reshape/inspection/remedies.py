"""What Spark would do about a hot key, and what a flow would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reshape.inspection.operations import Operation, aggregate_functions
from reshape.inspection.records import KeyShare, Remedy
from reshape.plan.analysis import kind, scala_list

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Their partial results hold all values that came in, so those of one key come together on one worker all the same.
HOLISTIC = {"CollectList", "CollectSet", "ListAgg", "Median", "Mode", "Percentile", "PercentileCont", "PercentileDisc"}
# For each part of a split partition the other side is read again, so that may not be one whose unmatched rows are kept.
SPLITS_LEFT = {"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"}
SPLITS_RIGHT = {"Inner", "Cross", "RightOuter"}
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Advice:
    remedy: Remedy
    spark: str
    reshape: str


def advice(spark: SparkSession, operation: Operation, hot: tuple[KeyShare, ...]) -> Advice:
    """What is done about the hot keys of an operation, by Spark and by a flow."""
    match kind(operation.plan):
        case "Join":
            remedy, words = _join(spark, operation, hot)
            ours = "rows of hot keys are shared with helpers, which get copies of the rows that they meet"
            if remedy is Remedy.BROADCAST:
                ours = "not needed: leave this join to Spark"
        case "Aggregate":
            remedy, words = _aggregate(operation)
            ours = "senders combine rows of a key first; helpers take a part of them, merged in the end"
        case "Window":
            remedy, words = Remedy.NOTHING, "nothing: all rows of a key go to one task, which sorts and holds them"
            ours = "helpers sort a part of the rows; merging them at their own worker comes on top of the time below"
        case "Sort":
            remedy, words = Remedy.NOTHING, "nothing: rows with equal keys go to one task, however many they are"
            ours = "rows of a range are shared with helpers, which sort their part"
        case _:
            remedy, words = Remedy.NOTHING, "nothing: all rows of a key go to one task"
            ours = "other keys move away from the worker of a hot one, whose own rows stay together"
            if not operation.is_ordered:
                ours = "rows are shared with helpers"
    return Advice(remedy, words, ours if hot else "not needed")


def _join(spark: SparkSession, operation: Operation, hot: tuple[KeyShare, ...]) -> tuple[Remedy, str]:
    planned = _physical_join(spark, operation.plan)
    if "Broadcast" in planned:
        return Remedy.BROADCAST, "broadcast: the smaller side goes to all tasks, and no row is sent by its key"
    how = {"SortMergeJoinExec": "sort-merge join", "ShuffledHashJoinExec": "shuffled hash join"}.get(planned, planned)
    if not hot:
        return Remedy.NOTHING, f"{how}; no key is hot"
    refused = _no_skew_join(spark, operation, hot[0].share)
    if refused:
        return Remedy.NOTHING, f"{how}, nothing about the hot key: {refused}"
    return Remedy.SKEW_JOIN, f"{how}, whose large partitions AQE splits"


def _physical_join(spark: SparkSession, plan: Any) -> str:
    """The class of the join in Spark's physical plan."""
    jvm: Any = spark._jvm
    physical = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan).queryExecution().sparkPlan()
    while "Join" not in kind(physical) and physical.children().length() == 1:
        physical = scala_list(physical.children())[0]
    return kind(physical)


def _no_skew_join(spark: SparkSession, operation: Operation, share: float) -> str:
    """Why AQE would not split the partition of a key with this share; empty where it would."""
    conf = spark.conf
    for key in ("spark.sql.adaptive.enabled", "spark.sql.adaptive.skewJoin.enabled"):
        if conf.get(key) != "true":
            return f"{key} is off"
    join_type = kind(operation.plan.joinType()).removesuffix("$")
    if join_type not in (SPLITS_LEFT if operation.side == "left" else SPLITS_RIGHT):
        return f"AQE does not split the {operation.side} side of this kind of join"
    size = int(str(operation.child.stats().sizeInBytes()))
    partitions = int(conf.get("spark.sql.shuffle.partitions") or 200)
    largest, other = share * size, (1 - share) * size / partitions
    threshold = _bytes_of(spark, "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes")
    factor = float(conf.get("spark.sql.adaptive.skewJoin.skewedPartitionFactor") or 5)
    if largest <= threshold:
        return (
            f"its partition has about {largest / MIB:,.0f} MiB, and AQE splits those above {threshold / MIB:,.0f} MiB"
        )
    if largest <= factor * other:
        return f"its partition is less than {factor:g} times as large as the others"
    return ""


def _bytes_of(spark: SparkSession, key: str) -> int:
    jvm: Any = spark._jvm
    return int(jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(spark.conf.get(key)))


def _aggregate(operation: Operation) -> tuple[Remedy, str]:
    functions = aggregate_functions(operation.plan)
    if "PythonUDAF" in functions:
        return Remedy.NOTHING, "nothing: a function in Python gets all rows of a key in one task"
    holistic = sorted(set(functions) & HOLISTIC)
    if holistic:
        return Remedy.NOTHING, f"nothing: {', '.join(holistic)} needs all values of a key in one task"
    return Remedy.PARTIAL_AGGREGATION, "partial aggregation: each task sends one row of each key"
