"""Flows: DataFrames whose joins, groupings and sorts run in hosts and show results while they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.pandas.group_ops import PandasCogroupedOps

from reshape.conf import Choices, checked_options
from reshape.errors import FlowError
from reshape.observe.charts import ChartSpec
from reshape.plan.map_functions import by_batches
from reshape.planned import PlannedQuery
from reshape.sinks import ChartSink, sink
from reshape.surface import ACTIONS, CogroupedSurface, FrameSurface, GroupedSurface, rows_wanted

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec, Unpack

    import pandas as pd
    import pyarrow as pa
    from pyspark import StorageLevel
    from pyspark.sql import Column, DataFrameNaFunctions, DataFrameStatFunctions, DataFrameWriter, Row
    from pyspark.sql.types import StructType

    from reshape.catalyst.placement import Placement
    from reshape.conf import FlowOptions, OperatorOptions
    from reshape.plan.nodes import MapFunction
    from reshape.query import Query

    P = ParamSpec("P")

T = TypeVar("T")


class Flow(FrameSurface):
    """A DataFrame that is to run our way, with its settings. It has all that PySpark's DataFrame has: what makes a
    DataFrame of that one makes a flow of this one, and actions run the flow. Planning begins with the first action, by
    Spark's optimized plan. What hosts cannot do better Spark does, with the reason in `explain`.

    >>> flow = reshape.flow(by_shop)
    >>> flow.columns
    ['shop', 'count']
    >>> [placement.where for placement in flow.placements]
    ['reshape']
    """

    def __init__(self, df: DataFrame, choices: Choices) -> None:
        self._df = df
        self._choices = choices
        self._planned: PlannedQuery | None = None

    @classmethod
    def of(cls, df: DataFrame, **options: Unpack[FlowOptions]) -> Flow:
        """Return a flow of a DataFrame. Options are those of :class:`reshape.conf.FlowSettings`."""
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

        if not isinstance(df, ClassicDataFrame):
            raise FlowError(
                f"flow: {type(df).__module__}.{type(df).__name__} is not a DataFrame of a classic Spark session; "
                "flows run tasks that talk to the driver, so they need one (Spark Connect does not do)"
            )
        if df.isStreaming:
            raise FlowError("flow: this DataFrame is a stream, which does not end; flows read DataFrames that do")
        return cls(df, Choices(checked_options(options)))

    def options(self, **options: Unpack[FlowOptions]) -> Flow:
        """Return the same flow with other settings (:class:`reshape.conf.FlowSettings`); None removes an option."""
        return Flow(self._df, self._choices.with_options(options))

    def tuned(self, operator: str, **options: Unpack[OperatorOptions]) -> Flow:
        """Return the same flow with settings of load transfer for its operators of this name: strategy, tau, ...

        The name is a part of what `explain` calls them: ``join`` and ``inner join`` mean all (inner) joins, ``operator
        1`` one of each flow. Planning fails where nothing is called so.
        """
        return Flow(self._df, self._choices.tuned(operator, options))

    def toDF(self, *cols: str, exchange: bool = True) -> DataFrame:  # noqa: N802
        """Return the result as a lazy Spark DataFrame; an action on it runs the flow, unless Spark still has its rows.

        ``cols`` are new names for all columns, as in PySpark. Behind the flow comes an exchange that makes everything
        work on the result. Without it (``exchange=False``) rows reach Spark sooner, but only actions that want all
        partitions work: write, collect, count, join. It is there all the same where Spark's part has more than
        projections and filters. The flow's own actions (``count``, ``collect``, ``toArrow``, ``toPandas``, ``write``)
        do without it by themselves.
        """
        if cols:
            return Flow(self._df.toDF(*cols), self._choices).toDF(exchange=exchange)
        return self._query().dataframe(exchange=exchange)

    def start(self) -> Query:
        """Run the flow in the background; the handle has progress, partial results and, at the end, the result."""
        return self._query().start()

    def bar(self, x: str, y: str) -> ChartSink:
        """End the flow in a bar chart: a bar of ``y`` for each ``x``. Start that, and watch it."""
        return sink(self, ChartSpec("bar", x, y))

    def line(self, x: str, y: str, series: str | None = None) -> ChartSink:
        """End the flow in a line chart of ``y`` over ``x``, a line for each ``series``. Load then moves key by key."""
        return sink(self, ChartSpec("line", x, y, series))

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Where each skew-prone operator of the optimized plan runs, and why."""
        return self._query().placements

    def explain(self) -> None:
        """Print where operators run and why, what feeds them, and who reads it. Starts no job."""
        print(self._explained())

    def count(self) -> int:
        """Run the flow; the number of its rows."""
        return self._query().count()

    def collect(self) -> list[Row]:
        """Run the flow; its rows."""
        return self._query().run(lambda df: df.collect())

    def toArrow(self) -> pa.Table:  # noqa: N802
        """Run the flow; its rows as an Arrow table, in the driver's memory."""
        return self._query().run_on_arrow(lambda df: df.toArrow())

    def toPandas(self) -> pd.DataFrame:  # noqa: N802
        """Run the flow; its rows as a pandas DataFrame, in the driver's memory."""
        return self._query().run_on_arrow(lambda df: df.toPandas())

    @property
    def write(self) -> DataFrameWriter:
        """PySpark's writer of the result; saving it runs the flow. One partition for each host."""
        return self.toDF(exchange=False).write

    def mapInArrow(  # noqa: N802
        self,
        func: MapFunction,
        schema: StructType | str,
        barrier: bool = False,
        profile: Any = None,
        *,
        ordered: bool = False,
    ) -> Flow:
        """Run a function of your own on record batches, as PySpark's `mapInArrow`, where the rows are.

        Its result must not depend on how rows are cut into batches. ``ordered``: it needs the rows of a key in the
        order in which they were sent. Load then moves key by key only.
        """
        marked = by_batches(func, ordered=ordered)
        return Flow(self._df.mapInArrow(marked, schema, barrier, profile), self._choices)

    def transform(self, func: Callable[Concatenate[Flow, P], Flow], *args: P.args, **kwargs: P.kwargs) -> Flow:
        """Return what a function makes of this flow."""
        return func(self, *args, **kwargs)

    def cache(self) -> Flow:
        """Let Spark keep the result of this flow, from the next action on."""
        return self._kept(lambda df: df.cache())

    def persist(self, storageLevel: StorageLevel | None = None) -> Flow:  # noqa: N803
        """Let Spark keep the result of this flow, from the next action on, at this level or PySpark's default."""
        return self._kept(lambda df: df.persist() if storageLevel is None else df.persist(storageLevel))

    def unpersist(self, blocking: bool = False) -> Flow:
        """Free what Spark keeps; a later action runs the flow again."""
        self._df.unpersist(blocking)
        return self

    def _kept(self, keep: Callable[[DataFrame], DataFrame]) -> Flow:
        """As in PySpark, this very flow is kept: what comes after reads its rows, and plans nothing below them."""
        self._df, self._planned = keep(self.toDF()), None
        return self

    @property
    def na(self) -> DataFrameNaFunctions:
        """PySpark's functions for missing values; they give flows."""
        from pyspark.sql.classic.dataframe import DataFrameNaFunctions as Functions

        made: Any = Functions
        return made(self)  # type: ignore[no-any-return]

    @property
    def stat(self) -> DataFrameStatFunctions:
        """PySpark's statistic functions; those that make DataFrames give flows."""
        from pyspark.sql.classic.dataframe import DataFrameStatFunctions as Functions

        made: Any = Functions
        return made(self)  # type: ignore[no-any-return]

    def __getitem__(self, item: Any) -> Any:
        """A column of this flow by name or number; with a condition or a list of columns, a flow."""
        return self._as_flow(self._df[item], self._choices)

    def __getattr__(self, name: str) -> Column:
        if name.startswith("_"):  # asked for by copies and pickles, maybe before there is anything
            raise AttributeError(name)
        return getattr(self._df, name)  # type: ignore[no-any-return]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._df)})

    def __repr__(self) -> str:
        return f"Flow[{', '.join(f'{field.name}: {field.dataType.simpleString()}' for field in self._df.schema)}]"

    def _explained(self) -> str:
        return self._query().explained()

    def _query(self) -> PlannedQuery:
        """The plan under the settings that hold now."""
        settings = self._choices.settings(self._df.sparkSession)
        if self._planned is None or self._planned.settings != settings:
            planned = PlannedQuery(self._df, self._choices, settings)
            planned.check_tuning()
            self._planned = planned
        return self._planned

    def _passed_on(self, name: str, of: Callable[[Any], Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if name not in ACTIONS:
            return _called(self, of(self._df), args, kwargs)
        enough = rows_wanted(name, *args, **kwargs)
        flow = self if enough is None else self.limit(enough)
        return _called(self, of(flow.toDF()), args, kwargs)

    @staticmethod
    def _as_flow(made: Any, choices: Choices) -> Any:
        """What PySpark has made, as ours where it is a DataFrame or will be one."""
        match made:
            case DataFrame():
                return Flow(made, choices)
            case GroupedData():
                return GroupedFlow(made, choices)
            case PandasCogroupedOps():
                return CogroupedFlow(made, choices)
            case list() if made and all(isinstance(one, DataFrame) for one in made):
                return [Flow(one, choices) for one in made]
            case _:
                return made


class GroupedFlow(GroupedSurface):
    """A flow with its grouping keys: all that PySpark's `GroupedData` has, with flows as results.

    >>> sorted(reshape.flow(orders).groupBy("shop").count().collect())[0]
    Row(shop=0, count=100)
    """

    def __init__(self, grouped: GroupedData, choices: Choices) -> None:
        self._grouped = grouped
        self._choices = choices

    def _passed_on(self, name: str, of: Callable[[Any], Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return _called(self, of(self._grouped), args, kwargs)

    def __repr__(self) -> str:
        return f"GroupedFlow of {self._grouped!r}"


class CogroupedFlow(CogroupedSurface):
    """Two grouped flows that meet group by group, as PySpark's `cogroup` makes them."""

    def __init__(self, cogrouped: PandasCogroupedOps, choices: Choices) -> None:
        self._cogrouped = cogrouped
        self._choices = choices

    def _passed_on(self, name: str, of: Callable[[Any], Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return _called(self, of(self._cogrouped), args, kwargs)


def _called(
    self: Flow | GroupedFlow | CogroupedFlow,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """What PySpark makes of a call, flows among its arguments taken for their DataFrames."""
    choices = self._choices
    for one in (*args, *kwargs.values()):
        if isinstance(one, Flow | GroupedFlow):
            choices = choices.beside(one._choices)
    made = function(*map(_of_spark, args), **{name: _of_spark(one) for name, one in kwargs.items()})
    return Flow._as_flow(made, choices)


def _of_spark(argument: Any) -> Any:
    match argument:
        case Flow():
            return argument._df
        case GroupedFlow():
            return argument._grouped
        case _:
            return argument
