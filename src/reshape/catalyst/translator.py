"""From Spark's optimized plan to flows, from the leaves upwards.

What is below the lowest of our operators stays in the sources of flows. What is above the last one, or cannot run in
hosts, stays with Spark and reads the flows' results. Nothing that goes wrong here is an error for users: it is a
reason, and what nobody foresaw is logged as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from reshape.catalyst import aggregations, functions, joins, limits, sorts, windows
from reshape.catalyst.columns import Shaping
from reshape.catalyst.errors import LeftToSpark, reason_of
from reshape.catalyst.gateway import Gateway, attributes_of, is_sparks_own
from reshape.catalyst.placement import Placement
from reshape.catalyst.rows import FlowRows, Rows, SparkRows, UnionRows, has_flow, may_be_scanned
from reshape.plan.analysis import kind, scala_list

# What becomes of the rows of a node: they are the result's, a limit cuts them, an operator forgets their order, one
# that brings rows together takes them, maybe through joins, or a function of rows takes them.
Above = Literal["result", "limit", "operator", "gathered"] | functions.Called

_LIMITS = ("GlobalLimit", "LocalLimit", "Offset", "Tail")


@dataclass(frozen=True)
class Translated:
    """A whole plan. ``placements`` has its skew-prone operators, those below before those above."""

    rows: Rows
    placements: tuple[Placement, ...]


def translated(gateway: Gateway, shaping: Shaping, plan: Any, *, all_joins: bool = False) -> Translated:
    """Which parts of an optimized plan flows run. ``all_joins``: also joins that move no rows in Spark."""
    translator = _Translator(gateway, shaping, all_joins)
    rows = translator.walk(plan, "result")
    inner = [Placement(label, "spark", "it is in a subquery of an expression") for label in _subqueries(plan)]
    placements = (*translator.placements, *inner)
    try:
        shaping.trees(rows)
    except Exception as error:  # parts that cannot be put together are left alone, as those of operators are
        reason = reason_of(error, "the query")
        return Translated(SparkRows(plan), tuple(Placement(one.operator, "spark", reason) for one in placements))
    return Translated(rows, placements)


class _Translator:
    def __init__(self, gateway: Gateway, shaping: Shaping, all_joins: bool) -> None:
        self._gateway = gateway
        self._shaping = shaping
        self._all_joins = all_joins
        self.placements: list[Placement] = []

    def walk(self, node: Any, above: Above) -> Rows:
        """What a node becomes, its children first."""
        name = kind(node) if is_sparks_own(node) else ""
        below = functions.called(node) or "operator" if name in functions.MAPS else _below(name, above)
        children = [self.walk(child, below) for child in scala_list(node.children())]
        match name:
            case "Join":
                return self._operator(joins.label(node), node, children, lambda: self._join(node, children, above))
            case "Aggregate":
                return self._operator(
                    aggregations.label(node),
                    node,
                    children,
                    lambda: aggregations.aggregated(self._shaping, node, children[0]),
                )
            case "Sort" if getattr(node, "global")():
                return self._operator("sort", node, children, lambda: self._sort(node, children[0], above))
            case "Window":
                return self._operator(
                    "window", node, children, lambda: windows.windowed(self._shaping, node, children[0])
                )
            case "LocalLimit":
                return self._passed(
                    node, children, lambda: self._sparks(node, [limits.ending_early(node, children[0])])
                )
            case "WindowGroupLimit" if has_flow(children[0]):
                return children[0]  # it drops rows early that a filter above would drop too
            case "Union":
                return self._passed(node, children, lambda: self._union(node, children, above))
            case "Project" | "Filter" | "Expand":
                return self._passed(node, children, lambda: self._row_by_row(node, children[0]))
            case _:
                return self._function(name, node, children, above)

    def _function(self, name: str, node: Any, children: list[Rows], above: Above) -> Rows:
        """A node with a function in Python, or that brings rows to one; all others are Spark's."""
        shaping = self._shaping
        match name:
            case "MapInArrow" | "MapInPandas" if has_flow(children[0]):
                return self._operator(
                    functions.label(node), node, children, lambda: self._row_by_row(node, children[0])
                )
            case "FlatMapGroupsInArrow" | "FlatMapGroupsInPandas":
                return self._operator(
                    functions.label(node), node, children, lambda: functions.grouped(shaping, node, children[0])
                )
            case "RepartitionByExpression" if above in ("by batches", "by partitions"):
                return self._operator(
                    "repartition", node, children, lambda: functions.repartitioned(shaping, node, children[0], above)
                )
            case _:
                return self._sparks(node, children)

    def _operator(self, label: str, node: Any, children: list[Rows], ours: Callable[[], Rows]) -> Rows:
        try:
            rows = ours()
        except Exception as error:  # of an extension, of a type, of anything: Spark runs the operator
            self.placements.append(Placement(label, "spark", reason_of(error, label)))
            return self._sparks(node, children)
        self.placements.append(Placement(label, "reshape"))
        return rows

    def _passed(self, node: Any, children: list[Rows], ours: Callable[[], Rows]) -> Rows:
        """What passes rows on as they come: in hosts, or on the results of flows."""
        try:
            return ours()
        except Exception as error:  # mostly NotExact: Spark knows more expressions than Arrow
            reason_of(error, kind(node))
            return self._sparks(node, children)

    def _join(self, node: Any, children: list[Rows], above: Above) -> Rows:
        left, right = children
        if not has_flow(left) and not has_flow(right) and self._left_in_source(node, left, right, above):
            where = ", and is looked up where the others are read" if all(map(may_be_scanned, children)) else ""
            raise LeftToSpark(f"broadcast: one side is small enough to be sent to all tasks{where}")
        return joins.joined(self._shaping, node, left, right)

    def _left_in_source(self, node: Any, left: Rows, right: Rows, above: Above) -> bool:
        """Whether a join over sources is one that Spark sends a small side to all tasks for. Hosts that read both sides
        do the same; below an operator of ours Spark would otherwise read rows that hosts read for less."""
        if self._all_joins or not self._gateway.broadcasts(node):
            return False
        if above != "gathered" or self._gateway.has_broadcast_hint(node):
            return True
        if may_be_scanned(left) and may_be_scanned(right):
            return True
        return not joins.scans_larger_side(node, left, right)

    def _sort(self, node: Any, child: Rows, above: Above) -> Rows:
        if above == "limit":
            raise LeftToSpark("top-n: a limit follows, and Spark takes the first rows without sorting the others")
        if above != "result":
            raise LeftToSpark("its order is not that of the result")
        return sorts.ordered(self._shaping, node, child)

    def _union(self, node: Any, children: list[Rows], above: Above) -> Rows:
        """Branches of a flow, or those that hosts may read, each by itself."""
        scanned = above == "gathered" and all(map(may_be_scanned, children))
        if not scanned and not any(isinstance(child, FlowRows | UnionRows) for child in children):
            return self._sparks(node, children)
        attributes = attributes_of(node)
        branches: list[SparkRows | FlowRows] = []
        for child in children:
            seen = self._shaping.attributes(child)
            if isinstance(child, SparkRows):
                named = [
                    mine.jvm if mine.id == one.id else self._gateway.alias(mine.jvm, one.name, like=one.jvm)
                    for mine, one in zip(seen, attributes, strict=True)
                ]
                branches.append(SparkRows(self._gateway.project(named, child.plan), (child,)))
                continue
            for branch in child.branches if isinstance(child, UnionRows) else (child,):
                branches.append(self._renamed(branch, seen, attributes))
        return UnionRows(tuple(branches), attributes)

    def _renamed(self, branch: SparkRows | FlowRows, seen: Any, attributes: Any) -> SparkRows | FlowRows:
        """A branch of a union under the attributes of the union above it."""
        pairs = list(zip(seen, attributes, strict=True))
        if isinstance(branch, FlowRows):
            return FlowRows(branch.tree, attributes, {one.id: branch.number(mine) for mine, one in pairs})
        named = [self._gateway.alias(mine.jvm, one.name, like=one.jvm) for mine, one in pairs]
        return SparkRows(self._gateway.project(named, branch.plan), (branch,))

    def _row_by_row(self, node: Any, child: Rows) -> Rows:
        """What asks for one row at a time; raises what makes it Spark's."""
        if isinstance(child, SparkRows):
            return self._sparks(node, [child])
        if isinstance(child, FlowRows):
            return self._in_hosts(node, child)
        branches = tuple(
            self._in_hosts(node, branch) if isinstance(branch, FlowRows) else SparkRows(node, (branch,))
            for branch in child.branches
        )
        return UnionRows(branches, attributes_of(node))

    def _in_hosts(self, node: Any, child: FlowRows) -> FlowRows:
        if kind(node) == "Project":
            return joins.sharing_keys(self._shaping.projected(child, scala_list(node.projectList())))
        if kind(node) == "Expand":
            return self._shaping.expanded(child, node)
        if kind(node) in functions.MAPS:
            return functions.mapped(self._shaping, node, child)
        return self._shaping.filtered(child, node.condition())

    def _sparks(self, node: Any, children: list[Rows]) -> SparkRows:
        """A node that stays with Spark, over whatever its children have become."""
        if any(map(has_flow, children)):
            return SparkRows(node, tuple(children))
        return SparkRows(node, scanned=_may_be_scanned(node, children))


def _may_be_scanned(node: Any, children: list[Rows]) -> bool:
    match kind(node):
        case "Project" | "Filter" | "Join":
            return all(map(may_be_scanned, children))
        case "LogicalRelation":
            relation = node.relation()
            return kind(relation) == "HadoopFsRelation" and kind(relation.fileFormat()) == "ParquetFileFormat"
        case _:
            return False


def _below(name: str, above: Above) -> Above:
    if name in ("Project", "Filter") or (name in ("Join", "Expand", "Union") and above == "gathered"):
        return above
    if name in ("Aggregate", "Window"):
        return "gathered"
    return "limit" if name in _LIMITS else "operator"


def _subqueries(plan: Any) -> list[str]:
    """The skew-prone operators of plans inside expressions."""
    labels: list[str] = []

    def look(node: Any) -> None:
        match kind(node):
            case "Join":
                labels.append(joins.label(node))
            case "Aggregate":
                labels.append(aggregations.label(node))
            case "Window":
                labels.append("window")
            case "Sort":
                labels.append("sort")
        for child in scala_list(node.children()):
            look(child)

    for one in scala_list(plan.subqueriesAll()):
        look(one)
    return labels
