"""Waiting rows on disk: Arrow IPC streams, compressed, read back in the order in which they were written."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyarrow import ipc

from reshape.exchange.errors import SpillError

T = TypeVar("T")

# lz4 costs a fraction of what the disk does and halves what typical rows take.
_OPTIONS = ipc.IpcWriteOptions(compression="lz4")


class SpillSpace:
    """A directory of one host task, below one of Spark's local directories; removed with everything in it."""

    def __init__(self, parents: list[str], limit_bytes: int | None = None) -> None:
        self._parents = parents or [tempfile.gettempdir()]
        self._limit = limit_bytes
        self._directory: Path | None = None
        self._files = 0
        self._closed = False
        self._segments: set[Segment] = set()
        self.written_bytes = 0
        self.held_bytes = 0

    def new_file(self) -> Path:
        if self._closed:
            raise SpillError("the host is closing; its waiting rows are not kept any more")
        if self._directory is None:
            self._directory = self._new_directory()
        self._files += 1
        return self._directory / f"{self._files}.arrows"

    def _new_directory(self) -> Path:
        """In the first place that can be written to: Spark, too, goes on when one of its disks is lost."""
        causes = []
        for parent in self._parents:
            try:
                return Path(tempfile.mkdtemp(prefix="reshape-spill-", dir=parent))
            except OSError as error:
                causes.append(f"{parent} ({error.strerror})")
        raise SpillError(
            f"cannot keep waiting rows: no directory can be made in {', '.join(causes)}; set spark.local.dir to "
            f"a directory that can be written to"
        )

    def add(self, segment: Segment) -> None:
        self._segments.add(segment)

    def remove(self, segment: Segment) -> None:
        self._segments.discard(segment)

    def count(self, change: int) -> None:
        self.held_bytes += change
        if change > 0:
            self.written_bytes += change
            if self._limit is not None and self.held_bytes > self._limit:
                raise SpillError(
                    f"waiting rows take {self.held_bytes:,} bytes on disk in {self._directory}, the limit is "
                    f"{self._limit:,}; raise spark.reshape.spill.limit, or give the hosts more memory"
                )

    def close(self) -> None:
        """Removed files take space until they are closed, so all of them are closed too."""
        self._closed = True
        for segment in list(self._segments):
            segment.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None


class Segment:
    """One file of one queue. Written until it is first read; then only read, and removed after its last batch."""

    def __init__(self, space: SpillSpace, schema: pa.Schema) -> None:
        self._space = space
        self._path = space.new_file()
        self.schema = schema
        self.open_for_writing = True
        self._waiting = 0
        self._bytes = 0
        self._reader: ipc.RecordBatchStreamReader | None = None
        self._file: pa.NativeFile = self._guard(lambda: pa.OSFile(str(self._path), "wb"))
        space.add(self)
        self._writer = self._guard(lambda: ipc.new_stream(self._file, schema, options=_OPTIONS))

    def write(self, batch: pa.RecordBatch) -> None:
        self._guard(lambda: self._writer.write_batch(batch))
        self._waiting += 1
        size = self._file.tell()
        grown, self._bytes = size - self._bytes, size
        self._space.count(grown)

    def finish(self) -> None:
        """Nothing more will be written."""
        if self.open_for_writing:
            self.open_for_writing = False
            self._guard(self._writer.close)
            self._guard(self._file.close)

    def read(self) -> pa.RecordBatch:
        """The next batch in the order of writing."""
        if self._reader is None:
            self.finish()
            self._file = self._guard(lambda: pa.OSFile(str(self._path), "rb"))
            self._reader = self._guard(lambda: ipc.open_stream(self._file))
        batch = self._guard(self._reader.read_next_batch)
        self._waiting -= 1
        if self._waiting == 0:
            self.close()
        return batch

    def close(self) -> None:
        self.open_for_writing = False
        with contextlib.suppress(OSError, pa.ArrowException):
            self._file.close()
        self._path.unlink(missing_ok=True)
        self._space.count(-self._bytes)
        self._bytes = 0
        self._space.remove(self)

    def _guard(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except (OSError, ValueError, StopIteration, pa.ArrowException) as error:
            raise SpillError(
                f"cannot keep waiting rows in {self._path}: {error}; free some disk space or set spark.local.dir to a "
                f"larger disk"
            ) from error
