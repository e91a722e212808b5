"""The settings and options that decide how Spark reads a Parquet file, and those under which hosts do not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reshape.scan.errors import NotReadable
from reshape.scan.scan import ReadFacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_PARQUET = "spark.sql.parquet."

# With these Spark leaves out what it cannot read; Arrow would have to leave out exactly the same.
_LENIENT = {
    "ignoreCorruptFiles": "spark.sql.files.ignoreCorruptFiles",
    "ignoreMissingFiles": "spark.sql.files.ignoreMissingFiles",
}

_ENCRYPTION = ("parquet.crypto.", "parquet.encryption.")


def read_facts(spark: SparkSession, jvm_options: Any, required: StructType) -> ReadFacts:
    """What the session and the options of the reader say. Raises NotReadable for settings that hosts do not follow."""
    options = _options(jvm_options)
    for option, setting in _LENIENT.items():
        if (options.get(option.lower()) or str(spark.conf.get(setting))).lower() == "true":
            raise NotReadable(f"{option} is on: Spark alone knows what it leaves out")
    if any(name.startswith(_ENCRYPTION) for name in options):
        raise NotReadable("its files are encrypted")
    if spark.sparkContext._jsc.hadoopConfiguration().get("parquet.crypto.factory.class") is not None:
        raise NotReadable("the session reads encrypted Parquet files (parquet.crypto.factory.class)")
    if _is_on(spark, "fieldId.read.enabled") and any("parquet.field.id" in (f.metadata or {}) for f in required):
        raise NotReadable("its columns are found by field ids")
    return ReadFacts(
        case_sensitive=spark.conf.get("spark.sql.caseSensitive") == "true",
        widening=_is_on(spark, "enableVectorizedReader") and _is_on(spark, "enableNestedColumnVectorizedReader"),
        datetime_rebase=options.get("datetimerebasemode") or _setting(spark, "datetimeRebaseModeInRead"),
        int96_rebase=options.get("int96rebasemode") or _setting(spark, "int96RebaseModeInRead"),
        int96_conversion=_is_on(spark, "int96TimestampConversion"),
    )


def _options(jvm_options: Any) -> dict[str, str]:
    """The reader's options; Spark takes their names in upper and lower case alike."""
    options = {}
    iterator = jvm_options.iterator()
    while iterator.hasNext():
        pair = iterator.next()
        options[str(pair._1()).lower()] = str(pair._2())
    return options


def _setting(spark: SparkSession, name: str) -> str:
    return str(spark.conf.get(_PARQUET + name))


def _is_on(spark: SparkSession, name: str) -> bool:
    return _setting(spark, name).lower() == "true"
