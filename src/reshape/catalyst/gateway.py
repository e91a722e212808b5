"""Spark's own objects through the JVM gateway: parts of plans made into DataFrames, and plans put together again.

Each call costs some tenths of a millisecond, so nothing here is called for rows or batches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.catalyst.errors import LeftToSpark
from reshape.expressions.translate import session_facts
from reshape.plan.analysis import dataframe_of, scala_list
from reshape.plan.java_classes import CATALYST, java_classes
from reshape.plan.types import arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Extensions of Spark may bring classes of their own with the same short names.
_PLANS = f"{CATALYST}plans.logical."


# How Spark writes a column: its name, its id, and an L where it is a long. One call says what would take three.
_SHOWN = re.compile(r"(?P<name>.*)#(?P<id>\d+)L?", re.DOTALL)


@dataclass(frozen=True)
class Attribute:
    """A column of a plan, known by Catalyst's id; ``jvm`` is Spark's own object."""

    id: int
    name: str
    nullable: bool
    jvm: Any

    @classmethod
    def of(cls, jvm: Any) -> Attribute:
        shown = _SHOWN.fullmatch(str(jvm.toString()))
        if shown is None:
            return cls(int(jvm.exprId().id()), str(jvm.name()), bool(jvm.nullable()), jvm)
        return cls(int(shown["id"]), shown["name"], bool(jvm.nullable()), jvm)

    @property
    def type(self) -> pa.DataType:
        """Its type in Arrow; raises LeftToSpark where Arrow has none."""
        from pyspark.errors import PySparkTypeError
        from pyspark.sql.types import _parse_datatype_json_string

        try:
            return arrow_type(_parse_datatype_json_string(self.jvm.dataType().json()))
        except PySparkTypeError:
            raise LeftToSpark(
                f"{self.name} is {self.jvm.dataType().simpleString()}, which Arrow does not have"
            ) from None


@dataclass(frozen=True)
class EquiJoin:
    """A join's keys, pair by pair, and what else has to hold. Null-safe keys are plain ones over expressions."""

    how: Any
    left_keys: tuple[Any, ...]
    right_keys: tuple[Any, ...]
    residual: Any | None


@dataclass(frozen=True)
class Aggregation:
    """Grouping keys with their names, different aggregate calls, and the result as expressions over both."""

    keys: tuple[Any, ...]
    calls: tuple[Any, ...]
    results: tuple[Any, ...]


class Gateway:
    """Of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.facts = session_facts(spark)
        self._session: Any = spark._jsparkSession
        self._java = java_classes(spark.sparkContext._gateway)
        self._nil = self._java.object("scala.collection.immutable.Nil")
        self._none = self._java.object("scala.None")

    def dataframe(self, plan: Any) -> DataFrame:
        """The rows of a logical plan."""
        return dataframe_of(self.spark, plan)

    def project(self, named: Sequence[Any], plan: Any) -> Any:
        return self._plan("Project")(self._java.seq(named), plan)

    def filter(self, condition: Any, plan: Any) -> Any:
        return self._plan("Filter")(condition, plan)

    def union(self, plans: Sequence[Any]) -> Any:
        return self._plan("Union")(self._java.seq(plans), False, False)

    def with_children(self, plan: Any, children: Sequence[Any]) -> Any:
        return plan.withNewChildren(self._java.seq(children))

    def alias(self, expression: Any, name: str, like: Any = None) -> Any:
        """The expression under a name; with the id of another one if given, so that whoever refers to that finds it."""
        expression_id = self._new_id() if like is None else like.exprId()
        return self._expression("Alias")(expression, name, expression_id, self._nil, self._none, self._nil)

    def shown_as(self, attribute: Attribute, name: str, nullable: bool, metadata: dict[str, Any]) -> Any:
        """A column of a result exactly as Spark would show it."""
        shown = attribute.jvm
        # Also where both say that there are no nulls: Spark's analyzer derives it anew, and may find less than it knew.
        if not (attribute.nullable and nullable):
            shown = self._expression("KnownNullable" if nullable else "KnownNotNull")(shown)
        of_column = self._java.object("org.apache.spark.sql.types.Metadata").fromJson(json.dumps(metadata))
        explicit = self._java.named("scala.Some")(of_column)
        return self._expression("Alias")(shown, name, self._new_id(), self._nil, explicit, self._nil)

    def mark(self) -> Any:
        """A constant, where rows without any column have to be counted."""
        return self.alias(self._java.object(f"{CATALYST}expressions.Literal").TrueLiteral(), "row")

    def if_else_null(self, condition: Any, value: Any) -> Any:
        """The value where the condition holds, else null."""
        return self._expression("If")(condition, value, self._expression("Literal")(None, value.dataType()))

    def equi_join(self, join: Any) -> EquiJoin | None:
        """None for a join without equal keys."""
        found = self._java.object(f"{CATALYST}planning.ExtractEquiJoinKeys").unapply(join)
        if not found.isDefined():
            return None
        facts = found.get()
        residual = facts._4().get() if facts._4().isDefined() else None
        return EquiJoin(facts._1(), tuple(scala_list(facts._2())), tuple(scala_list(facts._3())), residual)

    def aggregation(self, aggregate: Any) -> Aggregation | None:
        """None for an aggregate that Spark plans in a way of its own."""
        found = self._java.object(f"{CATALYST}planning.PhysicalAggregation").unapply(aggregate)
        if not found.isDefined():
            return None
        facts = found.get()
        return Aggregation(*(tuple(scala_list(part)) for part in (facts._1(), facts._2(), facts._3())))

    def has_broadcast_hint(self, join: Any) -> bool:
        """Whether the user asks for one side of a join to be sent to all tasks."""
        return bool(self._choice.getBroadcastBuildSide(join, True, self._session.sessionState().conf()).isDefined())

    def broadcasts(self, join: Any) -> bool:
        """Whether Spark would send one side of a join to all tasks, by a hint or by its size."""
        if self.has_broadcast_hint(join):
            return True
        choice, conf = self._choice, self._session.sessionState().conf()
        hint = join.hint()
        if choice.hintToSortMergeJoin(hint) or choice.hintToShuffleHashJoin(hint):
            return False
        return bool(choice.getBroadcastBuildSide(join, False, conf).isDefined())

    @property
    def _choice(self) -> Any:
        """An object of Spark's that has the planner's own way to choose."""
        return self._java.object(f"{CATALYST}optimizer.PushDownLeftSemiAntiJoin")

    def _plan(self, name: str) -> Any:
        return self._java.named(_PLANS + name)

    def _expression(self, name: str) -> Any:
        return self._java.named(f"{CATALYST}expressions.{name}")

    def _new_id(self) -> Any:
        return self._java.object(f"{CATALYST}expressions.NamedExpression").newExprId()


def attributes_of(plan: Any) -> tuple[Attribute, ...]:
    """The columns of a plan, in order."""
    return tuple(map(Attribute.of, scala_list(plan.output())))


def plan_of(df: DataFrame) -> Any:
    """The analyzed plan of a DataFrame, as a part of another plan."""
    return df._jdf.queryExecution().analyzed()


def is_sparks_own(plan: Any) -> bool:
    return str(plan.getClass().getName()).startswith(_PLANS)


def size_of(plan: Any) -> int:
    """Spark's estimate of a plan's output in bytes."""
    return int(str(plan.stats().sizeInBytes()))
