"""A source of a flow: a DataFrame, and how its rows are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from reshape.errors import FlowError
from reshape.scan.errors import NotReadable
from reshape.scan.planning import plan_scan
from reshape.scan.scan import Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ScanMode = Literal["auto", "arrow", "spark"]


@dataclass(frozen=True)
class Source:
    """``scan`` None: Spark reads it, for the ``reason``; hosts read all others by themselves."""

    df: DataFrame
    scan: Scan | None = None
    reason: str = ""

    @classmethod
    def planned(cls, df: DataFrame, mode: ScanMode) -> Source:
        """By Arrow where that gives Spark's rows, unless told otherwise; asks Spark to plan and runs no job."""
        if mode == "spark":
            return cls(df, None, "spark.reshape.scan is spark")
        try:
            return cls(df, plan_scan(df))
        except NotReadable as error:
            if mode == "arrow":
                raise FlowError(
                    f"spark.reshape.scan is arrow, but hosts cannot read a source of this flow: {error}. Set it to auto"
                ) from error
            return cls(df, None, error.reason)
