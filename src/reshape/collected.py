"""Results that PySpark takes as Arrow (`toArrow`, `toPandas`): the batches of hosts, which are Arrow's already.

By way of a DataFrame's rows the JVM would make rows of them, and Arrow of these. All else is PySpark's own: types, time
zones, settings, and what pandas gets.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.pandas.types import to_arrow_schema


def is_arrows(df: DataFrame, schema: pa.Schema) -> bool:
    """Whether columns of hosts, in the order of the DataFrame's, are what PySpark would have of it in Arrow."""
    try:
        _as_pyspark_has_it(df, schema.empty_table(), large=False)
    except (pa.ArrowException, PySparkException):
        return False
    return True


class Collected(ClassicDataFrame):
    """A DataFrame whose rows come from elsewhere: as a table where PySpark collects Arrow, and else (as where
    `spark.sql.execution.arrow.pyspark.enabled` is off) as rows, if not those that Spark has."""

    def __init__(
        self, df: DataFrame, table: Callable[[], pa.Table], rows: Callable[[], list[Row]] | None = None
    ) -> None:
        super().__init__(df._jdf, df.sparkSession)
        self._table = table
        self._as_rows = rows

    def collect(self) -> list[Row]:
        return super().collect() if self._as_rows is None else self._as_rows()

    def _collect_as_arrow(
        self,
        split_batches: bool = False,  # an allocation for each column: in files each can go by itself anyway
        empty_list_if_zero_records: bool = True,
        prefers_large_var_types: bool = False,
    ) -> list[pa.RecordBatch]:
        if self.is_cached:  # by the user, maybe beyond the life of what is collected here
            return super()._collect_as_arrow(split_batches, empty_list_if_zero_records, prefers_large_var_types)
        table = _as_pyspark_has_it(self, self._table(), large=prefers_large_var_types)
        batches: list[pa.RecordBatch] = [batch for batch in table.to_batches() if batch.num_rows]
        if batches or empty_list_if_zero_records:
            return batches
        return [pa.record_batch([pa.array([], field.type) for field in table.schema], schema=table.schema)]


def _as_pyspark_has_it(df: DataFrame, table: pa.Table, *, large: bool) -> pa.Table:
    schema = to_arrow_schema(df.schema, timezone="UTC", prefers_large_types=large)
    return table.rename_columns(schema.names).cast(schema)
