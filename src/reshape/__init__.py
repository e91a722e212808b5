"""Exploratory analysis on skewed data with PySpark.

Everything public is here. What needs PySpark or Arrow is imported when it is first used, so that ``import reshape``
(and with it the command line) takes no time.

>>> reshape.__version__.split(".")[:2]
['0', '1']
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from reshape import _version

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import Column, DataFrame, SparkSession

    from reshape.conf import FlowOptions
    from reshape.control.errors import ParameterError, StrategyRefused
    from reshape.errors import (
        FlowCancelled,
        FlowError,
        FlowFailed,
        JavaNotFound,
        ReshapeError,
        SettingError,
        TooFewSlots,
        UnsuitableSession,
    )
    from reshape.flows import Flow
    from reshape.grouped import GroupedFlow
    from reshape.inspection.records import Inspection
    from reshape.kernels.hashing import UnsupportedKeyType
    from reshape.observe.listeners import QueryListener, QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent
    from reshape.observe.progress import QueryProgress
    from reshape.operators.aggregates.user_defined import UserAggregate
    from reshape.operators.errors import (
        KeyTypesDiffer,
        OperatorError,
        OutOfRange,
        UnsupportedAggregate,
        UserAggregateFailed,
    )
    from reshape.plan.analysis import NotSupported
    from reshape.plan.resolve import UserColumn
    from reshape.query import Query

__version__ = _version.VERSION

__all__ = [
    "Flow",
    "FlowCancelled",
    "FlowError",
    "FlowFailed",
    "GroupedFlow",
    "Inspection",
    "JavaNotFound",
    "KeyTypesDiffer",
    "NotSupported",
    "OperatorError",
    "OutOfRange",
    "ParameterError",
    "Query",
    "QueryListener",
    "QueryProgress",
    "QueryProgressEvent",
    "QueryStartedEvent",
    "QueryTerminatedEvent",
    "ReshapeError",
    "SettingError",
    "StrategyRefused",
    "TooFewSlots",
    "UnsuitableSession",
    "UnsupportedAggregate",
    "UnsupportedKeyType",
    "UserAggregateFailed",
    "__version__",
    "add_listener",
    "aggregate",
    "flow",
    "inspect",
    "local_session",
    "read",
    "remove_listener",
    "start",
]

# Where the classes are that are imported when they are first used.
_MODULES = {
    "Flow": "reshape.flows",
    "GroupedFlow": "reshape.grouped",
    "Inspection": "reshape.inspection.records",
    "Query": "reshape.query",
    "NotSupported": "reshape.plan.analysis",
    "UnsupportedKeyType": "reshape.kernels.hashing",
    "QueryProgress": "reshape.observe.progress",
    **dict.fromkeys(
        ("QueryListener", "QueryProgressEvent", "QueryStartedEvent", "QueryTerminatedEvent"),
        "reshape.observe.listeners",
    ),
    **dict.fromkeys(("ParameterError", "StrategyRefused"), "reshape.control.errors"),
    **dict.fromkeys(
        ("KeyTypesDiffer", "OperatorError", "OutOfRange", "UnsupportedAggregate", "UserAggregateFailed"),
        "reshape.operators.errors",
    ),
    **dict.fromkeys(
        ("FlowCancelled", "FlowError", "FlowFailed", "JavaNotFound", "ReshapeError", "SettingError"), "reshape.errors"
    ),
    **dict.fromkeys(("TooFewSlots", "UnsuitableSession"), "reshape.errors"),
}

# A library is silent until its user configures logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def read(df: DataFrame, **options: Unpack[FlowOptions]) -> Flow:
    """Return a flow that reads a DataFrame. Nothing runs before an action on the flow's result.

    Options (hosts, workers, queue_bytes, spill, ...) are those of `reshape.conf.FlowSettings`.

    >>> reshape.read(orders, workers=4).distinct().count()
    1000
    """
    from reshape.flows import Flow

    return Flow.read(df, **options)


def flow(df: DataFrame, **options: Unpack[FlowOptions]) -> Flow:
    """Return a flow of any DataFrame, such as ``spark.sql(text)``: its joins, groupings and sorts run in hosts.

    What hosts cannot do better Spark does, with the reason in ``explain()``. The result is that of the DataFrame.

    >>> reshape.flow(by_shop.orderBy("shop")).toDF().show(2)
    +----+-----+
    |shop|count|
    +----+-----+
    |   0|  100|
    |   1|  100|
    +----+-----+
    only showing top 2 rows
    """
    from reshape.planned import PlannedFlow

    return PlannedFlow.of(df, **options)


def start(df: DataFrame, **options: Unpack[FlowOptions]) -> Query:
    """Run any DataFrame as a flow in the background: ``flow(df, **options).start()``.

    >>> query = reshape.start(by_shop, name="shops")
    >>> query.result().count()
    10
    """
    return flow(df, **options).start()


def aggregate(function: UserAggregate, *columns: str | Column) -> UserColumn:
    """Return an aggregate of your own over some columns: ``agg(aggregate(Longest(), "text").alias("longest"))``.

    The object has ``init()``, ``update(state, rows)`` (rows is a record batch of these columns), ``merge(state,
    other)``, ``finish(state)``, and the Arrow types of state and result as ``state_type`` and ``output_type``.

    >>> import pyarrow as pa
    >>> class Longest:
    ...     state_type = output_type = pa.int64()
    ...
    ...     def init(self):
    ...         return 0
    ...
    ...     def update(self, state, rows):
    ...         return max([state, *map(len, rows.column(0).to_pylist())])
    ...
    ...     def merge(self, state, other):
    ...         return max(state, other)
    ...
    ...     def finish(self, state):
    ...         return state
    >>> longest = reshape.aggregate(Longest(), "name").alias("longest")
    >>> names = orders.selectExpr("shop", "repeat('x', shop) AS name")
    >>> sorted(reshape.flow(names).groupBy("shop").agg(longest).collect())[-1]
    Row(shop=9, longest=9)
    """
    from reshape.plan.resolve import user_column

    return user_column(function, columns)


def inspect(df: DataFrame, *, rows: int | None = None, workers: int | None = None) -> Inspection:
    """Look which keys of a query's joins, groupings, windows and sorts are hot, and return what comes of it.

    Keys are counted on samples of ``rows`` rows (200,000 unless given), so that a large query takes seconds. Hot is
    meant for so many ``workers``, the session's slots unless given. Print it, or let a notebook show it.

    >>> reshape.inspect(orders.groupBy((orders.shop > 0).alias("sold")).count(), workers=4).hot
    ()
    """
    from reshape.inspection.inspect import ROWS
    from reshape.inspection.inspect import inspect as look

    return look(df, ROWS if rows is None else rows, workers)


def add_listener(listener: QueryListener) -> None:
    """Let a listener hear of all queries of this process: their start, progress and end. Any thread may call this.

    >>> reshape.add_listener(listener := reshape.QueryListener())
    """
    from reshape.observe.listeners import LISTENERS

    LISTENERS.add(listener)


def remove_listener(listener: QueryListener) -> None:
    """Let a listener hear of nothing any more, but what is being told right now.

    >>> reshape.add_listener(listener := reshape.QueryListener())
    >>> reshape.remove_listener(listener)
    """
    from reshape.observe.listeners import LISTENERS

    LISTENERS.remove(listener)


def local_session(
    name: str = "reshape", cores: int | None = None, config: Mapping[str, Any] | None = None, **more: Any
) -> SparkSession:
    """Return a Spark session on this machine that suits flows: a new one, or the one that runs with these settings.

    ``cores``: those to use, all unless given. Settings of Spark go into ``config`` by their names, or are named with
    ``_`` for each dot: ``local_session(spark_driver_memory="4g")``. A new session readies Spark's Python processes in
    the background, so that the first flow need not.

    >>> reshape.local_session() is spark
    True
    """
    from reshape.driver.warming import warm_up
    from reshape.machine.local_session import local_session as make

    named = {key.replace("_", "."): value for key, value in more.items()}
    return make(name, cores, {**(config or {}), **named}, warm_up)
