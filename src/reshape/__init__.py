"""Exploratory analysis on skewed data with PySpark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reshape import _version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from reshape.flow import Flow

__version__ = _version.VERSION

__all__ = ["__version__", "read"]


def read(df: DataFrame, **settings: Any) -> Flow:
    """A flow that begins with a DataFrame. Nothing runs before an action on the flow's result."""
    from reshape.flow import Flow

    return Flow.read(df, **settings)
