"""One split of a planned scan, read by Arrow: the rows that Spark's reader, filter and projection would give for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from reshape.scan.layout import StoredColumn
from reshape.scan.opening import OpenFile, opened
from reshape.scan.row_groups import groups_between, groups_to_read
from reshape.scan.scan import Scan, Split
from reshape.scan.steps import Steps, made_batch
from reshape.scan.widths import fitting_rows


def read_split(
    scan: Scan,
    split: Split,
    *,
    batch_rows: int = 65_536,
    skip_rows: int = 0,
    use_threads: bool = False,
    steps: Steps | None = None,
    on_stored: Callable[[int], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """The split's rows with exactly the scan's schema, in the file's order, so the same each time.

    `steps` are those of the scan, for who reads several splits: rows that are looked up are then read once.
    `skip_rows` leaves out the first rows of the output: where each stored row is one of these, whole row groups are
    not read for that.
    `use_threads` decodes columns side by side; a task that is one of many on its machine gains nothing by it.
    `on_stored` hears of stored rows before what is made of them is given. Raises SplitChanged or SplitUnreadable.
    """
    stored_skip, output_skip = (skip_rows, 0) if scan.row_by_row else (0, skip_rows)
    steps = steps or steps_of(scan)
    for stored in _stored(scan, split, batch_rows, stored_skip, use_threads):
        on_stored(stored.num_rows)
        for batch in steps.of(stored):
            if batch.num_rows <= output_skip:
                output_skip -= batch.num_rows
                continue
            yield batch.slice(output_skip)
            output_skip = 0


def steps_of(scan: Scan) -> Steps:
    return Steps(scan, _whole)


def _whole(scan: Scan) -> Iterator[pa.RecordBatch]:
    steps = steps_of(scan)
    for split in scan.splits:
        yield from read_split(scan, split, steps=steps)


def _stored(scan: Scan, split: Split, batch_rows: int, skip_rows: int, use_threads: bool) -> Iterator[pa.RecordBatch]:
    """The split's rows as they are stored, with their partition values, before filters and expressions."""
    with opened(scan, split) as parquet:
        groups = groups_between(parquet.metadata, split.start, split.end)
        groups = groups_to_read(parquet.metadata, groups, scan, parquet.stored)
        groups, skip_rows = _without_skipped(parquet.metadata, groups, skip_rows)
        for rows in stored_rows(scan, split, parquet, groups, batch_rows, use_threads=use_threads):
            if rows.num_rows <= skip_rows:
                skip_rows -= rows.num_rows
                continue
            yield rows.slice(skip_rows)
            skip_rows = 0


def stored_rows(
    scan: Scan, split: Split, parquet: OpenFile, groups: Sequence[int], batch_rows: int, *, use_threads: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups as they are stored, with their partition values."""
    for rows in _pieces(parquet, groups, batch_rows, use_threads):
        yield _with_partition_values(scan, split, rows)


def _without_skipped(metadata: Any, groups: Sequence[int], skip_rows: int) -> tuple[list[int], int]:
    """The row groups that are left when the first are skipped whole, and the rows to skip in the next."""
    for index, group in enumerate(groups):
        rows = metadata.row_group(group).num_rows
        if skip_rows < rows:
            return list(groups[index:]), skip_rows
        skip_rows -= rows
    return [], skip_rows


def _pieces(
    parquet: OpenFile, groups: Sequence[int], batch_rows: int, use_threads: bool
) -> Iterator[tuple[int, list[pa.Array]]]:
    """Pieces of the row groups: how many rows, and the file columns in the scan's order and types."""
    paths = [path for column in parquet.stored for path in column.paths]
    if not groups:
        return
    if not paths:
        for group in groups:
            left = parquet.metadata.row_group(group).num_rows
            while left > 0:
                rows = min(left, batch_rows)
                yield rows, [pa.nulls(rows, column.type) for column in parquet.stored]
                left -= rows
        return
    rows = fitting_rows(parquet, groups, batch_rows)
    batches = parquet.file.iter_batches(rows, row_groups=list(groups), columns=paths, use_threads=use_threads)
    for batch in batches:
        yield batch.num_rows, [_wanted(batch, column) for column in parquet.stored]


def _wanted(batch: pa.RecordBatch, column: StoredColumn) -> pa.Array:
    if column.name is None:
        return pa.nulls(batch.num_rows, column.type)
    values = batch.column(batch.schema.get_field_index(column.name))
    return values if values.type.equals(column.type, check_metadata=True) else values.cast(column.type)


def _with_partition_values(scan: Scan, split: Split, rows: tuple[int, list[pa.Array]]) -> pa.RecordBatch:
    count, arrays = rows
    for column, value in zip(scan.partition_columns, split.partition_values, strict=True):
        arrays.append(
            pa.repeat(pa.scalar(value, column.type), count) if value is not None else pa.nulls(count, column.type)
        )
    names = [column.name for column in (*scan.columns, *scan.partition_columns)]
    return made_batch(pa.schema(list(zip(names, (array.type for array in arrays), strict=True))), arrays, count)
