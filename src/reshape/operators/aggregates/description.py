"""An aggregate as a plan describes it. Columns are numbers of the group-by's input; `name` is the column of the result.

Frozen data that travels to tasks: what it computes is in its `logic`, which is made where rows are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import pyarrow as pa

from reshape.operators.aggregates.base import AggregateLogic


class SparkCall(Protocol):
    """A call of an aggregate function, as Spark's analyzer leaves it."""

    @property
    def name(self) -> str:
        """The column of the result."""
        ...

    @property
    def distinct(self) -> bool:
        """Whether only different values count."""
        ...

    @property
    def arguments(self) -> int:
        """How many expressions the function takes."""
        ...

    @property
    def function(self) -> Any:
        """Spark's own object, for what else it knows."""
        ...

    def column(self, argument: int = 0, *, uncast: bool = False) -> int:
        """The number of the input column that holds an argument.

        ``uncast``: a number may come as it is where Spark casts it to double, because the aggregate does so itself.
        """
        ...

    def condition(self) -> int | None:
        """The number of the boolean input column that says which rows count; None where all do."""
        ...

    def is_constant(self, argument: int = 0) -> bool:
        """Whether an argument is a literal other than null."""
        ...

    def refused(self, instead: str) -> Exception:
        """The error for a call that has no meaning here; says what to write instead."""
        ...


@dataclass(frozen=True, slots=True)
class Aggregate(ABC):
    """One column of a group-by's result."""

    name: str

    @classmethod
    @abstractmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        """Some of this kind, for the checks that run on all aggregates. Columns 0 and 1 hold whole numbers, 2 true or
        false, 3 texts."""

    @property
    @abstractmethod
    def reads(self) -> tuple[int, ...]:
        """The input columns that it reads."""

    @abstractmethod
    def renumbered(self, number: Callable[[int], int]) -> Self:
        """The same aggregate where its columns have other numbers."""

    @abstractmethod
    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        """How it is computed from columns of these types; raises `UnsupportedAggregate` where one does not fit."""

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        """The aggregate that a call of the registered Spark function means."""
        raise call.refused(f"{cls.__name__} cannot be read from a query")

    def text(self, names: Sequence[str]) -> str:
        """The call as people write it, given the names of the columns that it reads."""
        return f"{type(self).__name__.lower()}({', '.join(names)})"


@dataclass(frozen=True, slots=True)
class OfColumn(Aggregate):
    """Of one column."""

    column: int

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (cls("result", 1),)

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.column,)

    def renumbered(self, number: Callable[[int], int]) -> Self:
        return replace(self, column=number(self.column))

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        return cls(call.name, call.column())


@dataclass(frozen=True, slots=True)
class OfColumns(Aggregate):
    """Of several columns."""

    columns: tuple[int, ...]

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (cls("result", (1, 0)),)

    @property
    def reads(self) -> tuple[int, ...]:
        return self.columns

    def renumbered(self, number: Callable[[int], int]) -> Self:
        return replace(self, columns=tuple(number(column) for column in self.columns))

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        return cls(call.name, tuple(call.column(argument) for argument in range(call.arguments)))
