"""A user's function of all rows of a group that gives one value, as grouped pandas and Arrow UDFs do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import as_array, concatenated
from reshape.operators.aggregates.base import OPERATOR, AggregateLogic, Groups
from reshape.operators.aggregates.description import OfColumns
from reshape.operators.aggregates.list_states import each_alone, lists_of, spread_over
from reshape.operators.errors import GroupFunctionFailed

# From the rows of a group to an array with one value.
ValueFunction = Callable[[pa.RecordBatch], pa.Array]


@dataclass(frozen=True, slots=True)
class OfRows(OfColumns):
    """The value of a function of some columns; `label` is what people call it."""

    function: ValueFunction
    kind: pa.DataType
    label: str

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return OfRowsLogic(fields, self)

    def text(self, names: Sequence[str]) -> str:
        return f"{self.label}({', '.join(names)})"


class OfRowsLogic(AggregateLogic):
    """Keeps all rows; the function is called at the end, once for each group that has some."""

    algebraic: bool = False
    merging_shrinks: bool = False

    def __init__(self, fields: Sequence[pa.Field], of: OfRows) -> None:
        self._of = of
        self._kinds = [field.type for field in fields]
        self.state_types = tuple(pa.large_list(kind) for kind in self._kinds)
        self.output_type = of.kind

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [lists_of(column, groups, kind) for column, kind in zip(columns, self._kinds, strict=True)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self.update(*spread_over(states, groups))

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        columns, groups = spread_over(states, each_alone(states[0]))
        rows = pa.RecordBatch.from_arrays(columns, names=[f"_{number}" for number in range(len(columns))])
        starts = np.cumsum(groups.sizes) - groups.sizes
        found = [
            self._value(rows.slice(start, size)) if size else pa.nulls(1, self.output_type)
            for start, size in zip(starts.tolist(), groups.sizes.tolist(), strict=True)
        ]
        return as_array(concatenated(found, self.output_type))

    def _value(self, rows: pa.RecordBatch) -> pa.Array:
        try:
            return self._of.function(rows).cast(self.output_type)
        except Exception as error:  # a user's function may raise anything
            cause = f"{type(error).__name__}: {error}"
            raise GroupFunctionFailed(OPERATOR, self._of.label, cause) from error
