"""Parquet files as sources of a flow that threads run: hosts read them by themselves, as they do on Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from reshape.scan.row_groups import middle_byte
from reshape.scan.scan import ReadFacts, Scan, ScanColumn, Split, Step

# What Spark does by default with files that Arrow has written.
_FACTS = ReadFacts(
    case_sensitive=False,
    widening=True,
    datetime_rebase="CORRECTED",
    int96_rebase="CORRECTED",
    int96_conversion=False,
)


def write_files(table: pa.Table, directory: Path, *, files: int = 3, group_rows: int = 500) -> tuple[Path, ...]:
    """The rows in some files of about the same size, each of row groups of so many rows."""
    directory.mkdir(parents=True, exist_ok=True)
    rows = -(-table.num_rows // files)
    paths = tuple(directory / f"part-{number}.parquet" for number in range(files))
    for number, path in enumerate(paths):
        pq.write_table(table.slice(number * rows, rows), path, row_group_size=group_rows)
    return paths


def scan_of(schema: pa.Schema, paths: Sequence[Path], *, steps: tuple[Step, ...] = ()) -> Scan:
    """A scan of Parquet files that all have these columns, each row group a split of its own.

    With ``steps`` that change columns, the schema is that of the files; the scan's is what the last step gives, and is
    for the caller to replace.
    """
    columns = tuple(ScanColumn(field.name, field.type) for field in schema)
    splits = tuple(split for path in paths for split in _splits(path))
    return Scan(schema, columns, (), steps, _FACTS, splits)


def _splits(path: Path) -> Iterator[Split]:
    status = os.stat(path)
    planned = (status.st_size, status.st_mtime_ns // 1_000_000)
    metadata = pq.read_metadata(path)
    start = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        end = status.st_size if number + 1 == metadata.num_row_groups else middle_byte(group) + 1
        yield Split(str(path), start, end - start, (), *planned, group.num_rows)
        start = end
