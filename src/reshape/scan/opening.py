"""A split's file, opened by Arrow if it is the one that was planned and one that Arrow reads as Spark does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reshape.scan.errors import SplitChanged, SplitUnreadable
from reshape.scan.layout import StoredColumn, Unfit, layout
from reshape.scan.scan import Scan, Split

# Bytes that Arrow reads ahead in each column of a row group. Measured on 3 M rows of 9 columns: no more CPU time than
# with whole column chunks in memory, and a fifth of the memory.
_READ_AHEAD = 256 * 1024

# A Parquet file ends with the length of its footer, in four bytes, and four letters.
_ENDING = 8


@dataclass(frozen=True, slots=True)
class OpenFile:
    """pyarrow's ParquetFile, and where the scan's columns are in it."""

    file: Any
    stored: tuple[StoredColumn, ...]

    @property
    def metadata(self) -> Any:
        return self.file.metadata


@contextmanager
def opened(scan: Scan, split: Split) -> Iterator[OpenFile]:
    """Raises SplitChanged or SplitUnreadable, also for what Arrow says while the file is read."""
    _check_unchanged(split)
    try:
        with pq.ParquetFile(
            split.path, pre_buffer=False, buffer_size=_READ_AHEAD, coerce_int96_timestamp_unit="us"
        ) as file:
            _refuse_encrypted_columns(split.path, file.metadata)
            yield OpenFile(file, layout(file.metadata, scan.columns, scan.facts))
    except (Unfit, pa.ArrowException, OSError) as error:
        raise SplitUnreadable(split.path, str(error)) from error


def _check_unchanged(split: Split) -> None:
    """A file that was written anew may have other rows, and some of the old ones may have been read already."""
    planned = f"{split.file_size} bytes at {split.modified_ms} ms"
    try:
        status = os.stat(split.path)
    except FileNotFoundError:
        raise SplitChanged(split.path, planned, "no file") from None
    except OSError as error:
        raise SplitUnreadable(split.path, str(error)) from error
    modified_ms = status.st_mtime_ns // 1_000_000
    # Some file systems of Hadoop know seconds only.
    same_time = split.modified_ms in (modified_ms, modified_ms // 1000 * 1000)
    if status.st_size != split.file_size or not same_time:
        raise SplitChanged(split.path, planned, f"{status.st_size} bytes at {modified_ms} ms")


def _refuse_encrypted_columns(path: str, metadata: Any) -> None:
    """A footer in plain text above encrypted columns is signed: it is longer than what Arrow understood of it.

    Arrow ends the whole process where such a column's metadata is asked for, so this comes before all else.
    """
    with open(path, "rb") as file:
        file.seek(-_ENDING, os.SEEK_END)
        footer_bytes = int.from_bytes(file.read(4), "little")
    if footer_bytes != metadata.serialized_size:
        raise Unfit("its footer has more in it than Arrow reads, such as a signature: its columns may be encrypted")
