"""Spark's physical plan of a scan, read through the JVM gateway: its nodes, and the splits that Spark made."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.types as pat

from reshape.plan.analysis import kind, scala_list
from reshape.scan.errors import NotReadable
from reshape.scan.scan import Split

_WRAPPERS = {"WholeStageCodegenExec", "InputAdapter", "ColumnarToRowExec"}

# What users know a physical node as; the first pattern that its class's name has in it.
_WORDS = (
    (r"InMemoryTableScan", "rows that are cached"),
    (r"TableCacheQueryStage", "rows that are cached"),
    (r"Join|CartesianProduct", "a join"),
    (r"Aggregate", "an aggregation"),
    (r"Limit|TakeOrdered", "a limit"),
    (r"Sample", "a sample"),
    (r"Window", "a window function"),
    (r"Generate", "a generator such as explode"),
    (r"Python|InPandas|InArrow|MapElements|MapPartitions|DeserializeToObject", "a function outside of Spark's own"),
    (r"Sort", "a sort"),
    (r"Exchange|Coalesce", "a repartition"),
    (r"Union", "a union"),
    (r"BatchScan", "a source of Spark's second interface (DataSource V2)"),
    (r"RowDataSourceScan|HiveTableScan", "a source that is no file"),
    (r"RDDScan|ExternalRDD", "rows of an RDD"),
    (r"LocalTableScan|OneRowRelation|EmptyRelation", "rows that the driver holds"),
    (r"Range", "a range"),
)

# A split as Spark holds it: partition values, path, start, length, hosts, time of the last change, size, other values.
_FIELDS_OF_A_FILE = 8
_SEPARATOR = "\x01"


@dataclass(frozen=True, slots=True)
class BroadcastJoin:
    """A join with rows that Spark sends to all tasks."""

    node: Any
    broadcast: PhysicalScan
    builds_left: bool


@dataclass(frozen=True, slots=True)
class PhysicalScan:
    """The plan from the scan upwards: what rows pass, in the order in which they do. ``output`` are the attributes of
    the last node."""

    scan: Any
    nodes: tuple[Any | BroadcastJoin, ...]
    output: tuple[Any, ...]


def physical_scan(executed_plan: Any) -> PhysicalScan:
    """Raises NotReadable where more stands over one file scan than filters, projections, expansions and joins with
    other such scans that Spark broadcasts."""
    nodes: list[Any | BroadcastJoin] = []
    node = executed_plan
    while True:
        name = kind(node)
        if name == "AdaptiveSparkPlanExec":
            node = node.initialPlan()
            continue
        if not node.subqueries().isEmpty():
            raise NotReadable("it has a subquery")
        if name == "FileSourceScanExec":
            return PhysicalScan(node, tuple(reversed(nodes)), tuple(scala_list(executed_plan.output())))
        if name == "BroadcastHashJoinExec":
            builds_left = str(node.buildSide().toString()) == "BuildLeft"
            sent, streamed = (node.left(), node.right()) if builds_left else (node.right(), node.left())
            # An exchange that two joins share shows the second one attributes of its own.
            broadcast = replace(physical_scan(_broadcast(sent)), output=tuple(scala_list(sent.output())))
            nodes.append(BroadcastJoin(node, broadcast, builds_left))
            node = streamed
            continue
        if name in ("ProjectExec", "FilterExec", "ExpandExec"):
            nodes.append(node)
        elif name not in _WRAPPERS:
            raise NotReadable(f"it has {_in_words(name)}, which is no plain scan of files")
        node = node.child()


def _broadcast(exchange: Any) -> Any:
    """What is broadcast; two joins may share an exchange."""
    while kind(exchange) in ("ReusedExchangeExec", "BroadcastExchangeExec", "InputAdapter"):
        exchange = exchange.child()
    return exchange


def _in_words(name: str) -> str:
    return next((words for pattern, words in _WORDS if re.search(pattern, name)), f"a {name.removesuffix('Exec')}")


def planned_splits(scan: Any, partition_numbers: Sequence[int], partition_types: Sequence[pa.DataType]) -> list[Split]:
    """The splits as Spark made them; asking for them lists files and prunes partitions, and runs no job."""
    rdd = scan.inputRDD()
    if kind(rdd) != "FileScanRDD":
        raise NotReadable(f"Spark reads it by a {kind(rdd)}")
    fields = scan.relation().partitionSchema().fields()
    data_types = [fields[number].dataType() for number in partition_numbers]
    values_of: dict[tuple[str, str], tuple[Any, ...]] = {}
    splits = []
    for partition in scala_list(rdd.filePartitions()):
        for file in partition.files():
            # One call for all the numbers: each call to the JVM costs more than the rest of this loop.
            fields_of_file = file.productIterator().mkString(_SEPARATOR).rsplit(_SEPARATOR, _FIELDS_OF_A_FILE - 1)
            if len(fields_of_file) != _FIELDS_OF_A_FILE:
                raise NotReadable("this version of Spark describes splits in a way that is not understood")
            row, path, start, length, _, modified, size, _ = fields_of_file
            local = local_path(path)
            folder = (os.path.dirname(local), row)
            if folder not in values_of:
                values_of[folder] = _values(file.partitionValues(), partition_numbers, data_types, partition_types)
            splits.append(Split(local, int(start), int(length), values_of[folder], int(size), int(modified)))
    return splits


def local_path(url: str) -> str:
    """The path of a `file:` URL as the operating system knows it. Raises NotReadable for other file systems."""
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc:
        raise NotReadable(f"its files are on {parts.scheme or 'an unnamed file system'}: hosts read local files only")
    return unquote(parts.path, errors="surrogateescape")


def _values(
    row: Any, numbers: Sequence[int], data_types: Sequence[Any], arrow_types: Sequence[pa.DataType]
) -> tuple[Any, ...]:
    """A folder's partition values as Python holds them."""
    return tuple(
        None if row.isNullAt(number) else _converter(arrow_type)(row.get(number, data_type))
        for number, data_type, arrow_type in zip(numbers, data_types, arrow_types, strict=True)
    )


def _converter(arrow_type: pa.DataType) -> Callable[[Any], Any]:
    if pat.is_string(arrow_type):
        return lambda value: bytes(value.getBytes()).decode()
    if pat.is_decimal(arrow_type):
        return lambda value: Decimal(value.toString())
    if pat.is_binary(arrow_type):
        return bytes
    return lambda value: value
