"""The user's own aggregate: called group by group, its states kept as Arrow values like all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from reshape.operators.aggregates.base import OPERATOR, AggregateLogic, Groups
from reshape.operators.aggregates.description import OfColumns
from reshape.operators.errors import UserAggregateFailed


@runtime_checkable
class UserAggregate(Protocol):
    """A user's own aggregate. A state is any Python value that Arrow can hold as `state_type`.

    `update` gets the rows of one group as a record batch of the named columns, once for each part of the group that
    arrives together. `merge` must give the same whichever part comes first: parts are made on several workers.
    """

    state_type: pa.DataType
    output_type: pa.DataType

    def init(self) -> Any:
        """The state of a group without rows."""
        ...

    def update(self, state: Any, rows: pa.RecordBatch) -> Any:
        """The state with these rows added."""
        ...

    def merge(self, state: Any, other: Any) -> Any:
        """The state of both parts together."""
        ...

    def finish(self, state: Any) -> Any:
        """The value to show, as `output_type`."""
        ...


@dataclass(frozen=True, slots=True)
class UserDefined(OfColumns):
    """A user's own aggregate of some columns. `names` is what `update` sees them as, where their own will not do."""

    function: UserAggregate
    names: tuple[str, ...] = ()

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        if self.names:
            fields = [field.with_name(name) for field, name in zip(fields, self.names, strict=True)]
        return UserDefinedLogic(self.name, fields, self.function)

    def text(self, names: Sequence[str]) -> str:
        return f"{type(self.function).__name__}({', '.join(self.names or names)})"


class UserDefinedLogic(AggregateLogic):
    """An aggregate with init, update, merge and finish."""

    # Its states may be of any size, so combining before sending may be a loss.
    algebraic: bool = False

    def __init__(self, name: str, fields: Sequence[pa.Field], function: UserAggregate) -> None:
        self._name = name
        self._fields = [field.name for field in fields]
        self._function = function
        self.state_types = (function.state_type,)
        self.output_type = function.output_type

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        order = pa.array(groups.order)
        ordered = pa.RecordBatch.from_arrays([column.take(order) for column in columns], names=self._fields)
        starts = np.cumsum(groups.sizes) - groups.sizes
        states = []
        for start, size in zip(starts.tolist(), groups.sizes.tolist(), strict=True):
            state = self._called("init", self._function.init)
            if size:
                state = self._called("update", self._function.update, state, ordered.slice(start, size))
            states.append(state)
        return [self._arrow("update", states, self.state_types[0])]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        parts = [states[0][row].as_py() for row in groups.order.tolist()]
        starts = np.cumsum(groups.sizes) - groups.sizes
        merged = []
        for start, size in zip(starts.tolist(), groups.sizes.tolist(), strict=True):
            if size:
                merged.append(reduce(self._merged, parts[start : start + size]))
            else:
                merged.append(self._called("init", self._function.init))
        return [self._arrow("merge", merged, self.state_types[0])]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        values = [self._called("finish", self._function.finish, state.as_py()) for state in states[0]]
        return self._arrow("finish", values, self.output_type)

    def _merged(self, state: Any, other: Any) -> Any:
        return self._called("merge", self._function.merge, state, other)

    def _called(self, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise UserAggregateFailed(OPERATOR, self._name, method, f"{type(error).__name__}: {error}") from error

    def _arrow(self, method: str, values: list[Any], kind: pa.DataType) -> pa.Array:
        return self._called(method, lambda: pa.array(values, type=kind))
