"""Waiting rows on disk: Arrow IPC streams, compressed; each batch can be read back by itself.

Where a session asks for it they are encrypted (AES-GCM), with a key that never leaves the memory of the task.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyarrow import ipc

from reshape.exchange.certificates import check_cryptography
from reshape.exchange.errors import SpillError

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_PREFIX = "reshape-spill-"

# Before each encrypted batch: its nonce, and how many bytes follow.
_SEALED = struct.Struct("<12sQ")

# lz4 costs a fraction of what the disk does and halves what typical rows take.
_OPTIONS = ipc.IpcWriteOptions(compression="lz4")


class _Seal:
    """Encrypts what goes to disk; what was changed there is not taken for rows again."""

    def __init__(self) -> None:
        check_cryptography("an executor")
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(secrets.token_bytes(32))

    def seal(self, data: pa.Buffer) -> tuple[bytes, bytes]:
        """A header and what follows it."""
        nonce = secrets.token_bytes(12)
        sealed = self._cipher.encrypt(nonce, memoryview(data).cast("B"), None)
        return _SEALED.pack(nonce, len(sealed)), sealed

    def open(self, file: pa.NativeFile) -> pa.Buffer:
        """The next batch of a file. Raises OSError."""
        from cryptography.exceptions import InvalidTag

        try:
            nonce, size = _SEALED.unpack(file.read(_SEALED.size))
            return pa.py_buffer(self._cipher.decrypt(nonce, file.read(min(size, file.size())), None))
        except (InvalidTag, struct.error) as error:
            raise OSError("the file was changed") from error


class SpillSpace:
    """A directory of one host task, below one of Spark's local directories; removed with everything in it."""

    def __init__(self, parents: list[str], limit_bytes: int | None = None, *, encrypted: bool = False) -> None:
        self.seal = _Seal() if encrypted else None
        self._parents = parents or [tempfile.gettempdir()]
        self._limit = limit_bytes
        self._directory: Path | None = None
        self._lock = -1
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
                fresh = Path(tempfile.mkdtemp(prefix="reshape-new-", dir=parent))
                self._lock = os.open(fresh, os.O_RDONLY | os.O_CLOEXEC)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                # Only now, locked, it gets the name by which others would sweep it away.
                directory = fresh.rename(fresh.with_name(fresh.name.replace("reshape-new-", _PREFIX)))
            except OSError as error:
                LOG.warning("waiting rows cannot go to %s (%s)", parent, error.strerror)
                causes.append(f"{parent} ({error.strerror})")
            else:
                LOG.info("memory for waiting rows is full: they go to %s from now on", directory)
                return directory
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
                    f"{self._limit:,}; raise spark.reshape.spillLimit, or give the hosts more memory"
                )

    def close(self) -> None:
        """Removed files take space until they are closed, so all of them are closed too."""
        self._closed = True
        for segment in list(self._segments):
            segment.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
            os.close(self._lock)


def sweep(parents: list[str]) -> None:
    """Remove what tasks have left that were killed: their directories are not locked any more."""
    for parent in parents:
        for directory in Path(parent).glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):  # locked: its task lives; gone: somebody else was here
                handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(directory, ignore_errors=True)
                finally:
                    os.close(handle)


class Segment:
    """One file of one queue. Written until it is first read; then only read, and removed after its last batch."""

    def __init__(self, space: SpillSpace, schema: pa.Schema) -> None:
        self._space = space
        self._path = space.new_file()
        self.schema = schema
        self.open_for_writing = True
        self._waiting: dict[int, int] = {}  # the place in the file of each batch that is still wanted, by its number
        self._written = 0
        self._reading = False
        self._bytes = 0
        self._file: pa.NativeFile = self._guard(lambda: pa.OSFile(str(self._path), "wb"))
        space.add(self)

    def write(self, batch: pa.RecordBatch) -> int:
        """The number of the batch, to read it by."""
        start = self._guard(self._file.tell)
        self._guard(lambda: self._write_stream(batch))
        number, self._written = self._written, self._written + 1
        self._waiting[number] = start
        size = self._file.tell()
        grown, self._bytes = size - self._bytes, size
        self._space.count(grown)
        return number

    def finish(self) -> None:
        """Nothing more will be written."""
        if self.open_for_writing:
            self.open_for_writing = False
            self._guard(self._file.close)

    def read(self, number: int | None = None) -> pa.RecordBatch:
        """A batch by its number, once; without one, the first that has not been read."""
        if not self._reading:
            self._reading = True
            self.finish()
            self._file = self._guard(lambda: pa.OSFile(str(self._path), "rb"))
        number = min(self._waiting) if number is None else number
        place = self._waiting[number]
        batch = self._guard(lambda: self._read_at(place))
        del self._waiting[number]
        if not self._waiting:
            self.close()
        return batch

    def _write_stream(self, batch: pa.RecordBatch) -> None:
        """Each batch is a stream of its own, so that it can be read without those before it."""
        seal = self._space.seal
        sink = self._file if seal is None else pa.BufferOutputStream()
        with ipc.new_stream(sink, self.schema, options=_OPTIONS) as writer:
            writer.write_batch(batch)
        if seal is not None:
            for part in seal.seal(sink.getvalue()):
                self._file.write(part)

    def _read_at(self, place: int) -> pa.RecordBatch:
        self._file.seek(place)
        seal = self._space.seal
        return ipc.open_stream(self._file if seal is None else seal.open(self._file)).read_next_batch()

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
