"""Flows: joins, groupings and sorts over Spark DataFrames that show results while they run."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from reshape.catalyst.placement import Placement
from reshape.conf import TUNABLE, FlowSettings, checked_options, session_settings, settings_of
from reshape.control.balancing import Balancing
from reshape.driver.launch import LaunchedFlow
from reshape.driver.restarts import run_action
from reshape.driver.session import default_hosts
from reshape.driver.session_flows import flows_of
from reshape.driver.slots import FlowSlots
from reshape.errors import FlowError
from reshape.grouped import GroupedFlow
from reshape.host.host import HostSettings
from reshape.kernels.keys import check_keys
from reshape.observe.charts import ChartSpec
from reshape.operators.relay import RelaySpec
from reshape.operators.set_ops import DistinctSpec
from reshape.operators.sort import SortSpec
from reshape.plan import two_sided
from reshape.plan.balancing import check_strategies
from reshape.plan.explain import explained
from reshape.plan.nodes import MapFunction, MapNode, OperatorNode
from reshape.plan.physical import PhysicalPlan
from reshape.plan.planner import Planner
from reshape.plan.pruning import pruned
from reshape.plan.resolve import UserColumn, resolve_ordering
from reshape.plan.sendable import check_sendable, function_name
from reshape.plan.tree import Tree
from reshape.plan.types import to_arrow, to_spark
from reshape.query import Query
from reshape.scan.source import Source
from reshape.sinks import ChartSink, sink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Unpack

    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, DataFrameWriter, Row
    from pyspark.sql.types import StructType

    from reshape.conf import FlowOptions, OperatorOptions

__all__ = ["Flow", "FlowError", "GroupedFlow"]

T = TypeVar("T")


class Flow:
    """A lazy flow of skew-prone operators over Spark DataFrames. Every method returns a new flow.

    >>> flow = reshape.flow(by_shop)
    >>> flow.columns
    ['shop', 'count']
    >>> [placement.where for placement in flow.placements]
    ['reshape']
    """

    def __init__(self, tree: Tree, options: dict[str, Any]) -> None:
        self._tree = tree
        self._options = options

    @classmethod
    def read(cls, df: DataFrame, **options: Unpack[FlowOptions]) -> Flow:
        """Return a flow that reads a DataFrame. Options are those of :class:`reshape.conf.FlowSettings`."""
        cls.check_readable("read", df)
        return cls(Tree.reading(df), checked_options(options))

    @staticmethod
    def check_readable(what: str, df: DataFrame) -> None:
        """Raise unless a flow can be made of it."""
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

        if not isinstance(df, ClassicDataFrame):
            raise FlowError(
                f"{what}: {type(df).__module__}.{type(df).__name__} is not a DataFrame of a classic Spark session; "
                "flows run tasks that talk to the driver, so they need one (Spark Connect does not do)"
            )
        if df.isStreaming:
            raise FlowError(f"{what}: this DataFrame is a stream, which does not end; flows read DataFrames that do")

    def options(self, **options: Unpack[FlowOptions]) -> Flow:
        """Return the same flow with other settings (:class:`reshape.conf.FlowSettings`); None removes an option."""
        checked = checked_options(options)
        kept = {name: value for name, value in self._options.items() if name not in options}
        return Flow(self._tree, {**kept, **checked})

    @property
    def schema(self) -> StructType:
        """The columns of the result with their types, as Spark's."""
        return to_spark(self._tree.schema) if self._tree.df is None else self._tree.df.schema

    @property
    def columns(self) -> list[str]:
        """The names of the result's columns."""
        return list(self._tree.schema.names)

    def __repr__(self) -> str:
        return f"Flow[{', '.join(f'{field.name}: {field.dataType.simpleString()}' for field in self.schema)}]"

    def join(
        self, other: Flow | DataFrame, on: str | Sequence[str | tuple[str, str]] | tuple[str, str], how: str = "inner"
    ) -> Flow:
        """Join on equal columns: a name, names, or pairs of differing names.

        Columns of the result are those of Spark's join, in its order. Keys of differing types meet as in Spark. The
        right side is kept in memory while the left one streams past it. Options of the left flow win.
        """
        return self._meet(other, lambda left, right: two_sided.join(left, right, on, how))

    def groupBy(self, *keys: str | Column) -> GroupedFlow:  # noqa: N802
        """Group by columns, or by expressions that are computed in the source; without keys all rows are one group."""
        return GroupedFlow(self, keys)

    def agg(self, *expressions: Column | UserColumn | dict[str, str]) -> Flow:
        """Aggregate all rows into one, which is also there when the input is empty."""
        return self.groupBy().agg(*expressions)

    def orderBy(self, *columns: Any, **options: Any) -> Flow:  # noqa: N802
        """Sort by columns, as in PySpark (``ascending`` too). Partitions of the result are in the global order."""
        if not columns:
            raise FlowError("orderBy: name at least one column")
        tree, source = self._tree, self._tree.input()
        resolved = resolve_ordering(source, columns, **options)
        if resolved.hidden:
            shown = [(source.column(number), name) for number, name in enumerate(self.columns)]
            tree = tree.select([*shown, *resolved.hidden], (*self.columns, *resolved.texts))
        check_keys("orderBy", tree.schema, resolved.ordering.columns)
        spec = SortSpec(tree.schema, resolved.ordering, len(resolved.hidden))
        return self._with(tree.through(spec))

    def repartition(self, *columns: str) -> Flow:
        """Bring rows with equal values of these columns to one worker, for a function of your own (`mapInArrow`)."""
        if not columns:
            raise FlowError("repartition: name at least one column")
        schema = self._tree.schema
        keys = tuple(two_sided.column_number(self._tree, column, "repartition") for column in columns)
        check_keys("repartition", schema, keys)
        return self._with(self._tree.through(RelaySpec(schema, keys)))

    def distinct(self) -> Flow:
        """Return every different row once."""
        schema = self._tree.schema
        check_keys("distinct", schema, range(len(schema)))
        return self._with(self._tree.through(DistinctSpec(schema)))

    def intersect(self, other: Flow | DataFrame) -> Flow:
        """Return the rows that both have, each once, as Spark's intersect."""
        return self._meet(other, lambda left, right: two_sided.set_operation(left, right, "intersect"))

    def subtract(self, other: Flow | DataFrame) -> Flow:
        """Return the rows of this flow that the other does not have, each once, as Spark's subtract."""
        return self._meet(other, lambda left, right: two_sided.set_operation(left, right, "subtract"))

    def union(self, other: Flow | DataFrame) -> Flow:
        """Return the rows of both, matched by the position of columns, as Spark's union."""
        return self._meet(other, two_sided.union)

    def mapInArrow(  # noqa: N802
        self, function: MapFunction, schema: str | StructType, *, ordered: bool = False
    ) -> Flow:
        """Run a function of your own on record batches, where the rows are.

        Its result must not depend on how rows are cut into batches. ``ordered``: it needs the rows of a key in the
        order in which they were sent. Load then moves key by key only.
        """
        from pyspark.sql.types import StructType, _parse_datatype_string

        if not callable(function):
            raise FlowError(f"mapInArrow: {function!r} cannot be called; give a function from batches to batches")
        check_sendable(function, f"mapInArrow: the function {function_name(function)}")
        parsed = schema if isinstance(schema, StructType) else cast(StructType, _parse_datatype_string(schema))
        promised = to_arrow(parsed)
        return self._with(
            self._tree.each(
                lambda df: (df.mapInArrow(function, parsed), (f"mapInArrow({function_name(function)})",)),
                lambda node: MapNode(node, function, promised, ordered),
            )
        )

    def tuned(self, **options: Unpack[OperatorOptions]) -> Flow:
        """Return the same flow with settings of load transfer for its last operator only: strategy, tau, ..."""
        node = self._tree.node
        if not isinstance(node, OperatorNode):
            raise FlowError("tuned: say this right after a join, groupBy, orderBy, repartition or set operation")
        names = [name for name in options if name not in TUNABLE]
        if names:
            raise FlowError(f"tuned: {names[0]} holds for a whole flow; one operator can have {', '.join(TUNABLE)}")
        tuning = (*node.tuning, *checked_options(options).items())
        return self._with(Tree(replace(node, tuning=tuning), self._tree.sources))

    def toDF(self, *, exchange: bool = True) -> DataFrame:  # noqa: N802
        """Return the result as a lazy Spark DataFrame; an action on it runs the flow, unless Spark still has its rows.

        Behind the flow comes an exchange that makes everything work on the result. Without it (``exchange=False``) rows
        reach Spark sooner, but only actions that want all partitions work: write, collect, count, join. The flow's own
        actions (``count``, ``collect``, ``toArrow``, ``toPandas``, ``write``) do without it by themselves.
        """
        if self._tree.df is not None:
            return self._tree.df
        settings = self._settings()
        return self._launched(settings, previews=False, exchange=exchange).df

    def count(self) -> int:
        """Run the flow; the number of its rows."""
        return self._run(lambda df: df.count())

    def collect(self) -> list[Row]:
        """Run the flow; its rows."""
        return self._run(lambda df: df.collect())

    def toArrow(self) -> pa.Table:  # noqa: N802
        """Run the flow; its rows as an Arrow table, in the driver's memory."""
        return self._run(lambda df: df.toArrow())

    def toPandas(self) -> pd.DataFrame:  # noqa: N802
        """Run the flow; its rows as a pandas DataFrame, in the driver's memory."""
        return self._run(lambda df: df.toPandas())

    @property
    def write(self) -> DataFrameWriter:
        """PySpark's writer of the result; saving it runs the flow. One partition for each host."""
        return self.toDF(exchange=False).write

    def _run(self, action: Callable[[DataFrame], T]) -> T:
        if self._tree.df is not None:
            return action(self._tree.df)
        launched = self._launched(self._settings(), previews=False, exchange=False)
        return run_action(launched.df, launched.attempts, action)

    def show(self, n: int = 20, truncate: bool | int = True, vertical: bool = False) -> None:
        """Run the flow and print its first rows."""
        self.toDF().show(n, truncate, vertical)

    def start(self) -> Query:
        """Run the flow in the background; the handle has progress, partial results and, at the end, the result."""
        if self._tree.df is not None:
            raise FlowError("start: this flow has no operator; use the DataFrame itself")
        return Query(self._launched(self._settings(), previews=True, exchange=True), self._explained())

    def bar(self, x: str, y: str) -> ChartSink:
        """End the flow in a bar chart: a bar of ``y`` for each ``x``. Start that, and watch it."""
        return sink(self, ChartSpec("bar", x, y))

    def line(self, x: str, y: str, series: str | None = None) -> ChartSink:
        """End the flow in a line chart of ``y`` over ``x``, a line for each ``series``. Load then moves key by key."""
        return sink(self, ChartSpec("line", x, y, series))

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Where each skew-prone operator runs, and why."""
        operators = self._plan(self._settings()).operators
        return tuple(Placement(operator.logic.label, "reshape") for operator in operators)

    def explain(self) -> None:
        """Print the operators of the flow, what feeds them, who reads it and where they run. Starts no job."""
        print(self._explained())

    def _explained(self) -> str:
        settings = self._settings()
        readings = [source.described for source in self._sources(settings)]
        return explained(self._pruned.node, self._plan(settings), settings, readings)

    def _settings(self) -> FlowSettings:
        return settings_of(session_settings(self._tree.spark), self._options)

    def _plan(self, settings: FlowSettings) -> PhysicalPlan:
        hosts = settings.hosts
        if hosts is None:
            by_spark = [source.df for source in self._sources(settings) if source.scan is None]
            hosts = default_hosts(self._tree.spark, by_spark)
            hosts = hosts if settings.workers is None else min(hosts, settings.workers)

        def tuned(options: dict[str, Any]) -> tuple[Balancing, float]:
            of_operator = settings.with_options(options)
            return of_operator.balancing(), of_operator.cost_s_per_row

        names, advice = self._pruned.schema.names, "rename one in the DataFrame that the flow reads"
        two_sided.refuse_twice("flow", names, "the result would have more than one", advice)
        planner = Planner(tuned, combine=settings.combine)
        plan = planner.plan(self._pruned.node, settings.name, hosts, settings.workers or 2 * hosts)
        return replace(plan, report_s=settings.report_s, ordered=settings.ordered)

    def _slots(self) -> FlowSlots:
        """What this flow would take of the session."""
        settings = self._settings()
        by_spark = [source.df for source in self._sources(settings) if source.scan is None]
        reads = flows_of(self._tree.spark.sparkContext).read_by(by_spark)
        return FlowSlots(settings.name, self._plan(settings).hosts, bool(by_spark), reads)

    def _launched(self, settings: FlowSettings, *, previews: bool, exchange: bool) -> LaunchedFlow:
        plan = self._plan(settings)
        check_strategies(plan)
        hosts = HostSettings(
            settings.queue_bytes,
            settings.spill,
            settings.spill_limit_bytes,
            previews,
            settings.encrypt,
            settings.listening(),
        )
        return LaunchedFlow(
            self._tree.spark,
            plan,
            self._sources(settings),
            hosts,
            exchange=exchange,
            tls=settings.tls(),
            log_directory=settings.event_log,
        )

    @cached_property
    def _pruned(self) -> Tree:
        """The tree that runs: without columns that nothing reads."""
        return pruned(self._tree)

    @cached_property
    def _planned_sources(self) -> tuple[Source, ...]:
        return tuple(map(Source.planned, self._pruned.sources))

    def _sources(self, settings: FlowSettings) -> tuple[Source, ...]:
        """What the flow reads, and who reads it."""
        if settings.scan == "spark":
            return tuple(Source(df, None, "spark.reshape.scan is spark") for df in self._pruned.sources)
        if settings.scan == "arrow":
            for source in self._planned_sources:
                source.check_scanned()
        return self._planned_sources

    def _with(self, tree: Tree) -> Flow:
        return Flow(tree, self._options)

    def _meet(self, other: Flow | DataFrame, how: Any) -> Flow:
        right = other if isinstance(other, Flow) else Flow.read(other)
        return Flow(how(self._tree, right._tree), {**right._options, **self._options})
