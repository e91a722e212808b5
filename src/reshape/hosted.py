"""One flow that hosts run: a tree of operators with its settings, and what becomes of both on Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from reshape.conf import Choices, FlowSettings
from reshape.control.balancing import Balancing
from reshape.driver.launch import Giving, LaunchedFlow
from reshape.driver.session import default_hosts
from reshape.driver.session_flows import flows_of
from reshape.driver.slots import FlowSlots
from reshape.host.host import HostSettings
from reshape.plan.balancing import check_strategies
from reshape.plan.explain import explained
from reshape.plan.physical import PhysicalPlan
from reshape.plan.planner import Planner
from reshape.plan.pruning import pruned
from reshape.plan.tree import Tree
from reshape.scan.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def is_called(name: str, label: str) -> bool:
    """Whether people may mean an operator by a name: "join" is every join, "operator 1" one operator of each flow."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", label) is not None


@dataclass(frozen=True)
class HostedFlow:
    """Nothing runs before what it launches is asked for rows."""

    whole: Tree
    settings: FlowSettings
    tuning: tuple[tuple[str, Mapping[str, object]], ...] = ()

    @classmethod
    def of(cls, tree: Tree, settings: FlowSettings, choices: Choices) -> HostedFlow:
        return cls(tree, settings, choices.tuning)

    @cached_property
    def tree(self) -> Tree:
        """What runs: without columns that nothing reads."""
        return pruned(self.whole)

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """What the flow reads, and who reads it."""
        if self.settings.scan == "spark":
            return tuple(Source(df, None, "spark.reshape.scan is spark") for df in self.tree.sources)
        sources = tuple(map(Source.planned, self.tree.sources))
        if self.settings.scan == "arrow":
            for source in sources:
                source.check_scanned()
        return sources

    @cached_property
    def _by_spark(self) -> list[DataFrame]:
        return [source.df for source in self.sources if source.scan is None]

    def plan(self) -> PhysicalPlan:
        """Its operators on hosts. How many these are depends on what else there is in the session."""
        settings, hosts, spare = self.settings, self.settings.hosts, 0
        if hosts is None:
            hosts, spare = default_hosts(self.tree.spark, self._by_spark)
            hosts = hosts if settings.workers is None else min(hosts, settings.workers)
        planner = Planner(self._tuned, combine=settings.combine)
        plan = planner.plan(self.tree.node, settings.name, hosts, settings.workers or 2 * hosts)
        return replace(plan, report_s=settings.report_s, ordered=settings.ordered, spare_hosts=spare)

    def _tuned(self, label: str, own: Mapping[str, object]) -> tuple[Balancing, float]:
        """What the plan itself asks for beats what people do."""
        settings = self.settings
        for name, options in (*self.tuning, (label, own)):
            if is_called(name, label):
                settings = settings.with_options(options)
        return settings.balancing(), settings.cost_s_per_row

    def slots(self) -> FlowSlots:
        """What it would take of the session."""
        reads = flows_of(self.tree.spark.sparkContext).read_by(self._by_spark)
        plan = self.plan()
        return FlowSlots(self.settings.name, plan.hosts, bool(self._by_spark), reads, plan.spare_hosts)

    def explained(self) -> str:
        readings = [source.described for source in self.sources]
        return explained(self.tree.node, self.plan(), self.settings, readings)

    def launched(self, *, previews: bool, giving: Giving, shown: StructType | None = None) -> LaunchedFlow:
        """The flow with a lazy DataFrame, whose actions run it; with these columns, if Spark is to know
        them by other names."""
        plan, settings = self.plan(), self.settings
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
            self.tree.spark,
            plan,
            self.sources,
            hosts,
            giving=giving,
            shown=shown,
            tls=settings.tls(),
            log_directory=settings.event_log,
        )
