"""Dates and timestamps that Spark moves between calendars while it reads; Arrow moves none."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from reshape.scan.scan import ReadFacts

_VERSION = b"org.apache.spark.version"
_LEGACY_DATES = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96 = b"org.apache.spark.legacyINT96"

# From these on both calendars agree: days at 1582-10-15; for timestamps also all zones' clocks follow rules that Java
# has, from 1900-01-01 on. Later values are the same whichever mode Spark reads in.
_FIRST_DAY = -141_427
_FIRST_SECOND = -2_208_988_800


def calendar_refusal(metadata: Any, leaves: tuple[int, ...], wanted: pa.DataType, facts: ReadFacts) -> str | None:
    """Why a column's dates or timestamps would come out otherwise than Spark's; None if they do not."""
    if not _has_rebased_values(wanted):
        return None
    keys = metadata.metadata or {}
    for leaf in leaves:
        column = metadata.schema.column(leaf)
        if column.physical_type == "INT96":
            reason = _int96_refusal(keys, facts)
        elif column.physical_type in ("INT32", "INT64"):
            reason = _refusal(metadata, leaf, keys, facts)
        else:
            reason = None
        if reason is not None:
            return reason
    return None


def _has_rebased_values(wanted: pa.DataType) -> bool:
    if pat.is_nested(wanted):
        return any(_has_rebased_values(wanted.field(i).type) for i in range(wanted.num_fields))
    # A timestamp without a zone is newer than the legacy calendar: Spark never moves it.
    return bool(pat.is_date(wanted) or (pat.is_timestamp(wanted) and wanted.tz is not None))


def _int96_refusal(keys: dict[bytes, bytes], facts: ReadFacts) -> str | None:
    if facts.int96_conversion:
        return "it holds INT96 timestamps, and spark.sql.parquet.int96TimestampConversion is on"
    mode = _mode(keys, "3.1.0", _LEGACY_INT96, facts.int96_rebase)
    # INT96 has no statistics in files: nothing says that all values are new enough.
    return None if mode == "CORRECTED" else f"Spark reads its INT96 timestamps in {mode} mode"


def _refusal(metadata: Any, leaf: int, keys: dict[bytes, bytes], facts: ReadFacts) -> str | None:
    mode = _mode(keys, "3.0.0", _LEGACY_DATES, facts.datetime_rebase)
    if mode == "CORRECTED" or _all_recent(metadata, leaf):
        return None
    return (
        f"Spark reads its dates and timestamps in {mode} mode, and some may be too old to be the same in both calendars"
    )


def _mode(keys: dict[bytes, bytes], first_corrected: str, legacy_key: bytes, by_setting: str) -> str:
    version = keys.get(_VERSION)
    if version is None:
        return by_setting.upper()
    # Spark compares versions as text, too.
    return "LEGACY" if version.decode() < first_corrected or legacy_key in keys else "CORRECTED"


def _all_recent(metadata: Any, leaf: int) -> bool:
    column = metadata.schema.column(leaf)
    if column.max_repetition_level > 0:
        return False
    first = _FIRST_DAY
    if column.physical_type == "INT64":
        first = _FIRST_SECOND * (1_000 if "milliseconds" in column.logical_type.to_json() else 1_000_000)
    return all(_group_recent(metadata.row_group(group).column(leaf), first) for group in range(metadata.num_row_groups))


def _group_recent(chunk: Any, first: int) -> bool:
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None:
        return bool(chunk.num_values == 0)
    if not statistics.has_min_max:
        return bool(statistics.has_null_count and statistics.null_count == chunk.num_values)
    return bool(statistics.min_raw >= first)
