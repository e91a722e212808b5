"""Asks Spark what a DataFrame reads, and plans how hosts read the same by Arrow. Refuses what would not be the same."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.expressions.errors import NotExact
from reshape.expressions.translate import SessionFacts, session_facts
from reshape.plan.analysis import kind, scala_list
from reshape.plan.types import to_arrow
from reshape.scan.errors import NotReadable
from reshape.scan.footers import with_footers
from reshape.scan.passage import Passage
from reshape.scan.physical import BroadcastJoin, PhysicalScan, physical_scan, planned_splits
from reshape.scan.scan import Scan, ScanColumn
from reshape.scan.settings import read_facts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"

# Spark's types that Arrow reads from Parquet to the bit; those with parts are looked at part by part.
_FLAT = {
    "BooleanType",
    "ByteType",
    "ShortType",
    "IntegerType",
    "LongType",
    "FloatType",
    "DoubleType",
    "DecimalType",
    "StringType",
    "BinaryType",
    "DateType",
    "TimestampType",
    "TimestampNTZType",
}

# Marks in a column's metadata that change what Spark reads.
_MARKS = {
    "EXISTS_DEFAULT": "a default value for rows that were written before it",
    "__VARIANT_METADATA_KEY": "a part of a variant",
    "__metadata_col": "a column about the file",
}


def plan_scan(df: DataFrame, *, most_footers: int = 1_000) -> Scan:
    """How hosts read what the DataFrame reads. Raises NotReadable with the reason; runs no Spark job.

    The footers of up to `most_footers` files are looked at here, and more files are left to Spark. The task that
    reads a split looks at its footer again and raises SplitUnreadable for what was not found here.
    """
    if not hasattr(df, "_jdf"):
        raise NotReadable("its plan is not at hand: the session is one of Spark Connect")
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        scan = _scan(df)
    except (Py4JError, PySparkException) as error:
        # Spark says it again, and better, when the DataFrame goes its way.
        raise NotReadable(f"Spark did not plan it as expected: {str(error).splitlines()[0]}") from error
    return with_footers(scan, most_footers)


def _scan(df: DataFrame) -> Scan:
    """What Spark alone can say of the scan: all but what is in the files."""
    if df.isStreaming:
        raise NotReadable("it is a stream")
    plan = physical_scan(df._jdf.queryExecution().executedPlan())
    scan = _planned(df.sparkSession, plan, session_facts(df.sparkSession))
    schema = to_arrow(df.schema)
    if scan.schema.types != schema.types:  # a row that leaves the last step must be one of the DataFrame's
        raise NotReadable(f"its rows are {schema.types} and would be read as {scan.schema.types}")
    return replace(scan, schema=schema)


def _planned(spark: SparkSession, plan: PhysicalScan, session: SessionFacts) -> Scan:
    """A scan whose columns have numbers for names."""
    required, partitions = _schemas(plan.scan)
    facts = read_facts(spark, plan.scan.relation().options(), required)
    partition_numbers = _partition_numbers(plan.scan, required, partitions)
    columns = tuple(ScanColumn(field.name, kind_) for field, kind_ in zip(required, _types(required), strict=True))
    partition_types = _types(partitions)
    partition_columns = tuple(ScanColumn(partitions[i].name, partition_types[i]) for i in partition_numbers)
    types = [column.type for column in (*columns, *partition_columns)]
    passage = Passage(scala_list(plan.scan.output()), types, session)
    for node in plan.nodes:
        try:
            if isinstance(node, BroadcastJoin):
                passage.look_up(node, _planned(spark, node.broadcast, session))
            else:
                passage.take(node)
        except NotExact as error:
            raise NotReadable(str(error)) from None
    splits = planned_splits(plan.scan, partition_numbers, [column.type for column in partition_columns])
    return Scan(passage.schema, columns, partition_columns, tuple(passage.steps), facts, tuple(splits))


def _schemas(scan: Any) -> tuple[StructType, StructType]:
    """The columns that Spark reads from files, and the columns that folders give."""
    from pyspark.sql.types import StructType

    relation = scan.relation()
    if relation.fileFormat().getClass().getName() != _PARQUET:
        raise NotReadable(f"its files are read by {kind(relation.fileFormat())}, and hosts read Parquet only")
    if scan.stream().isDefined():
        raise NotReadable("it is a stream")
    required = StructType.fromJson(json.loads(scan.requiredSchema().json()))
    partitions = StructType.fromJson(json.loads(relation.partitionSchema().json()))
    for field in (*required, *partitions):
        _refuse_type(field.name, field.dataType)
    for field in required:
        _refuse_marks(field)
    return required, partitions


def _refuse_type(name: str, data_type: DataType) -> None:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(data_type, StructType):
        for field in data_type:
            _refuse_marks(field)
            _refuse_type(f"{name}.{field.name}", field.dataType)
        if len(data_type) == 0:
            raise NotReadable(f"column {name} is a struct without fields")
    elif isinstance(data_type, ArrayType):
        _refuse_type(name, data_type.elementType)
    elif isinstance(data_type, MapType):
        _refuse_type(name, data_type.keyType)
        _refuse_type(name, data_type.valueType)
    elif type(data_type).__name__ not in _FLAT:
        raise NotReadable(f"column {name} is of type {data_type.simpleString()}, which hosts do not read")


def _refuse_marks(field: StructField) -> None:
    for mark, words in _MARKS.items():
        if mark in (field.metadata or {}):
            raise NotReadable(
                f"column {field.name} has {words}" if mark == "EXISTS_DEFAULT" else f"{field.name} is {words}"
            )


def _types(schema: StructType) -> list[pa.DataType]:
    return list(to_arrow(schema).types)


def _partition_numbers(scan: Any, required: StructType, partitions: StructType) -> list[int]:
    """Which partition columns the scan gives behind its file columns. Refuses other columns, such as `_metadata`."""
    names = [str(attribute.name()) for attribute in scala_list(scan.output())]
    stored_names = {field["name"] for field in json.loads(scan.relation().dataSchema().json())["fields"]}
    for name in required.names:
        if name not in stored_names:
            raise NotReadable(f"{name} is a column about the file")
    if names[: len(required)] != required.names:
        raise NotReadable("Spark reads its columns in an order that is not understood")
    numbers = []
    for name in names[len(required) :]:
        if name not in partitions.names:
            raise NotReadable(f"{name} is a column about the file")
        numbers.append(partitions.names.index(name))
    return numbers
