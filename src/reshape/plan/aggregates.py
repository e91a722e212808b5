"""Aggregates of a group-by. Columns are numbers of the operator's input; `name` is the column of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class CountAll:
    """count(*): rows."""

    name: str


@dataclass(frozen=True, slots=True)
class _OfColumn:
    name: str
    column: int


@dataclass(frozen=True, slots=True)
class Count(_OfColumn):
    """Values that are not null."""


@dataclass(frozen=True, slots=True)
class Sum(_OfColumn):
    """Integers give a long, decimal(p, s) gives decimal(min(38, p + 10), s), floats give a double."""


@dataclass(frozen=True, slots=True)
class Min(_OfColumn):
    """NaN is greater than all numbers, strings are ordered by their bytes."""


@dataclass(frozen=True, slots=True)
class Max(_OfColumn):
    """NaN is greater than all numbers, strings are ordered by their bytes."""


@dataclass(frozen=True, slots=True)
class Mean(_OfColumn):
    """A double, or decimal(min(38, p + 4), min(38, s + 4)) of a decimal(p, s)."""


@dataclass(frozen=True, slots=True)
class VarSamp(_OfColumn):
    """Sample variance; null for one value."""


@dataclass(frozen=True, slots=True)
class VarPop(_OfColumn):
    """Population variance."""


@dataclass(frozen=True, slots=True)
class StddevSamp(_OfColumn):
    """Sample standard deviation; null for one value."""


@dataclass(frozen=True, slots=True)
class StddevPop(_OfColumn):
    """Population standard deviation."""


@dataclass(frozen=True, slots=True)
class CountDistinct:
    """Different rows of these columns, those with a null left out."""

    name: str
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Median(_OfColumn):
    """percentile(column, 0.5)."""


@dataclass(frozen=True, slots=True)
class Percentile(_OfColumn):
    """Exact, interpolated between the two nearest values. `as_list`: Spark's form with an array of percentages."""

    percentages: tuple[float, ...]
    as_list: bool = False

    def __post_init__(self) -> None:
        if not all(0.0 <= share <= 1.0 for share in self.percentages):
            raise ValueError(f"percentages of {self.name!r} must be between 0 and 1, got {self.percentages}")
        if not self.as_list and len(self.percentages) != 1:
            raise ValueError(f"{self.name!r} has {len(self.percentages)} percentages, which only a list can hold")


@dataclass(frozen=True, slots=True)
class CollectList(_OfColumn):
    """All values that are not null, in no particular order."""


@dataclass(frozen=True, slots=True)
class First(_OfColumn):
    """The first value (or the first that is not null) that a worker met; which one that is, nobody promises."""

    ignore_nulls: bool = False


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
class UserDefined:
    """A user's own aggregate of some columns. `names` is what `update` sees them as, where their own will not do."""

    name: str
    columns: tuple[int, ...]
    function: UserAggregate
    names: tuple[str, ...] = ()


Aggregate = (
    CountAll
    | Count
    | Sum
    | Min
    | Max
    | Mean
    | VarSamp
    | VarPop
    | StddevSamp
    | StddevPop
    | CountDistinct
    | Median
    | Percentile
    | CollectList
    | First
    | UserDefined
)
