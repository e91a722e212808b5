"""A DataFrame as flows: Spark's optimized plan, with its skew-prone operators run by hosts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, TypeVar

import pyarrow as pa

from reshape.catalyst.columns import Finished, Shaping
from reshape.catalyst.errors import LeftToSpark
from reshape.catalyst.gateway import Gateway, attributes_of
from reshape.catalyst.placement import Placement
from reshape.catalyst.rows import FlowRows, Rows, SparkRows, UnionRows, has_flow
from reshape.catalyst.shape import shape_of
from reshape.catalyst.story import described
from reshape.catalyst.translator import Translated, translated
from reshape.collected import Collected, is_arrows
from reshape.conf import Choices, FlowSettings
from reshape.driver.packed import unpacked
from reshape.driver.restarts import run_action
from reshape.driver.session import check
from reshape.driver.session_flows import flows_of
from reshape.errors import FlowError, TooFewSlots
from reshape.hosted import HostedFlow, is_called
from reshape.plan.analysis import kind
from reshape.plan.tree import Tree
from reshape.plan.types import to_spark
from reshape.query import Query, Whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from reshape.driver.launch import Giving, LaunchedFlow

T = TypeVar("T")

# Makes a DataFrame of a flow, with these columns if they are given.
Launch: TypeAlias = "Callable[[HostedFlow, StructType | None], DataFrame]"

# Nodes that want all rows of what is below them, one after the other: no barrier stage minds them.
_ROW_BY_ROW = ("Project", "Filter")


@dataclass(frozen=True)
class _Read:
    """A plan that was read. ``chained`` are flows whose results are sources of others."""

    shaping: Shaping
    translated: Translated
    chained: tuple[HostedFlow, ...]


class PlannedQuery:
    """A DataFrame under some settings. Its plan is read once, and nothing is run for that."""

    def __init__(self, df: DataFrame, choices: Choices, settings: FlowSettings) -> None:
        self.settings = settings
        self._df = df
        self._choices = choices
        self._flows: dict[int, HostedFlow] = {}
        self._read = self._planned()

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Where each skew-prone operator of the optimized plan runs, and why."""
        return self._read.translated.placements

    @property
    def flows(self) -> tuple[HostedFlow, ...]:
        """Those whose results Spark's part reads, if there is one."""
        return tuple(self._flow_of(tree) for tree in self._read.shaping.trees(self._rows))

    def dataframe(self, *, exchange: bool) -> DataFrame:
        """The result, lazily; the DataFrame itself where nothing is for hosts."""
        without = not exchange and _row_by_row(self._rows)
        giving: Giving = "rows" if without else "exchanged"
        return self.result(lambda flow, shown: flow.launched(previews=False, giving=giving, shown=shown).df)

    def start(self) -> Query:
        """Run its flows in the background; the handle shows the first."""
        if not has_flow(self._rows):
            raise FlowError("start: this query has no operator for hosts; use the DataFrame itself. See explain()")
        started: list[LaunchedFlow] = []

        def launch(flow: HostedFlow, shown: StructType | None) -> DataFrame:
            started.append(flow.launched(previews=not started, giving="exchanged", shown=shown))
            return started[-1].df

        result = self.result(launch)
        if self._is_arrows:
            kept = started[0].kept
            result = Collected(result, lambda: self._table(unpacked(kept, keep=True)))
        shape = shape_of(self._read.shaping, self._rows, self._df.columns)
        return Query(started[0], self.explained(), Whole(result, shape, tuple(started[1:])))

    def run(self, action: Callable[[DataFrame], T]) -> T:
        """An action that wants all rows: no exchange is needed where nothing else asks for one."""
        if not has_flow(self._rows) or not _row_by_row(self._rows):
            return action(self.dataframe(exchange=True))
        started: list[LaunchedFlow] = []

        def launch(flow: HostedFlow, shown: StructType | None) -> DataFrame:
            started.append(flow.launched(previews=False, giving="rows", shown=shown))
            return started[-1].df

        return run_action(self.result(launch), started[0].attempts, action)

    def run_on_arrow(self, action: Callable[[DataFrame], T]) -> T:
        """An action that takes Arrow. Rows that are a flow's own need not be Spark's in between."""
        if not self._is_arrows:
            return self.run(action)

        def table() -> pa.Table:
            (flow,) = self.flows
            launched = flow.launched(previews=False, giving="packed")
            return self._table(run_action(launched.df, launched.attempts, partial(unpacked, keep=False)))

        return action(Collected(self._df, table, lambda: self.run(lambda df: df.collect())))

    def count(self) -> int:
        """The number of its rows, of which nothing else is made: Spark plans it as a query of its own."""
        if not has_flow(self._rows):
            return self._df.count()
        counted = PlannedQuery(self._df.groupBy().count(), self._choices, self.settings)
        ((count,),) = counted.run(lambda df: df.collect())
        return int(count)

    def explained(self) -> str:
        """In words; starts no job."""
        parts = [described(self._rows, self.placements)]
        parts += [flow.explained() for flow in self.flows]
        parts += [f"read by a flow above, {flow.explained()}" for flow in self._read.chained]
        return "\n\n".join(parts)

    def result(self, launch: Launch) -> DataFrame:
        """Spark's part over the results of flows, with the very columns of the DataFrame."""
        if not has_flow(self._rows):
            return self._df
        if self._finished is not None and self._is_whole(self._finished):
            # A projection behind the flow would copy every row once more, a third of what they cost in the JVM.
            return launch(self._flow_of(self._finished.tree), self._df.schema)
        shaping = self._read.shaping
        plan = shaping.plan(self._rows, lambda tree: launch(self._flow_of(tree), None))
        columns = [
            shaping.gateway.shown_as(attribute, field.name, field.nullable, field.metadata)
            for attribute, field in zip(attributes_of(plan), self._df.schema, strict=True)
        ]
        return shaping.gateway.dataframe(shaping.gateway.project(columns, plan))

    @cached_property
    def _finished(self) -> Finished | None:
        """The flow whose rows are the result, if one flow's are."""
        return self._read.shaping.finished(self._rows) if _is_one_flow(self._rows) else None

    def _is_whole(self, finished: Finished) -> bool:
        """Whether the columns of a flow are those of the result, one by one."""
        schema = finished.tree.schema
        types = [field.dataType for field in to_spark(schema)]
        return finished.numbers == tuple(range(len(schema))) and types == [field.dataType for field in self._df.schema]

    @cached_property
    def _is_arrows(self) -> bool:
        """Whether hosts give, in Arrow, what PySpark's own Arrow would be."""
        finished = self._finished
        if finished is None or not finished.numbers:
            return False
        return is_arrows(self._df, pa.schema([finished.tree.schema.field(number) for number in finished.numbers]))

    def _table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        """Rows of that flow as the result has them."""
        assert self._finished is not None
        rows = pa.Table.from_batches(batches, batches[0].schema if batches else self._finished.tree.schema)
        return rows.select(list(self._finished.numbers))

    @property
    def _rows(self) -> Rows:
        return self._read.translated.rows

    def _planned(self) -> _Read:
        """Flows that read other flows' results need slots for both at a time; where there are too few, none does."""
        gateway, plan = Gateway(self._df.sparkSession), self._df._jdf.queryExecution().optimizedPlan()
        chained: list[HostedFlow] = []

        def chain(tree: Tree) -> DataFrame:
            chained.append(self._chained(tree))
            return chained[-1].launched(previews=False, giving="exchanged").df

        all_joins = self.settings.joins == "all"
        shaping = Shaping(gateway, chain)
        made = translated(gateway, shaping, plan, all_joins=all_joins)
        if not chained or self._fits(shaping, made):
            return _Read(shaping, made, tuple(chained))
        shaping = Shaping(gateway, _unchained)
        return _Read(shaping, translated(gateway, shaping, plan, all_joins=all_joins), ())

    def _chained(self, tree: Tree) -> HostedFlow:
        """A flow whose result another flow reads; half of the slots are left to that one."""
        slots = flows_of(self._df.sparkSession.sparkContext).slots()
        hosts = self._choices.options.get("hosts") or min(max(1, slots // 2), self.settings.workers or slots)
        flow = HostedFlow.of(tree, replace(self.settings, hosts=hosts), self._choices)
        while flow.slots().least >= slots:
            hosts -= 1
            if hosts == 0 or "hosts" in self._choices.options:
                _unchained(tree)
            flow = replace(flow, settings=replace(self.settings, hosts=hosts))
        return flow

    def _fits(self, shaping: Shaping, made: Translated) -> bool:
        """Whether every flow that reads another one's result has slots beside it."""
        try:
            for tree in shaping.trees(made.rows):
                check(self._df.sparkSession, self._flow_of(tree).slots())
        except TooFewSlots:
            return False
        return True

    def _flow_of(self, tree: Tree) -> HostedFlow:
        """One flow for each tree, so that Spark is asked once who reads its sources."""
        return self._flows.setdefault(id(tree), HostedFlow.of(tree, self.settings, self._choices))

    def check_tuning(self) -> None:
        """Raises `FlowError` where settings are for an operator that there is not."""
        if not self._choices.tuning:
            return
        labels = [one.label for flow in (*self.flows, *self._read.chained) for one in flow.plan().operators]
        for name, _ in self._choices.tuning:
            if not any(is_called(name, label) for label in labels):
                known = ", ".join(labels) or "none; see explain()"
                raise FlowError(f"tuned: no operator of this flow is called {name!r}; there are {known}")


def _unchained(tree: Tree) -> DataFrame:
    raise LeftToSpark("another flow would have to run beside this one, and the session has too few task slots for both")


def _row_by_row(rows: Rows) -> bool:
    """Whether the result is one flow's, with nothing but projections and filters behind it."""
    if isinstance(rows, SparkRows):
        return kind(rows.plan) in _ROW_BY_ROW and len(rows.children) == 1 and _row_by_row(rows.children[0])
    return _is_one_flow(rows)


def _is_one_flow(rows: Rows) -> TypeGuard[FlowRows | UnionRows]:
    """Whether hosts give these very rows."""
    if isinstance(rows, UnionRows):
        return all(isinstance(branch, FlowRows) for branch in rows.branches)
    return isinstance(rows, FlowRows)
