"""The operations of a query that bring rows of one key to one worker, in Spark's optimized plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reshape.plan.analysis import kind, scala_list

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's names of expressions that its optimizer has moved below an operation.
_MADE_BY_OPTIMIZER = ("_groupingexpression", "_w")
_LONGEST_KEY = 60


@dataclass(frozen=True, slots=True)
class Operation:
    """One input of an operation: ``plan`` is all of it, ``child`` the plan of this input. Both are Spark's.

    ``side`` is left or right for a join. Without ``expressions`` all rows have one key.
    """

    name: str
    plan: Any
    child: Any
    expressions: tuple[Any, ...]
    side: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(_written(expression, self.child) for expression in self.expressions)

    @property
    def is_ordered(self) -> bool:
        """Whether rows of one key have to stay on one worker."""
        return kind(self.plan) in ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow")

    @property
    def words(self) -> str:
        return f"{self.name}, {self.side} input" if self.side else self.name


def operations(spark: SparkSession, plan: Any) -> Iterator[Operation]:
    """All of a plan, those that run first before the others."""
    for child in scala_list(plan.children()):
        # The first rows of an order need no sort of all rows.
        if not (kind(plan) == "GlobalLimit" and _is_first_rows(child)):
            yield from operations(spark, child)
        else:
            yield from operations(spark, _below(child, "Sort"))
    match kind(plan):
        case "Join":
            yield from _of_join(spark, plan)
        case "Aggregate":
            yield from _of_aggregate(plan)
        case "Window":
            name = "window" if plan.partitionSpec().length() else "window without PARTITION BY"
            yield Operation(name, plan, plan.child(), tuple(scala_list(plan.partitionSpec())))
        case "Sort" if getattr(plan, "global")():  # a word of Python's own
            orders = tuple(order.child() for order in scala_list(plan.order()))
            yield Operation("sort", plan, plan.child(), orders)
        case "RepartitionByExpression" if plan.partitionExpressions().length():
            yield Operation("repartition", plan, plan.child(), tuple(scala_list(plan.partitionExpressions())))
        case "FlatMapGroupsInPandas" | "FlatMapGroupsInArrow":
            yield Operation("function of each group", plan, plan.child(), tuple(scala_list(plan.groupingAttributes())))


def _of_join(spark: SparkSession, plan: Any) -> Iterator[Operation]:
    jvm: Any = spark._jvm
    found = jvm.org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys.unapply(plan)
    if found.isEmpty():
        return  # no equal keys, no rows that have to meet by them
    parts = found.get()
    name = f"{str(plan.joinType().sql()).lower()} join"
    for side, keys, child in (("left", parts._2(), plan.left()), ("right", parts._3(), plan.right())):
        yield Operation(name, plan, child, tuple(scala_list(keys)), side)


def _of_aggregate(plan: Any) -> Iterator[Operation]:
    expressions = tuple(scala_list(plan.groupingExpressions()))
    if not expressions:
        return  # one row of each task comes together
    functions = aggregate_functions(plan)
    yield Operation("group by" if functions else "distinct", plan, plan.child(), expressions)


def aggregate_functions(plan: Any) -> list[str]:
    """The classes of the functions of an aggregate."""
    found = []
    for expression in scala_list(plan.aggregateExpressions()):
        found += _functions_in(expression)
    return found


def _functions_in(expression: Any) -> list[str]:
    if kind(expression) == "AggregateExpression":
        return [kind(expression.aggregateFunction())]
    if kind(expression) == "PythonUDAF":
        return ["PythonUDAF"]
    return [name for child in scala_list(expression.children()) for name in _functions_in(child)]


def _is_first_rows(plan: Any) -> bool:
    return kind(plan) in ("LocalLimit", "Sort", "Project") and _below(plan, "Sort") is not None


def _below(plan: Any, wanted: str) -> Any:
    """The input of the first node of a class below limits and projections, None where there is none."""
    while kind(plan) in ("LocalLimit", "Project"):
        plan = plan.child()
    return plan.child() if kind(plan) == wanted else None


def _written(expression: Any, child: Any) -> str:
    """A key as people wrote it."""
    if kind(expression) == "AttributeReference":
        name = str(expression.name())
        meant = _computed(expression, child) if name.startswith(_MADE_BY_OPTIMIZER) else None
        return name if meant is None else _short(str(meant.sql()))
    return _short(str(expression.sql()))


def _computed(attribute: Any, child: Any) -> Any:
    """What the optimizer has put into a column of its own, None where that is not to be seen."""
    if kind(child) != "Project":
        return None
    for named in scala_list(child.projectList()):
        if kind(named) == "Alias" and named.exprId().id() == attribute.exprId().id():
            return named.child()
    return None


def _short(text: str) -> str:
    text = text.replace("`", "")
    return text if len(text) <= _LONGEST_KEY else f"{text[: _LONGEST_KEY - 3]}..."
