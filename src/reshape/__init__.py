"""Exploratory analysis on skewed data with PySpark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reshape import _version

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from reshape.flow import Flow
    from reshape.operators.aggregates.user_defined import UserAggregate
    from reshape.plan.resolve import UserColumn

__version__ = _version.VERSION

__all__ = ["__version__", "aggregate", "local_session", "read"]


def read(df: DataFrame, **options: Any) -> Flow:
    """A flow that begins with a DataFrame. Nothing runs before an action on the flow's result.

    Options (hosts, workers, queue_bytes, spill, ...) are those of `reshape.conf.FlowSettings`.
    """
    from reshape.flow import Flow

    return Flow.read(df, **options)


def aggregate(function: UserAggregate, *columns: str | Column) -> UserColumn:
    """A user's own aggregate of some columns, for `agg`: ``agg(aggregate(Longest(), "text").alias("longest"))``.

    The object has ``init()``, ``update(state, rows)`` (rows is a record batch of these columns), ``merge(state,
    other)``, ``finish(state)``, and the Arrow types of state and result as ``state_type`` and ``output_type``.
    """
    from reshape.plan.resolve import user_column

    return user_column(function, columns)


def local_session(
    name: str = "reshape", cores: int | None = None, config: Mapping[str, Any] | None = None, **more: Any
) -> SparkSession:
    """A Spark session on this machine that fits flows.

    ``cores``: those to use, all unless given. Settings of Spark go into ``config`` by their names, or are named with
    ``_`` for each dot: ``local_session(spark_driver_memory="4g")``.
    """
    from reshape.machine.local_session import local_session as make

    return make(name, cores, {**(config or {}), **{key.replace("_", "."): value for key, value in more.items()}})
