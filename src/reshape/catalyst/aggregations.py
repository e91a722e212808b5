"""An Aggregate of Spark's plan as a group-by: keys and inputs are projected below, results over aggregates above."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reshape.catalyst.columns import Shaping
from reshape.catalyst.errors import LeftToSpark
from reshape.catalyst.gateway import Attribute
from reshape.catalyst.rows import FlowRows, Rows, SparkRows
from reshape.expressions.errors import NotExact
from reshape.operators.aggregates.description import Aggregate
from reshape.operators.aggregates.of_rows import OfRows
from reshape.operators.aggregates.registry import aggregate_of
from reshape.operators.aggregates.user_defined import UserDefined
from reshape.operators.group_by import GroupBySpec
from reshape.plan.analysis import NotSupported, kind, scala_list, unnamed, words_of
from reshape.plan.group_functions import Conversion, user_aggregate

_NUMBERS = ("ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DecimalType")


def label(node: Any) -> str:
    if not node.groupingExpressions().isEmpty():
        return "distinct" if node.groupOnly() else "group by"
    return "aggregate"


class Inputs:
    """The expressions that an operator needs below it, each once."""

    def __init__(self) -> None:
        self.expressions: list[Any] = []

    def number(self, expression: Any) -> int:
        for number, known in enumerate(self.expressions):
            if known.semanticEquals(expression):
                return number
        self.expressions.append(expression)
        return len(self.expressions) - 1


@dataclass(frozen=True)
class _Call:
    """A `SparkCall` of one aggregate expression of the optimized plan."""

    name: str
    expression: Any
    inputs: list[Any]
    known: Inputs

    @property
    def distinct(self) -> bool:
        return bool(self.expression.isDistinct())

    @property
    def arguments(self) -> int:
        return len(self.inputs)

    @property
    def function(self) -> Any:
        return self.expression.aggregateFunction()

    def column(self, argument: int = 0, *, uncast: bool = False) -> int:
        expression = self.inputs[argument]
        if kind(expression) == "SortOrder":
            expression = expression.child()
        return self.known.number(_uncast(expression) if uncast else expression)

    def condition(self) -> int | None:
        found = self.expression.filter()
        return self.known.number(found.get()) if found.isDefined() else None

    def is_constant(self, argument: int = 0) -> bool:
        return kind(self.inputs[argument]) == "Literal" and self.inputs[argument].value() is not None

    def refused(self, instead: str) -> NotSupported:
        return NotSupported("a group-by of a flow", words_of(self.expression), instead)


def aggregated(shaping: Shaping, node: Any, child: Rows) -> Rows:
    """Raises what makes an aggregate Spark's."""
    found = shaping.gateway.aggregation(node)
    if found is None:
        raise LeftToSpark("Spark plans it in a way of its own")
    inputs = Inputs()
    keys = [inputs.number(unnamed(key)) for key in found.keys]
    shown = {int(unnamed(one).exprId().id()): str(one.name()) for one in found.results if _is_plain(one)}
    calls = [_aggregate(shaping, call, inputs, shown) for call in found.calls]
    _refuse_mixed(calls, bool(keys))
    if not keys and not calls:
        raise LeftToSpark("it has neither keys nor aggregates")
    columns = shaping.columns(child, inputs.expressions, keep=False)
    attributes = [Attribute.of(key.toAttribute()) for key in found.keys]
    results = [Attribute.of(call.resultAttribute()) for call in found.calls]
    numbers = [columns.asked[key] for key in keys]
    different = tuple(dict.fromkeys(numbers))
    made = tuple(call.renumbered(columns.asked.__getitem__) for call in calls)
    spec = GroupBySpec(columns.tree.schema, different, made)
    output = spec.output_schema  # raises here, not in a task, what types do not allow
    where = {one.id: different.index(number) for one, number in zip(attributes, numbers, strict=True)}
    for place, one in enumerate(results):
        where[one.id] = len(different) + place
        given = output.field(where[one.id]).type
        if given != one.type:
            raise LeftToSpark(f"{one.name} is {one.type} in Spark and would be {given} in a flow")
    rows = FlowRows(columns.tree.through(spec), (*attributes, *results), where)
    return _results(shaping, node, rows, found.results)


def _results(shaping: Shaping, node: Any, rows: FlowRows, named: tuple[Any, ...]) -> Rows:
    try:
        return shaping.projected(rows, named)
    except NotExact:
        return SparkRows(shaping.gateway.project(named, node), (rows,))


def _is_plain(named: Any) -> bool:
    return kind(unnamed(named)) == "AttributeReference"


def _aggregate(shaping: Shaping, expression: Any, inputs: Inputs, shown: Mapping[int, str]) -> Aggregate:
    if kind(expression) != "AggregateExpression":
        raise LeftToSpark(f"{words_of(expression)} is no aggregate of Spark's own")
    function = expression.aggregateFunction()
    attribute = Attribute.of(expression.resultAttribute())
    name = shaping.names.of(attribute, shown.get(attribute.id) or words_of(expression))
    call = _Call(name, expression, scala_list(function.children()), inputs)
    if kind(function) == "PythonUDAF":
        if call.distinct or expression.filter().isDefined():
            raise LeftToSpark(f"{words_of(expression)} is of some rows only, and a function in Python")
        return user_aggregate(call, Conversion.in_session(shaping.gateway.spark))
    made = aggregate_of(kind(function), call)
    if made is None:
        raise LeftToSpark(f"{words_of(expression)} is not among a flow's aggregates")
    return made


def _refuse_mixed(calls: list[Aggregate], keyed: bool) -> None:
    """Spark takes functions in Python beside such functions only, and gives no row for no rows without a key. Users'
    own aggregates run beside others all the same."""
    in_python = [isinstance(call, OfRows | UserDefined) for call in calls]
    mixed = any(isinstance(call, OfRows) for call in calls) and not all(in_python)
    if mixed or (calls and all(in_python) and not keyed):
        raise LeftToSpark("functions in Python without a key, or beside other aggregates, are Spark's")


def _uncast(expression: Any) -> Any:
    """A number without its cast to double."""
    if kind(expression) != "Cast" or str(expression.dataType().typeName()) != "double":
        return expression
    inner = expression.child()
    return inner if kind(inner.dataType()).removesuffix("$") in _NUMBERS else expression
