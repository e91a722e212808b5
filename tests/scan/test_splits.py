"""Splits: each row group is read in the split in which Spark reads it, and reading can start again anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reshape.scan.errors import NotReadable
from reshape.scan.layout import layout
from reshape.scan.planning import plan_scan
from reshape.scan.reading import read_split
from reshape.scan.row_groups import groups_between, groups_to_read
from reshape.scan.scan import Scan


def write_groups(path: Path, names: Any) -> Any:
    """Row groups of very different sizes; the last is larger than many splits. Text has a dictionary of 12 kB."""
    kinds = {"id": pa.int64(), "s": pa.string()}
    schema = pa.schema([(name, kinds[name]) for name in names])
    first = 0
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=["s"]) as writer:
        for rows in (10, 700, 1, 300, 50, 5, 2000, 9000):
            ids = list(range(first, first + rows))
            texts = [f"text {i % 40}".ljust(300) for i in ids]
            table = pa.table({"id": ids, "s": texts}).select(names).cast(schema)
            writer.write_table(table, row_group_size=rows)
            first += rows
    return str(path)


@pytest.fixture
def many_groups(tmp_path: Path) -> Any:
    return write_groups(tmp_path / "groups.parquet", ["id", "s"])


@pytest.mark.parametrize("names", [["id", "s"], ["s", "id"]])
def test_row_groups_are_read_where_spark_reads_them(small_splits: Any, tmp_path: Path, names: Any) -> None:
    table = small_splits.read.parquet(write_groups(tmp_path / "groups.parquet", names))
    scan = plan_scan(table)
    assert len(scan.splits) > 20
    ours = Counter({split.start: split.rows for split in scan.splits if split.rows})
    by_spark = table.select("_metadata.file_block_start").groupBy("file_block_start").count().collect()
    assert ours == Counter({row[0]: row[1] for row in by_spark})
    for split in scan.splits:
        assert sum(batch.num_rows for batch in read_split(scan, split)) == split.rows


def test_splits_of_files_written_by_spark(
    small_splits: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path
) -> None:
    rows = small_splits.range(20_000).selectExpr("id", "cast(id as string) as s", "id % 10 as k").coalesce(1)
    rows.write.option("parquet.block.size", 16 * 1024).option("parquet.page.row.count.limit", 100).parquet(
        str(tmp_path / "t")
    )
    table = small_splits.read.parquet(str(tmp_path / "t"))
    scan = same_as_spark(table)
    ours = {split.start: split.rows for split in scan.splits if split.rows}
    assert len(ours) > 2
    by_spark = table.select("_metadata.file_block_start").groupBy("file_block_start").count().collect()
    assert ours == {row[0]: row[1] for row in by_spark}


def test_many_small_files(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path) -> None:
    session.range(0, 300, 1, 30).write.parquet(str(tmp_path / "t"))
    table = session.read.parquet(str(tmp_path / "t"))
    scan = same_as_spark(table)
    assert len({split.path for split in scan.splits}) == 30
    with pytest.raises(NotReadable, match="30 files, more than the 10 whose footers are looked at"):
        plan_scan(table, most_footers=10)


def test_paths_are_those_of_the_file_system(session: Any, same_as_spark: Callable[[Any], Scan], tmp_path: Path) -> None:
    session.range(3).write.parquet(str(tmp_path / "a b%20ü+#"))
    scan = same_as_spark(session.read.parquet(str(tmp_path / "a b%20ü+#")))
    assert all("a b%20ü+#" in split.path for split in scan.splits)


def test_row_groups_that_filters_rule_out_are_not_read(
    session: Any, same_as_spark: Callable[[Any], Scan], many_groups: Any
) -> Any:
    table = session.read.parquet(many_groups)
    metadata = pq.read_metadata(many_groups)

    def read_groups(condition: str) -> int:
        scan = same_as_spark(table.where(condition))
        stored = layout(metadata, scan.columns, scan.facts)
        groups = groups_between(metadata, 0, scan.splits[0].file_size)
        return len(groups_to_read(metadata, groups, scan, stored))

    assert metadata.num_row_groups == 8
    assert read_groups("id < 10") == 1
    assert read_groups("id >= 710 and 711 > id") == 1
    assert read_groups("id = 10") == 1
    assert read_groups("id <= 10") == 2
    assert read_groups("id > 710") == 5
    assert read_groups("s > 'text 1'") == 8
    assert read_groups("id < 10 or id > 710") == 8


def test_reading_starts_again_at_any_row(session: Any, many_groups: Any) -> None:
    table = session.read.parquet(many_groups)
    for scan in (plan_scan(table), plan_scan(table.where("s > 'text 3' or id > 9000")), plan_scan(table.select())):
        (split,) = scan.splits
        whole = pa.Table.from_batches(read_split(scan, split, batch_rows=64), schema=scan.schema)
        rows = sum(batch.num_rows for batch in read_split(scan, split))
        for skipped in (0, 1, 10, 11, 709, 710, 1000, rows - 1, rows, rows + 5):
            rest = list(read_split(scan, split, batch_rows=100, skip_rows=skipped))
            assert sum(batch.num_rows for batch in rest) == max(rows - skipped, 0)
            if scan.columns:
                assert pa.Table.from_batches(rest, schema=scan.schema).equals(whole.slice(skipped))
