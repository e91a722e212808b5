"""Functions of rows as PySpark's users write them (`mapInArrow`, `mapInPandas`), made functions of Arrow batches: what
Spark's own workers do with them, by PySpark's own conversions, so that types, names and errors are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.errors import ReshapeError
from reshape.operators.base import bounded
from reshape.plan.group_functions import Conversion
from reshape.plan.types import to_spark

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class MapForm(IntEnum):
    """What a function takes and gives, by PySpark's numbers (PythonEvalType)."""

    PANDAS = 205
    ARROW = 207


class PromiseBroken(ReshapeError):
    """A user's function gave other columns than it promised."""

    def __init__(self, promised: str, given: str) -> None:
        super().__init__(promised, given)
        self.promised, self.given = promised, given

    def __str__(self) -> str:
        return f"the function promised {self.promised} and gave {self.given}; give columns of these types in this order"


def by_batches(function: Callable[..., Any], *, ordered: bool = False) -> Callable[..., Any]:
    """The same function, for PySpark's `mapInArrow` and `mapInPandas`, with the promise that its result does not depend
    on how rows are cut into batches and calls. ``ordered``: it needs the rows of a key in the order they were sent in.

    A plain function with attributes, not an object of a class: Spark's tasks may run it where this package is not.
    """

    def called(batches: Iterator[Any]) -> Iterator[Any]:
        return function(batches)  # type: ignore[no-any-return]

    called.__name__ = getattr(function, "__name__", type(function).__name__)
    called.__qualname__ = getattr(function, "__qualname__", type(function).__qualname__)
    called.by_batches = True  # type: ignore[attr-defined]
    called.ordered = ordered  # type: ignore[attr-defined]
    return called


def is_by_batches(function: Callable[..., Any]) -> bool:
    return bool(getattr(function, "by_batches", False))


def is_ordered(function: Callable[..., Any]) -> bool:
    return bool(getattr(function, "ordered", False))


@dataclass(frozen=True)
class UserMapFunction:
    """``columns`` of the input are what the function sees, under these ``names``. It promises a ``schema``, which flows
    know as ``gives``."""

    function: Callable[..., Any]
    form: MapForm
    columns: tuple[int, ...]
    names: tuple[str, ...]
    schema: StructType
    gives: pa.Schema
    conversion: Conversion
    most_rows: int  # in one batch; Spark's own limit
    any_iterable: bool  # whether a list, say, will do for an iterator

    @property
    def once(self) -> bool:
        """Whether it is called once for all rows that a worker gets, as Spark calls it once for a partition."""
        return not is_by_batches(self.function)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = (piece for batch in batches for piece in bounded(self._seen(batch), self.most_rows))
        return self._by_pandas(pieces) if self.form == MapForm.PANDAS else self._by_arrow(pieces)

    def _seen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch.column(number) for number in self.columns]
        return self.conversion.local(pa.RecordBatch.from_arrays(columns, names=list(self.names)))

    def _by_arrow(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark.worker import verify_return_type

        found = self._called(pieces)
        return map(self._promised, verify_return_type(found, Iterator[pa.RecordBatch]))  # type: ignore[type-abstract]

    def _by_pandas(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pandas as pd
        from pyspark.sql.conversion import ArrowBatchTransformer
        from pyspark.worker import verify_pandas_result, verify_return_type

        frames = (pd.concat(self.conversion.series(piece), axis=1) for piece in pieces)
        found = self._called(frames)
        for frame in verify_return_type(found, Iterator[pd.DataFrame]):
            verify_pandas_result(frame, self.schema, assign_cols_by_name=True, truncate_return_schema=True)
            made = self.conversion.arrow(frame, self.schema)
            yield self._promised(ArrowBatchTransformer.flatten_struct(made))

    def _called(self, rows: Iterator[Any]) -> Any:
        found = self.function(rows)
        return iter(found) if self.any_iterable and isinstance(found, Iterable) else found

    def _promised(self, made: pa.RecordBatch) -> pa.RecordBatch:
        """Columns are found by their place, as in Spark, which casts none of them."""
        given = to_spark(made.schema)
        types = [field.dataType.simpleString() for field in given][: len(self.schema)]
        if types != [field.dataType.simpleString() for field in self.schema]:
            raise PromiseBroken(self.schema.simpleString(), given.simpleString())
        return pa.RecordBatch.from_arrays(made.columns[: len(self.gives)], names=self.gives.names).cast(self.gives)
