"""A source of a flow: a DataFrame, and how its rows are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reshape.errors import FlowError
from reshape.scan.errors import NotReadable
from reshape.scan.planning import plan_scan
from reshape.scan.scan import Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Source:
    """``scan`` None: Spark reads it, for the ``reason``; hosts read all others by themselves."""

    df: DataFrame
    scan: Scan | None = None
    reason: str = ""

    @classmethod
    def planned(cls, df: DataFrame) -> Source:
        """By hosts where that gives Spark's rows; asks Spark to plan and runs no job."""
        try:
            return cls(df, plan_scan(df))
        except NotReadable as error:
            return cls(df, None, error.reason)

    def check_scanned(self) -> None:
        """Raises unless hosts read it."""
        if self.scan is None:
            raise FlowError(
                f"spark.reshape.scan is arrow, but hosts cannot read a source of this flow: {self.reason}. Set it to "
                "auto, or read plain Parquet files"
            )

    @property
    def described(self) -> str:
        """Who reads it, and why, for people."""
        if self.scan is None:
            return f"read by Spark: {self.reason}"
        files = len({split.path for split in self.scan.splits})
        rows = [split.rows for split in self.scan.splits]
        total = "" if None in rows else f", {sum(filter(None, rows)):,} rows"
        joined = len(self.scan.looked_up)
        small = f", joined with {joined} that Spark would broadcast" if joined else ""
        return f"read by hosts with Arrow: Parquet, {files:,} files in {len(rows):,} splits{total}{small}"
