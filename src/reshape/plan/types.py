"""Spark's types and Arrow's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


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
