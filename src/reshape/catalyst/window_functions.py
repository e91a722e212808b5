"""Functions of Spark's windows, with their frames, as those that hosts compute; refused if not exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from reshape.catalyst.errors import LeftToSpark
from reshape.expressions.table import SessionFacts
from reshape.expressions.translate import translate
from reshape.expressions.tree import Literal
from reshape.operators.aggregates.sums import EvalMode
from reshape.operators.windows.description import WindowFunction
from reshape.operators.windows.extremes import Max, Min
from reshape.operators.windows.frame import Frame
from reshape.operators.windows.ranks import CumeDist, DenseRank, NTile, PercentRank, Rank, RowNumber
from reshape.operators.windows.sums import Count, Mean, Sum
from reshape.operators.windows.values import NthValue, Shifted
from reshape.plan.analysis import kind, scala_list, unnamed

# Extensions of Spark may bring classes of their own with the same short names.
_PACKAGE = "org.apache.spark.sql.catalyst.expressions."

_DAY_US = 86_400_000_000
_UTC = ("UTC", "Etc/UTC", "GMT", "Z")

_RANKS: dict[str, type[WindowFunction]] = {
    "RowNumber": RowNumber,
    "Rank": Rank,
    "DenseRank": DenseRank,
    "PercentRank": PercentRank,
    "CumeDist": CumeDist,
}


@dataclass(frozen=True)
class WindowReader:
    """Reads the expressions of one Window. ``number`` gives the column that holds an expression below it.

    ``only_where`` makes a value null where a condition does not hold. ``segment_trees``: Spark adds the rows of a
    moving frame in another order than their own, which shows in doubles.
    """

    number: Callable[[Any], int]
    only_where: Callable[[Any, Any], Any]
    facts: SessionFacts
    segment_trees: bool

    def function(self, named: Any, name: str) -> WindowFunction:
        """The function of one named expression. Raises LeftToSpark for what hosts do not compute."""
        window, scaled = _window_of(unnamed(named))
        call = window.windowFunction()
        if not str(call.getClass().getName()).startswith(_PACKAGE):
            raise LeftToSpark(f"{call.getClass().getName()} is no function of Spark's own")
        nullable = bool(named.nullable())
        frame = _frame(window.windowSpec(), self.facts)
        kind_of_call = kind(call)
        match kind_of_call:
            case "AggregateExpression":
                return self._aggregate(call, frame, name, nullable, scaled)
            case "NTile":
                return NTile(name, _number(call.buckets()), nullable=nullable)
            case "Lag" | "Lead":
                return self._shifted(call, window, name, nullable)
            case "NthValue":
                column, n = self.number(call.input()), _number(call.offset())
                return NthValue(name, column, frame, n, bool(call.ignoreNulls()), nullable=nullable)
            case _ if kind_of_call in _RANKS:
                return _RANKS[kind_of_call](name, nullable=nullable)
        raise LeftToSpark(f"hosts have no {call.prettyName()} over a window")

    def _shifted(self, call: Any, window: Any, name: str, nullable: bool) -> WindowFunction:
        """Spark gives lag and lead a frame of the one row that they look at."""
        offset = _number(window.windowSpec().frameSpecification().lower())
        ignore_nulls = bool(call.ignoreNulls())
        if ignore_nulls and offset == 0:
            raise LeftToSpark("lag or lead by no row, ignoring nulls")
        column, default = self.number(call.input()), call.default()
        if kind(default) != "Literal":
            return Shifted(name, column, offset, None, self.number(default), ignore_nulls, nullable=nullable)
        filler = None
        if default.value() is not None:
            literal = translate(default, {}, self.facts)
            assert isinstance(literal, Literal)
            filler = literal.value
        return Shifted(name, column, offset, filler, None, ignore_nulls, nullable=nullable)

    def _aggregate(self, call: Any, frame: Frame, name: str, nullable: bool, scaled: str | None) -> WindowFunction:
        function = call.aggregateFunction()
        if call.isDistinct():
            raise LeftToSpark("different values over a window")
        arguments = scala_list(function.children())
        if scaled is not None:
            arguments = [arguments[0].child()]
        condition = call.filter().get() if call.filter().isDefined() else None

        def column() -> int:
            value = arguments[0] if condition is None else self.only_where(condition, arguments[0])
            return self.number(value)

        match kind(function):
            case "Count" if len(arguments) == 1:
                constant = kind(arguments[0]) == "Literal" and arguments[0].value() is not None
                counted = None if constant and condition is None else column()
                return Count(name, counted, frame, nullable=nullable)
            case "Sum":
                self._check_order(arguments[0], frame)
                mode = EvalMode(str(function.evalContext().evalMode()))
                return Sum(name, column(), frame, mode, nullable=nullable)
            case "Average":
                if not _is_decimal(arguments[0]) or scaled:
                    self._check_moving(frame)
                mode = EvalMode(str(function.evalMode()))
                return Mean(name, column(), frame, mode, scaled is not None, nullable=nullable)
            case "Min":
                return Min(name, column(), frame, nullable=nullable)
            case "Max":
                return Max(name, column(), frame, nullable=nullable)
            case "First" | "Last" if condition is None:
                n = 1 if kind(function) == "First" else -1
                return NthValue(name, column(), frame, n, bool(function.ignoreNulls()), nullable=nullable)
        raise LeftToSpark(f"hosts have no {function.prettyName()} over a window like this")

    def _check_order(self, summed: Any, frame: Frame) -> None:
        if str(summed.dataType().typeName()) in ("double", "float"):
            self._check_moving(frame)

    def _check_moving(self, frame: Frame) -> None:
        if self.segment_trees and frame.lower is not None:
            raise LeftToSpark(
                "spark.sql.window.segmentTree.enabled adds doubles of a moving frame in an order of its own"
            )


def _window_of(expression: Any) -> tuple[Any, str | None]:
    """The window expression, and what Spark has put around it to compute with the digits of decimals alone."""
    match kind(expression):
        case "WindowExpression":
            return expression, None
        case "MakeDecimal" if kind(expression.child()) == "WindowExpression":
            return expression.child(), "sum"
        case "Cast" if kind(expression.child()) == "Divide" and kind(expression.child().left()) == "WindowExpression":
            return expression.child().left(), "mean"
    raise LeftToSpark(f"{expression.sql()} is more than a function over a window")


def _frame(definition: Any, facts: SessionFacts) -> Frame:
    frame = definition.frameSpecification()
    if kind(frame.frameType()) == "RowFrame$":
        return Frame("rows", *(_bound(bound, _number) for bound in (frame.lower(), frame.upper())))
    order = scala_list(definition.orderSpec())
    distance = partial(_distance, order[0].child(), facts) if len(order) == 1 else _number
    return Frame("range", *(_bound(bound, distance) for bound in (frame.lower(), frame.upper())))


def _bound(bound: Any, distance: Callable[[Any], float]) -> float | None:
    match kind(bound):
        case "UnboundedPreceding$" | "UnboundedFollowing$":
            return None
        case "CurrentRow$":
            return 0
    return distance(bound)


def _distance(ordered: Any, facts: SessionFacts, literal: Any) -> float:
    """A distance of values in the unit of the column that orders the rows."""
    column, measure = (str(one.dataType().typeName()) for one in (ordered, literal))
    if kind(literal) != "Literal":
        raise LeftToSpark(f"{literal.sql()} is no constant")
    value = literal.value()
    match column:
        case "double" | "float":
            return float(value)
        case "byte" | "short" | "integer" | "long" if facts.ansi:  # without these rules sums wrap around
            return int(value)
        case "date" if measure == "integer":
            return int(value)
        case "date" if measure == "interval day":
            return int(value) // _DAY_US
        case "timestamp_ntz" if measure.startswith("interval"):
            return int(value)
        case "timestamp" if measure.startswith("interval") and (abs(int(value)) < _DAY_US or facts.time_zone in _UTC):
            return int(value)  # a day is not always 24 hours long elsewhere
    raise LeftToSpark(f"a range frame of {column} by {literal.sql()}")


def _number(literal: Any) -> int:
    if kind(literal) != "Literal":
        raise LeftToSpark(f"{literal.sql()} is no constant")
    return int(literal.value())


def _is_decimal(expression: Any) -> bool:
    return str(expression.dataType().typeName()).startswith("decimal")
