"""Flows made of any DataFrame: Spark's optimized plan, with its skew-prone operators run by hosts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from reshape.catalyst.columns import Shaping
from reshape.catalyst.errors import LeftToSpark
from reshape.catalyst.gateway import Gateway, attributes_of
from reshape.catalyst.placement import Placement
from reshape.catalyst.rows import FlowRows, Rows, SparkRows, has_flow
from reshape.catalyst.shape import shape_of
from reshape.catalyst.story import described
from reshape.catalyst.translator import Translated, translated
from reshape.conf import checked_options
from reshape.driver.restarts import run_action
from reshape.driver.session import check
from reshape.driver.session_flows import flows_of
from reshape.errors import FlowError, TooFewSlots
from reshape.flows import Flow
from reshape.plan.analysis import kind
from reshape.plan.tree import Tree
from reshape.query import Query, Whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from reshape.conf import FlowOptions
    from reshape.driver.launch import LaunchedFlow

T = TypeVar("T")

# Nodes that want all rows of what is below them, one after the other: no barrier stage minds them.
_ROW_BY_ROW = ("Project", "Filter")


@dataclass(frozen=True)
class _Planned:
    """A plan that was read. ``chained`` are flows whose results are sources of others."""

    shaping: Shaping
    translated: Translated
    chained: tuple[Flow, ...]


class PlannedFlow(Flow):
    """A DataFrame that is to run our way. Its plan is read when it is first asked for a result or an explanation."""

    def __init__(self, df: DataFrame, options: dict[str, Any]) -> None:
        self._df = df
        self._options = options
        self._flows: dict[int, Flow] = {}

    @classmethod
    def of(cls, df: DataFrame, **options: Unpack[FlowOptions]) -> PlannedFlow:
        Flow.check_readable("flow", df)
        return cls(df, checked_options(options))

    @cached_property
    def _tree(self) -> Tree:  # type: ignore[override]
        """The DataFrame as it is, for what is built on this flow."""
        return Tree.reading(self._df)

    def options(self, **options: Unpack[FlowOptions]) -> PlannedFlow:
        """Return the same flow with other settings (:class:`reshape.conf.FlowSettings`); None removes an option."""
        checked = checked_options(options)
        kept = {name: value for name, value in self._options.items() if name not in options}
        return PlannedFlow(self._df, {**kept, **checked})

    @property
    def schema(self) -> StructType:
        """The columns of the result with their types, as Spark's."""
        return self._df.schema

    @property
    def columns(self) -> list[str]:
        """The names of the result's columns."""
        return list(self._df.columns)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Where each skew-prone operator of the optimized plan runs, and why."""
        return self._translated.placements

    def toDF(self, *, exchange: bool = True) -> DataFrame:  # noqa: N802
        """Return the result as a lazy Spark DataFrame; an action on it runs the flow, unless Spark still has its rows.

        ``exchange=False``: see `Flow.toDF`; it is heeded where nothing of Spark's but projections and filters follows.
        """
        if not has_flow(self._rows):
            return self._df
        without = not exchange and _row_by_row(self._rows)
        return self._result(lambda tree: self._launch(tree, previews=False, exchange=not without).df)

    def start(self) -> Query:
        """Run the flow in the background; the handle has progress, partial results and, at the end, the result."""
        if not has_flow(self._rows):
            raise FlowError("start: this query has no operator for hosts; use the DataFrame itself. See explain()")
        started: list[LaunchedFlow] = []

        def launch(tree: Tree) -> DataFrame:
            launched = self._launch(tree, previews=not started, exchange=True)
            started.append(launched)
            return launched.df

        result = self._result(launch)
        shape = shape_of(self._shaping, self._rows, self.columns)
        return Query(started[0], self._explained(), Whole(result, shape, tuple(started[1:])))

    def _run(self, action: Callable[[DataFrame], T]) -> T:
        if not has_flow(self._rows):
            return action(self._df)
        if not _row_by_row(self._rows):
            return action(self.toDF())
        started: list[LaunchedFlow] = []

        def launch(tree: Tree) -> DataFrame:
            started.append(self._launch(tree, previews=False, exchange=False))
            return started[-1].df

        return run_action(self._result(launch), started[0].attempts, action)

    def _explained(self) -> str:
        planned = self._planned
        parts = [described(self._rows, self.placements)]
        parts += [self._flow_of(tree)._explained() for tree in planned.shaping.trees(self._rows)]
        parts += [f"read by a flow above, {flow._explained()}" for flow in planned.chained]
        return "\n\n".join(parts)

    @cached_property
    def _planned(self) -> _Planned:
        """Flows that read other flows' results need slots for both at a time; where there are too few, none does."""
        gateway, plan = Gateway(self._df.sparkSession), self._df._jdf.queryExecution().optimizedPlan()
        chained: list[Flow] = []

        def chain(tree: Tree) -> DataFrame:
            chained.append(self._chained(tree))
            return chained[-1].toDF()

        shaping = Shaping(gateway, chain)
        made = translated(gateway, shaping, plan)
        if not chained or self._fits(shaping, made):
            return _Planned(shaping, made, tuple(chained))
        shaping = Shaping(gateway, _unchained)
        return _Planned(shaping, translated(gateway, shaping, plan), ())

    @property
    def _translated(self) -> Translated:
        return self._planned.translated

    @property
    def _shaping(self) -> Shaping:
        return self._planned.shaping

    def _chained(self, tree: Tree) -> Flow:
        """A flow whose result another flow reads; half of the slots are left to that one."""
        slots = flows_of(self._df.sparkSession.sparkContext).slots()
        flow = Flow(tree, {"hosts": max(1, slots // 2), **self._options})
        while flow._slots().least >= slots:
            hosts = flow._options["hosts"]
            if hosts == 1 or "hosts" in self._options:
                _unchained(tree)
            flow = flow.options(hosts=hosts - 1)
        return flow

    def _fits(self, shaping: Shaping, made: Translated) -> bool:
        """Whether every flow that reads another one's result has slots beside it."""
        spark = self._df.sparkSession
        try:
            for tree in shaping.trees(made.rows):
                check(spark, self._flow_of(tree)._slots())
        except TooFewSlots:
            return False
        return True

    @property
    def _rows(self) -> Rows:
        return self._translated.rows

    def _flow_of(self, tree: Tree) -> Flow:
        """One flow for each tree, so that Spark is asked once who reads its sources."""
        return self._flows.setdefault(id(tree), Flow(tree, self._options))

    def _launch(self, tree: Tree, *, previews: bool, exchange: bool) -> LaunchedFlow:
        flow = self._flow_of(tree)
        return flow._launched(flow._settings(), previews=previews, exchange=exchange)

    def _result(self, launch: Callable[[Tree], DataFrame]) -> DataFrame:
        """Spark's part over the results of flows, with the very columns of the DataFrame."""
        gateway = self._shaping.gateway
        plan = self._shaping.plan(self._rows, launch)
        columns = [
            gateway.shown_as(attribute, field.name, field.nullable, field.metadata)
            for attribute, field in zip(attributes_of(plan), self._df.schema, strict=True)
        ]
        return gateway.dataframe(gateway.project(columns, plan))


def _unchained(tree: Tree) -> DataFrame:
    raise LeftToSpark("another flow would have to run beside this one, and the session has too few task slots for both")


def _row_by_row(rows: Rows) -> bool:
    """Whether the result is one flow's, with nothing but projections and filters behind it."""
    if isinstance(rows, SparkRows):
        return kind(rows.plan) in _ROW_BY_ROW and len(rows.children) == 1 and _row_by_row(rows.children[0])
    return isinstance(rows, FlowRows) or all(isinstance(branch, FlowRows) for branch in rows.branches)
