"""An expression over the numbered columns of a batch. Holds no object of the JVM: it is pickled and sent to hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of the batch, by number."""

    number: int
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Dates are days and timestamps microseconds since 1970 (UTC), as Spark holds them."""

    value: Any
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A Spark expression, by the name of its class, on arguments. `options` is all else that decides its result."""

    function: str
    arguments: tuple[Expression, ...]
    type: pa.DataType
    options: tuple[tuple[str, Any], ...] = ()

    def option(self, name: str) -> Any:
        for key, value in self.options:
            if key == name:
                return value
        raise KeyError(f"{self.function} has no option {name!r}")

    @property
    def argument_types(self) -> list[pa.DataType]:
        return [argument.type for argument in self.arguments]


Expression: TypeAlias = ColumnRef | Literal | Call


def columns_of(expression: Expression) -> frozenset[int]:
    """The numbers of the columns that an expression reads."""
    if isinstance(expression, ColumnRef):
        return frozenset((expression.number,))
    if isinstance(expression, Call):
        return frozenset().union(*map(columns_of, expression.arguments))
    return frozenset()


def renumbered(expression: Expression, mapping: Mapping[int, int]) -> Expression:
    """The same expression over a batch whose columns stand elsewhere; `mapping` gives new numbers by old ones."""
    if isinstance(expression, ColumnRef):
        return ColumnRef(mapping[expression.number], expression.type)
    if isinstance(expression, Call):
        arguments = tuple(renumbered(argument, mapping) for argument in expression.arguments)
        return Call(expression.function, arguments, expression.type, expression.options)
    return expression
