"""Functions of groups as PySpark's users write them, made functions of Arrow rows: what Spark's own workers do with
them, by PySpark's own conversions, so that types, names and errors are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from inspect import getfullargspec
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pat

from reshape.errors import ReshapeError
from reshape.operators.aggregates.description import SparkCall
from reshape.operators.aggregates.of_rows import OfRows
from reshape.operators.aggregates.user_defined import UserAggregate, UserDefined
from reshape.plan.analysis import kind, scala_list
from reshape.plan.types import arrow_type, to_spark

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType


class NotSendable(ReshapeError):
    """A Python function of Spark's plan that hosts could not call as Spark does."""


class Form(IntEnum):
    """What a function takes and gives, by PySpark's numbers (PythonEvalType)."""

    PANDAS = 201
    ARROW = 209
    ARROW_PARTS = 215
    PANDAS_PARTS = 216


class ValueForm(IntEnum):
    """The same of a function that gives one value."""

    PANDAS = 202
    PANDAS_PARTS = 217
    ARROW = 252
    ARROW_PARTS = 254


@dataclass(frozen=True)
class Conversion:
    """The settings of a session that conversions between Arrow and pandas follow."""

    timezone: str
    safe: bool
    by_name: bool
    int_to_decimal: bool
    nullable_integers: bool

    @classmethod
    def in_session(cls, spark: SparkSession) -> Conversion:
        conf = spark.conf

        def on(key: str) -> bool:
            return str(conf.get(key)).lower() == "true"

        return cls(
            str(conf.get("spark.sql.session.timeZone")),
            on("spark.sql.execution.pandas.convertToArrowArraySafely"),
            on("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName"),
            on("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled"),
            on("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype"),
        )

    def local(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as Spark gives them to functions: with the time zone of the session."""
        from pyspark.sql.pandas.types import to_arrow_schema

        return rows.cast(to_arrow_schema(to_spark(rows.schema), timezone=self.timezone))

    def series(self, rows: pa.RecordBatch) -> list[Any]:
        """The columns for pandas. Spark gives it the wall clock of the session, and Arrow that of UTC."""
        from pyspark.sql.conversion import ArrowBatchTransformer

        return ArrowBatchTransformer.to_pandas(
            pa.Table.from_batches([self.local(rows)]),
            timezone=self.timezone,
            prefer_int_ext_dtype=self.nullable_integers,
        )

    def arrow(self, made: pd.DataFrame | pd.Series[Any], kind: DataType) -> pa.RecordBatch:
        """One column of this type; a DataFrame becomes a column of structs."""
        from pyspark.sql.conversion import PandasToArrowConversion
        from pyspark.sql.types import StructField, StructType

        return PandasToArrowConversion.convert(
            [made],
            StructType([StructField("_0", kind)]),
            timezone=self.timezone,
            safecheck=self.safe,
            arrow_cast=True,
            assign_cols_by_name=self.by_name,
            int_to_decimal_coercion_enabled=self.int_to_decimal,
        )


@dataclass(frozen=True)
class UserGroupFunction:
    """A function of a group's rows, or of its key and its rows. ``values`` are the columns that it sees, and under
    which names; all of them if none is given."""

    function: Callable[..., Any]
    form: Form
    keys: tuple[int, ...]
    schema: StructType
    conversion: Conversion
    values: tuple[tuple[int, str], ...] = ()

    def __call__(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self.form in (Form.PANDAS, Form.PANDAS_PARTS):
            return self._by_pandas(rows)
        return self._by_arrow(rows)

    def _by_arrow(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.conversion import ArrowBatchTransformer
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.worker import verify_return_type

        wanted = to_arrow_schema(self.schema, timezone="UTC")
        local = self.conversion.local(rows)
        key = tuple(local.column(number)[0] for number in self.keys)
        seen = pa.RecordBatch.from_arrays(*self._seen(local.columns, local.schema.names))
        if self.form == Form.ARROW:
            table = self._called(key, pa.Table.from_batches([seen]))
            verify_return_type(table, pa.Table)
            found: Iterator[Any] = iter((table,))
        else:
            found = iter(self._called(key, iter((seen,))))
        for one in found:
            if self.form == Form.ARROW_PARTS:
                verify_return_type(one, pa.RecordBatch)
            fitting = ArrowBatchTransformer.enforce_schema(
                _in_utc(one), wanted, arrow_cast=False, reorder_by_name=self.conversion.by_name
            )
            yield from fitting.to_batches() if isinstance(fitting, pa.Table) else (fitting,)

    def _by_pandas(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        import pandas as pd

        series = self.conversion.series(rows)
        key = tuple(series[number].iloc[0] for number in self.keys)
        columns, names = self._seen(series, rows.schema.names)
        frame = pd.concat([column.rename(name) for column, name in zip(columns, names, strict=True)], axis=1)
        if self.form == Form.PANDAS:
            yield self._arrow(self._called(key, frame))
        else:
            yield from map(self._arrow, self._called(key, iter((frame,))))

    def _seen(self, columns: Sequence[Any], names: Sequence[str]) -> tuple[list[Any], list[str]]:
        """The columns that the function sees, and their names."""
        if not self.values:
            return list(columns), list(names)
        return [columns[number] for number, _ in self.values], [name for _, name in self.values]

    def _arrow(self, frame: pd.DataFrame) -> pa.RecordBatch:
        from pyspark.sql.conversion import ArrowBatchTransformer
        from pyspark.worker import verify_pandas_result

        verify_pandas_result(frame, self.schema, self.conversion.by_name, truncate_return_schema=False)
        return ArrowBatchTransformer.flatten_struct(self.conversion.arrow(frame, self.schema))

    def _called(self, key: tuple[Any, ...], rows: Any) -> Any:
        # PySpark counts as well: a function of one argument gets no key.
        return self.function(rows) if len(getfullargspec(self.function).args) == 1 else self.function(key, rows)


def _in_utc(rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """Moments as they are sent. Functions see them in the zone of the session, and may give them back so, which Spark
    itself takes for another type."""
    utc = pa.timestamp("us", "UTC")
    zoned = [pat.is_timestamp(kind) and kind.tz is not None and kind.unit == "us" for kind in rows.schema.types]
    if not any(zoned):
        return rows
    fields = [field.with_type(utc) if moment else field for field, moment in zip(rows.schema, zoned, strict=True)]
    return rows.cast(pa.schema(fields))


@dataclass(frozen=True)
class UserValueFunction:
    """A function of some columns of a group that gives one value."""

    function: Callable[..., Any]
    form: ValueForm
    kind: DataType
    conversion: Conversion

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        import pandas as pd
        from pyspark.sql.conversion import ArrowBatchTransformer
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructField, StructType

        if self.form in (ValueForm.PANDAS, ValueForm.PANDAS_PARTS):
            value = self._called(self.conversion.series(rows))
            return self.conversion.arrow(pd.Series([value]), self.kind).column(0)
        value = pa.RecordBatch.from_arrays([pa.array([self._called(self.conversion.local(rows).columns)])], ["_0"])
        wanted = to_arrow_schema(StructType([StructField("_0", self.kind)]), timezone="UTC")
        return ArrowBatchTransformer.enforce_schema(value, wanted).column(0)

    def _called(self, columns: Sequence[Any]) -> Any:
        if self.form in (ValueForm.PANDAS, ValueForm.ARROW):
            return self.function(*columns)
        return self.function(iter((columns[0] if len(columns) == 1 else tuple(columns),)))


def value_of_group(aggregate: UserAggregate, names: Sequence[str]) -> Callable[..., Any]:
    """A user's own aggregate as a function for PySpark's grouped Arrow UDFs: columns in, one value out. It carries the
    aggregate, which flows run part by part.

    A plain function with attributes, not an object of a class: Spark's tasks may run it where this package is not.
    """
    columns_of = list(names)

    def value(*columns: pa.Array) -> pa.Scalar:
        import pyarrow

        rows = pyarrow.RecordBatch.from_arrays(list(columns), names=columns_of)
        found = aggregate.finish(aggregate.update(aggregate.init(), rows))
        return pyarrow.scalar(found, aggregate.output_type)

    value.__name__ = value.__qualname__ = type(aggregate).__name__
    value.aggregate = aggregate  # type: ignore[attr-defined]
    value.names = tuple(names)  # type: ignore[attr-defined]
    return value


def user_aggregate(call: SparkCall, conversion: Conversion) -> UserDefined | OfRows:
    """A grouped pandas or Arrow UDF (Spark's PythonUDAF): what `value_of_group` marks part by part, others at once."""
    from pyspark.sql.types import _parse_datatype_json_string

    udf = call.function
    number = int(udf.evalType())
    if number not in set(ValueForm):
        raise call.refused("use a grouped pandas or Arrow UDF")
    try:
        function = function_of(udf)
    except NotSendable as error:
        raise call.refused(str(error)) from None
    columns = tuple(call.column(argument) for argument in range(call.arguments))
    if isinstance(aggregate := getattr(function, "aggregate", None), UserAggregate):
        return UserDefined(call.name, columns, aggregate, tuple(function.names))
    spark_kind = _parse_datatype_json_string(udf.dataType().json())
    of_value = UserValueFunction(function, ValueForm(number), spark_kind, conversion)
    return OfRows(call.name, columns, of_value, arrow_type(spark_kind), str(udf.name()))


def function_of(udf: Any) -> Any:
    """The function of a Python UDF in Spark's plan; raises where hosts could not call it as Spark does."""
    from pyspark import cloudpickle

    made = udf.func()
    if any(kind(child) == "NamedArgumentExpression" for child in scala_list(udf.children())):
        raise NotSendable("it has named arguments")
    if not made.broadcastVars().isEmpty():
        raise NotSendable("it has broadcast variables, or is so large that Spark makes it one")
    return cloudpickle.loads(bytes(made.command().unsafeArray()))[0]
