"""Reading without Spark: scans made by hand, files that change, calendars and codecs."""

from __future__ import annotations

import base64
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption

from reshape.scan.errors import NotReadable, SplitChanged, SplitUnreadable
from reshape.scan.footers import with_footers
from reshape.scan.physical import local_path
from reshape.scan.reading import read_split
from reshape.scan.row_groups import groups_between, middle_byte
from reshape.scan.scan import ReadFacts, Scan, ScanColumn, Split

FACTS = ReadFacts(True, True, "CORRECTED", "CORRECTED", False)
LEGACY = replace(FACTS, datetime_rebase="LEGACY", int96_rebase="LEGACY")


def scan_of(path: Path, facts: Any = FACTS, **types: Any) -> Any:
    status = os.stat(path)
    split = Split(str(path), 0, status.st_size, (), status.st_size, status.st_mtime_ns // 1_000_000)
    columns = tuple(ScanColumn(name, kind) for name, kind in types.items())
    return Scan(pa.schema(list(types.items())), columns, (), (), facts, (split,))


@pytest.fixture
def path(tmp_path: Path) -> Any:
    pq.write_table(pa.table({"x": range(1000)}), tmp_path / "t.parquet", row_group_size=100)
    return tmp_path / "t.parquet"


def test_each_row_group_is_in_one_of_any_splits(path: Path) -> None:
    metadata = pq.read_metadata(path)
    size = os.path.getsize(path)
    middles = [middle_byte(metadata.row_group(group)) for group in range(10)]
    for edge in (*middles, *(middle + 1 for middle in middles), 1, size - 1):
        assert groups_between(metadata, 0, edge) + groups_between(metadata, edge, size) == list(range(10))


def test_a_changed_file_is_named(path: Path) -> None:
    scan = scan_of(path, x=pa.int64())
    (split,) = scan.splits
    assert sum(batch.num_rows for batch in read_split(scan, split)) == 1000
    for other in (replace(split, file_size=1), replace(split, modified_ms=split.modified_ms - 5000)):
        with pytest.raises(SplitChanged, match=r"t\.parquet changed"):
            list(read_split(scan, other))
    path.unlink()
    with pytest.raises(SplitChanged, match="no file"):
        list(read_split(scan, split))


def test_a_broken_file_is_named_also_in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = middle_byte(pq.read_metadata(path).row_group(5))
    data[middle - 100 : middle + 100] = b"\xff" * 200
    path.write_bytes(data)
    scan = scan_of(path, x=pa.int64())
    with pytest.raises(SplitUnreadable, match=r"t\.parquet") as error:
        list(read_split(scan, scan.splits[0]))
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_errors_survive_pickling() -> None:
    for error in (NotReadable("why"), SplitChanged("p", "a", "b"), SplitUnreadable("p", "why")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))


def test_a_file_without_columns_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({}), tmp_path / "t.parquet")
    with pytest.raises(NotReadable, match="no columns"):
        with_footers(scan_of(tmp_path / "t.parquet", x=pa.int64()), 10)


def test_rows_in_memory_are_bounded_where_few_texts_are_long_and_repeat(tmp_path: Path) -> None:
    texts = pa.array([str(number) * 200_000 for number in range(4)])
    codes = pa.array([number % 4 for number in range(2_000)], pa.int32())
    table = pa.table({"n": range(2_000), "x": pa.DictionaryArray.from_arrays(codes, texts)})
    pq.write_table(table, tmp_path / "t.parquet", dictionary_pagesize_limit=10_000_000, store_schema=False)
    scan = scan_of(tmp_path / "t.parquet", n=pa.int64(), x=pa.string())
    rows = 0
    for batch in read_split(scan, scan.splits[0], skip_rows=1_500):
        assert batch.nbytes < 40_000_000  # all of them at once are 400 MB, of a file of 100 KB
        assert batch["n"][0].as_py() == 1_500 + rows
        rows += batch.num_rows
    assert rows == 500


def test_short_rows_come_in_large_batches(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": ["a", "b"] * 50_000}), tmp_path / "t.parquet", row_group_size=30_000)
    scan = scan_of(tmp_path / "t.parquet", x=pa.string())
    assert next(iter(read_split(scan, scan.splits[0]))).num_rows > 29_000


def test_text_that_is_no_utf8_is_not_passed_off_as_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [b"\xff\xfe"]}), tmp_path / "t.parquet")
    scan = scan_of(tmp_path / "t.parquet", x=pa.string())
    with pytest.raises(SplitUnreadable, match="UTF"):
        list(read_split(scan, scan.splits[0]))


def dated(path: Path, days: Any, keys: Any = None, **options: Any) -> Any:
    column = pa.array(days, pa.int32()).cast(pa.date32())
    table = pa.table(
        {"d": column, "t": pa.array(days, pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp("us", "UTC"))}
    )
    pq.write_table(table.replace_schema_metadata(keys), path, **options)
    return path


OLD, NEW = [-200_000, 5], [-141_427, None]


@pytest.mark.parametrize(
    ("days", "keys", "facts", "refused"),
    [
        (OLD, None, FACTS, False),
        (OLD, None, LEGACY, True),
        (OLD, None, replace(FACTS, datetime_rebase="EXCEPTION"), True),
        (NEW, None, LEGACY, False),
        (OLD, {"org.apache.spark.version": "4.0.0"}, LEGACY, False),
        (OLD, {"org.apache.spark.version": "2.4.8"}, FACTS, True),
        (NEW, {"org.apache.spark.version": "2.4.8"}, FACTS, False),
        (OLD, {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}, FACTS, True),
    ],
)
def test_dates_that_spark_would_move_to_another_calendar(
    tmp_path: Path, days: Any, keys: Any, facts: Any, refused: Any
) -> None:
    scan = scan_of(dated(tmp_path / "d.parquet", days, keys), facts, d=pa.date32())
    if refused:
        with pytest.raises(NotReadable, match=r"d\.parquet: column d: Spark reads its dates"):
            with_footers(scan, 10)
    else:
        assert with_footers(scan, 10).splits[0].rows == 2


def test_dates_without_statistics_may_be_old(tmp_path: Path) -> None:
    scan = scan_of(dated(tmp_path / "d.parquet", NEW, write_statistics=False), LEGACY, d=pa.date32())
    with pytest.raises(NotReadable, match="LEGACY"):
        with_footers(scan, 10)


def test_int96_timestamps_in_another_mode(tmp_path: Path) -> None:
    path = dated(tmp_path / "d.parquet", [5, 6], use_deprecated_int96_timestamps=True)
    kind = pa.timestamp("us", "UTC")
    assert with_footers(scan_of(path, t=kind), 10).splits[0].rows == 2
    with pytest.raises(NotReadable, match="INT96"):
        with_footers(scan_of(path, LEGACY, t=kind), 10)
    with pytest.raises(NotReadable, match="int96TimestampConversion"):
        with_footers(scan_of(path, replace(FACTS, int96_conversion=True), t=kind), 10)


class PlainKeys(encryption.KmsClient):  # type: ignore[misc]
    """Keys wrapped by nothing: enough for a file that cannot be read without them."""

    def wrap_key(self, key_bytes: Any, master_key_identifier: Any) -> Any:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: Any, master_key_identifier: Any) -> Any:
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_encrypted_files_are_refused(tmp_path: Path, plaintext_footer: Any) -> None:
    factory = encryption.CryptoFactory(lambda connection: PlainKeys())
    settings = encryption.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["x"]}, plaintext_footer=plaintext_footer
    )
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), settings)
    table = pa.table({"x": [1, 2], "y": [3, 4]})
    with pq.ParquetWriter(tmp_path / "t.parquet", table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    for column in ("x", "y"):
        with pytest.raises(NotReadable, match="encrypted"):
            with_footers(scan_of(tmp_path / "t.parquet", **{column: pa.int64()}), 10)


def test_paths() -> None:
    assert local_path("file:///a%20b/c%2520%C3%BC") == "/a b/c%20ü"
    assert local_path("file:/a/b") == "/a/b"
    with pytest.raises(NotReadable, match="on s3a"):
        local_path("s3a://bucket/key")
