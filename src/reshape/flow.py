"""Flows: joins and groupings that show results while they run. Lazy, as small as PySpark's own surface allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa

from reshape.errors import ReshapeError
from reshape.operators.group_by import GroupBySpec
from reshape.operators.hash_join import JoinKind, JoinSpec, OutputColumn
from reshape.operators.relay import RelaySpec
from reshape.operators.set_ops import DistinctSpec, SetProbeSpec
from reshape.operators.sort import SortSpec
from reshape.plan.nodes import (
    DistinctNode,
    GroupNode,
    JoinNode,
    MapFunction,
    MapNode,
    Node,
    RelayNode,
    SetNode,
    SortNode,
    SourceNode,
    UnionNode,
)
from reshape.plan.planner import Planner
from reshape.plan.resolve import resolve_aggregates, resolve_keys, resolve_ordering
from reshape.query import Query
from reshape.runtime.host import QUEUE_BYTES, HostSettings
from reshape.runtime.launch import LaunchedFlow
from reshape.runtime.session import default_hosts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_HOW: dict[str, JoinKind] = {
    "inner": "inner",
    "left": "left",
    "leftouter": "left",
    "left_outer": "left",
    "right": "right",
    "rightouter": "right",
    "right_outer": "right",
    "full": "full",
    "outer": "full",
    "fullouter": "full",
    "full_outer": "full",
    "semi": "left_semi",
    "leftsemi": "left_semi",
    "left_semi": "left_semi",
    "anti": "left_anti",
    "leftanti": "left_anti",
    "left_anti": "left_anti",
}


class FlowError(ReshapeError):
    """A flow that cannot be built as asked; says what to change."""


class Flow:
    """A lazy flow of skew-prone operators over Spark DataFrames. Methods return new flows; nothing is changed."""

    def __init__(
        self, spark: SparkSession, node: Node, sources: tuple[DataFrame, ...], settings: dict[str, Any]
    ) -> None:
        self._spark = spark
        self._node = node
        self._sources = sources
        self._settings = settings

    @classmethod
    def read(cls, df: DataFrame, **settings: Any) -> Flow:
        from pyspark.sql.pandas.types import to_arrow_schema

        return cls(df.sparkSession, SourceNode(0, to_arrow_schema(df.schema)), (df,), settings)

    @property
    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(self._node.schema)

    @property
    def columns(self) -> list[str]:
        return list(self._node.schema.names)

    def __repr__(self) -> str:
        return f"Flow[{', '.join(f'{field.name}: {field.type}' for field in self._node.schema)}]"

    def join(self, other: Flow | DataFrame, on: str | Sequence[str | tuple[str, str]], how: str = "inner") -> Flow:
        """Join on equal columns: a name, names, or pairs of differing names."""
        right = other if isinstance(other, Flow) else Flow.read(other)
        kind = _HOW.get(how.lower().replace(" ", ""))
        if kind is None:
            raise FlowError(f"join: how = {how!r} is not one of {', '.join(sorted(set(_HOW.values())))}")
        pairs = [(on, on)] if isinstance(on, str) else [(o, o) if isinstance(o, str) else o for o in on]
        if not pairs:
            raise FlowError("join: on names no column; a flow joins on equal columns")
        mine, theirs = self._node.schema, right._node.schema
        keys = [(self._index(a, "join"), right._index(b, "join")) for a, b in pairs]
        by_name = all(a == b for a, b in pairs)
        output = _join_output(mine, theirs, keys, kind, by_name)
        spec = JoinSpec(mine, theirs, tuple(a for a, _ in keys), tuple(b for _, b in keys), kind, output)
        shifted = _shift(right._node, len(self._sources))
        return self._with(JoinNode(self._node, shifted, spec), self._sources + right._sources)

    def groupBy(self, *keys: str | Column) -> GroupedFlow:  # noqa: N802
        return GroupedFlow(self, keys)

    def orderBy(self, *columns: str | Column, **options: Any) -> Flow:  # noqa: N802
        """Sort by PySpark's own columns; ``ascending`` as there. Partition order of the result is the global order."""
        if not columns:
            raise FlowError("orderBy: name at least one column")
        ordering = resolve_ordering(self._empty(), columns, **options)
        return self._with(SortNode(self._node, SortSpec(self._node.schema, ordering)), self._sources)

    def repartition(self, *columns: str) -> Flow:
        """Bring rows with equal values to one worker, for a function of your own to follow (mapInArrow)."""
        if not columns:
            raise FlowError("repartition: name at least one column")
        keys = tuple(self._index(column, "repartition") for column in columns)
        return self._with(RelayNode(self._node, RelaySpec(self._node.schema, keys)), self._sources)

    def distinct(self) -> Flow:
        return self._with(DistinctNode(self._node, DistinctSpec(self._node.schema)), self._sources)

    def intersect(self, other: Flow | DataFrame) -> Flow:
        """Rows of both, each once, as Spark's intersect."""
        return self._set_operation(other, "intersect")

    def subtract(self, other: Flow | DataFrame) -> Flow:
        """Rows of this flow that the other does not have, each once, as Spark's subtract."""
        return self._set_operation(other, "subtract")

    def _set_operation(self, other: Flow | DataFrame, kind: Literal["intersect", "subtract"]) -> Flow:
        right = other if isinstance(other, Flow) else Flow.read(other)
        if len(self.columns) != len(right.columns):
            raise FlowError(f"{kind}: {self!r} and {right!r} differ in the number of columns")
        spec = SetProbeSpec(self._node.schema, kind, right._node.schema)
        shifted = _shift(right._node, len(self._sources))
        return self._with(SetNode(self._node, shifted, spec), self._sources + right._sources)

    def union(self, other: Flow | DataFrame) -> Flow:
        """Rows of both flows, by position, as Spark's union."""
        right = other if isinstance(other, Flow) else Flow.read(other)
        if self._node.schema.types != right._node.schema.types:
            raise FlowError(f"union: {self!r} and {right!r} differ in their types; cast one of them before")
        return self._with(
            UnionNode(self._node, _shift(right._node, len(self._sources))), self._sources + right._sources
        )

    def mapInArrow(self, function: MapFunction, schema: str | StructType) -> Flow:  # noqa: N802
        """The user's own function on record batches, run where the rows are. It must not depend on how rows are cut."""
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType, _parse_datatype_string

        parsed = schema if isinstance(schema, StructType) else cast(StructType, _parse_datatype_string(schema))
        if isinstance(self._node, SourceNode):
            return Flow.read(self._sources[0].mapInArrow(function, parsed), **self._settings)
        return self._with(MapNode(self._node, function, to_arrow_schema(parsed)), self._sources)

    def toDF(self, *, exchange: bool = True) -> DataFrame:  # noqa: N802
        """The result as a lazy Spark DataFrame; every action on it runs the flow.

        Behind the flow comes an exchange that makes everything work on the result. Without it (``exchange=False``) rows
        reach Spark sooner, but only actions that want all partitions work: write, collect, count, join.
        """
        if isinstance(self._node, SourceNode):
            return self._sources[0]
        return self._launched().launch(self._host_settings(), exchange=exchange)

    def _launched(self) -> LaunchedFlow:
        hosts = int(self._settings.get("hosts") or default_hosts(self._spark))
        workers = int(self._settings.get("workers") or 2 * hosts)
        plan = Planner().plan(self._node, str(self._settings.get("name", "flow")), hosts, max(hosts, workers))
        return LaunchedFlow(self._spark, plan, self._sources)

    def _host_settings(self) -> HostSettings:
        return HostSettings(
            queue_bytes=int(self._settings.get("queue_bytes", QUEUE_BYTES)),
            spill=bool(self._settings.get("spill", True)),
        )

    def start(self) -> Query:
        """Run in the background. The handle tells progress and partial results, and has the result at the end."""
        if isinstance(self._node, SourceNode):
            raise FlowError("start: this flow has no operator; use the DataFrame itself")
        from pyspark import StorageLevel

        launched = self._launched()
        return Query(
            launched, launched.launch(self._host_settings(), exchange=True).persist(StorageLevel.MEMORY_AND_DISK)
        )

    def _with(self, node: Node, sources: tuple[DataFrame, ...]) -> Flow:
        return Flow(self._spark, node, sources, self._settings)

    def _index(self, name: str, what: str) -> int:
        found = self._node.schema.get_all_field_indices(name)
        if len(found) != 1:
            wrong = "is not" if not found else "is more than once"
            raise FlowError(f"{what}: column {name!r} {wrong} among {', '.join(self.columns)}")
        return int(found[0])

    def _empty(self) -> DataFrame:
        return self._spark.createDataFrame([], self.schema)


class GroupedFlow:
    """A flow with its grouping keys, waiting for aggregates."""

    def __init__(self, flow: Flow, keys: Sequence[str | Column]) -> None:
        self._flow = flow
        self._keys = tuple(keys)

    def agg(self, *expressions: Column | dict[str, str]) -> Flow:
        """PySpark's own aggregate columns, or a dict of column to function name."""
        flow = self._flow
        empty = flow._empty()
        keys = resolve_keys(empty, self._keys)
        aggregates = resolve_aggregates(empty, self._keys, expressions)
        return flow._with(GroupNode(flow._node, GroupBySpec(flow._node.schema, keys, aggregates)), flow._sources)

    def count(self) -> Flow:
        from pyspark.sql import functions as F  # noqa: N812

        return self.agg(F.count("*").alias("count"))


def _join_output(
    left: pa.Schema, right: pa.Schema, keys: list[tuple[int, int]], how: JoinKind, by_name: bool
) -> tuple[OutputColumn, ...]:
    """Columns as Spark orders them: with names, the keys once and first; with pairs, all of both sides."""
    if how in ("left_semi", "left_anti"):
        return tuple(OutputColumn(name, left=index) for index, name in enumerate(left.names))
    left_keys, right_keys = [a for a, _ in keys], [b for _, b in keys]
    if not by_name:
        columns = [OutputColumn(name, left=index) for index, name in enumerate(left.names)]
        columns += [OutputColumn(name, right=index) for index, name in enumerate(right.names)]
    else:
        columns = []
        for a, b in keys:
            name = left.names[a]
            if how == "full":
                columns.append(OutputColumn(name, left=a, right=b))
            else:
                columns.append(OutputColumn(name, right=b) if how == "right" else OutputColumn(name, left=a))
        columns += [OutputColumn(name, left=i) for i, name in enumerate(left.names) if i not in left_keys]
        columns += [OutputColumn(name, right=i) for i, name in enumerate(right.names) if i not in right_keys]
    names = [column.name for column in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FlowError(f"join: both sides have a column {', '.join(map(repr, twice))}; rename one before the join")
    return tuple(columns)


def _shift(node: Node, by: int) -> Node:
    """The same tree with its sources numbered from ``by`` on."""
    match node:
        case SourceNode():
            return replace(node, number=node.number + by)
        case MapNode() | GroupNode() | SortNode() | DistinctNode() | RelayNode():
            return replace(node, child=_shift(node.child, by))
        case JoinNode() | SetNode() | UnionNode():
            return replace(node, left=_shift(node.left, by), right=_shift(node.right, by))
