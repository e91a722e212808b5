"""Functions of groups as PySpark's users write them, made functions of Arrow rows: what Spark's own workers do with
them, by PySpark's own conversions, so that types, names and errors are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from inspect import getfullargspec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.plan.types import to_spark

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Form(IntEnum):
    """What a function takes and gives, by PySpark's numbers (PythonEvalType)."""

    PANDAS = 201
    ARROW = 209
    ARROW_PARTS = 215
    PANDAS_PARTS = 216


@dataclass(frozen=True)
class Conversion:
    """The settings of a session that conversions between Arrow and pandas follow."""

    timezone: str
    safe: bool
    by_name: bool
    int_to_decimal: bool
    nullable_integers: bool

    @classmethod
    def of(cls, df: DataFrame) -> Conversion:
        conf = df.sparkSession.conf

        def on(key: str) -> bool:
            return str(conf.get(key)).lower() == "true"

        return cls(
            str(conf.get("spark.sql.session.timeZone")),
            on("spark.sql.execution.pandas.convertToArrowArraySafely"),
            on("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName"),
            on("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled"),
            on("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype"),
        )


@dataclass(frozen=True)
class UserGroupFunction:
    """A function of a group's rows, or of its key and its rows."""

    function: Callable[..., Any]
    form: Form
    keys: tuple[int, ...]
    schema: StructType
    conversion: Conversion

    def __call__(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self.form in (Form.PANDAS, Form.PANDAS_PARTS):
            return self._by_pandas(rows)
        return self._by_arrow(rows)

    def _by_arrow(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.conversion import ArrowBatchTransformer
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.worker import verify_return_type

        wanted = to_arrow_schema(self.schema, timezone="UTC")
        key = tuple(rows.column(number)[0] for number in self.keys)
        if self.form == Form.ARROW:
            table = self._called(key, pa.Table.from_batches([rows]))
            verify_return_type(table, pa.Table)
            found: Iterator[Any] = iter((table,))
        else:
            found = iter(self._called(key, iter((rows,))))
        for one in found:
            if self.form == Form.ARROW_PARTS:
                verify_return_type(one, pa.RecordBatch)
            fitting = ArrowBatchTransformer.enforce_schema(
                one, wanted, arrow_cast=False, reorder_by_name=self.conversion.by_name
            )
            yield from fitting.to_batches() if isinstance(fitting, pa.Table) else (fitting,)

    def _by_pandas(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        import pandas as pd
        from pyspark.sql.conversion import ArrowBatchTransformer
        from pyspark.sql.pandas.types import to_arrow_schema

        # Spark gives pandas the wall clock of the session, and Arrow that of UTC.
        local = to_arrow_schema(to_spark(rows.schema), timezone=self.conversion.timezone)
        series = ArrowBatchTransformer.to_pandas(
            pa.Table.from_batches([rows.cast(local)]),
            timezone=self.conversion.timezone,
            prefer_int_ext_dtype=self.conversion.nullable_integers,
        )
        key = tuple(series[number].iloc[0] for number in self.keys)
        frame = pd.concat(series, axis=1)
        if self.form == Form.PANDAS:
            yield self._arrow(self._called(key, frame))
        else:
            yield from map(self._arrow, self._called(key, iter((frame,))))

    def _arrow(self, frame: pd.DataFrame) -> pa.RecordBatch:
        from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
        from pyspark.sql.types import StructField, StructType
        from pyspark.worker import verify_pandas_result

        by_name = self.conversion.by_name
        verify_pandas_result(frame, self.schema, by_name, truncate_return_schema=False)
        made = PandasToArrowConversion.convert(
            [frame],
            StructType([StructField("_0", self.schema)]),
            timezone=self.conversion.timezone,
            safecheck=self.conversion.safe,
            arrow_cast=True,
            assign_cols_by_name=by_name,
            int_to_decimal_coercion_enabled=self.conversion.int_to_decimal,
        )
        return ArrowBatchTransformer.flatten_struct(made)

    def _called(self, key: tuple[Any, ...], rows: Any) -> Any:
        # PySpark counts as well: a function of one argument gets no key.
        return self.function(rows) if len(getfullargspec(self.function).args) == 1 else self.function(key, rows)
