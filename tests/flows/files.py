"""Tables of generated flows as Parquet: several files and row groups, folders by a column that has few values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pat

FILES = 3
GROUP_ROWS = 50
MOST_FOLDERS = 6
# What Spark calls the folder of rows that have no value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def read_back(spark: Any, table: pa.Table, directory: Path) -> Any:
    """A DataFrame of the table's rows that reads files."""
    from pyspark.sql.pandas.types import from_arrow_schema

    directory.mkdir()
    name = _foldable(table)
    if name is None:
        _write(table, directory)
    else:
        for value in table[name].unique():
            rows = pc.equal(table[name], value) if value.is_valid else pc.is_null(table[name])
            text = str(value.as_py()).lower() if value.is_valid else _NO_VALUE
            _write(table.filter(rows).drop_columns([name]), directory / f"{name}={text}")
    df = spark.read.schema(from_arrow_schema(table.schema)).parquet(str(directory))
    return df.select(*table.schema.names)


def _foldable(table: pa.Table) -> str | None:
    """A column whose values can be the names of a few folders."""
    for field in table.schema:
        if pat.is_integer(field.type) or pat.is_boolean(field.type) or pat.is_date(field.type):
            values = table[field.name].unique()
            if table.num_columns > 1 and 0 < len(values) <= MOST_FOLDERS:
                return str(field.name)
    return None


def _write(table: pa.Table, directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    rows = -(-table.num_rows // FILES) or 1
    for start in range(0, max(1, table.num_rows), rows):
        pq.write_table(table.slice(start, rows), directory / f"from-{start}.parquet", row_group_size=GROUP_ROWS)
