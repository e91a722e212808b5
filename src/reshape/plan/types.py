"""Spark's types and Arrow's, and the type in which two columns can meet, as Spark's analyzer finds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pat

from reshape.errors import FlowError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

# Digits that an integer of so many bytes may have; a decimal needs room for them.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}

_UTC = {"UTC", "Etc/UTC", "GMT", "Z", "+00:00", "Zulu"}


def to_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema of rows with this Spark schema. Timestamps count from 1970 UTC whatever the session's zone."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([field.remove_metadata() for field in arrow])


def to_spark(schema: pa.Schema) -> StructType:
    """The Spark schema of Arrow rows."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def spark_type(kind: pa.DataType) -> DataType:
    return to_spark(pa.schema([pa.field("x", kind)]))[0].dataType


def arrow_type(kind: DataType) -> pa.DataType:
    from pyspark.sql.types import StructField, StructType

    return to_arrow(StructType([StructField("x", kind)])).field(0).type


def type_name(kind: pa.DataType) -> str:
    """A type as Spark's users know it."""
    try:
        return spark_type(kind).simpleString()
    except Exception:  # a type that Spark lacks is still worth naming
        return str(kind)


def key_type(spark: SparkSession, left: pa.Field, right: pa.Field) -> pa.DataType:
    """The type in which Spark compares two key columns. Raises where it has none."""
    if left.type == right.type:
        return left.type
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812

    try:
        compared = _nulls(spark, [left.type, right.type]).where(F.col("c0") == F.col("c1"))
    except AnalysisException as error:
        raise FlowError(
            f"join: key {left.name!r} is {type_name(left.type)} and key {right.name!r} is {type_name(right.type)}, "
            "and Spark does not compare these; cast one of them in the DataFrame that the flow reads"
        ) from error
    condition: Any = compared._jdf.queryExecution().analyzed().condition()
    return arrow_type(_parsed(spark, condition.left().dataType().json()))


def shown_key_type(spark: SparkSession, left: pa.Field, right: pa.Field) -> pa.DataType:
    """The type of the one key column that a full join on names shows; without ANSI rules it may not be `key_type`."""
    from pyspark.sql import functions as F  # noqa: N812

    met = _nulls(spark, [left.type, right.type]).select(F.coalesce("c0", "c1"))
    return to_arrow(met.schema).field(0).type


def row_types(spark: SparkSession, what: str, left: pa.Schema, right: pa.Schema) -> list[pa.DataType]:
    """The types in which Spark brings the rows of two inputs together, by position. Raises where it cannot."""
    if len(left) != len(right):
        raise FlowError(
            f"{what}: the left side has {len(left)} columns ({', '.join(left.names)}) and the right side {len(right)} "
            f"({', '.join(right.names)}); select the same number of columns on both"
        )
    if left.types == right.types:
        return list(left.types)
    from pyspark.errors import AnalysisException

    try:
        met = _nulls(spark, left.types).union(_nulls(spark, right.types))
    except AnalysisException as error:
        differing = [
            f"{mine.name!r} ({type_name(mine.type)}) with {theirs.name!r} ({type_name(theirs.type)})"
            for mine, theirs in zip(left, right, strict=True)
            if mine.type != theirs.type
        ]
        raise FlowError(
            f"{what}: Spark has no type for {', '.join(differing)}; cast one of them in the DataFrame that the flow "
            "reads"
        ) from error
    return list(to_arrow(met.schema).types)


def exact_cast(spark: SparkSession, from_type: pa.DataType, to_type: pa.DataType) -> bool:
    """Whether Arrow's cast gives what Spark's gives for every value."""
    if from_type == to_type or pat.is_null(from_type):
        return True
    if pat.is_integer(from_type):
        if pat.is_decimal(to_type):
            return bool(to_type.precision - to_type.scale >= _DIGITS[from_type.bit_width])
        return bool(pat.is_float64(to_type) or (pat.is_integer(to_type) and to_type.bit_width >= from_type.bit_width))
    if pat.is_float32(from_type):
        return bool(pat.is_float64(to_type))
    if pat.is_decimal(from_type) and pat.is_decimal(to_type):
        whole = to_type.precision - to_type.scale >= from_type.precision - from_type.scale
        return bool(whole and to_type.scale >= from_type.scale)
    if pat.is_date32(from_type) and pat.is_timestamp(to_type):
        # A date is midnight in the session's zone, which Arrow takes to be UTC's.
        return to_type.tz is None or spark.conf.get("spark.sql.session.timeZone") in _UTC
    return False


def unused(name: str, known: Sequence[str]) -> str:
    """A name like this one for a column that does not appear, so that it clashes with none that does."""
    while name in known:
        name = f"{name}'"
    return name


def _nulls(spark: SparkSession, kinds: Sequence[pa.DataType]) -> DataFrame:
    """An empty DataFrame with columns c0, c1, ... of these types; for the analyzer only."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [F.lit(None).cast(spark_type(kind)).alias(f"c{i}") for i, kind in enumerate(kinds)]
    return spark.range(0).select(*columns)


def _parsed(spark: SparkSession, json_text: str) -> DataType:
    from pyspark.sql.types import _parse_datatype_json_string

    return _parse_datatype_json_string(json_text)
