"""A file of JSON lines per run: reports, commands, decisions. For programs; :meth:`Query.story` is for people."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, TextIO

# What file systems take in one name, with room for an ending.
_LONGEST_BYTES = 200


class EventLog:
    """Writes are whole lines, in order, from any thread."""

    def __init__(self, directory: str, run: str) -> None:
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{_file_name(run)}.jsonl"
        self._lock = threading.Lock()
        self._file: TextIO | None = self.path.open("a", encoding="utf-8")

    def write(self, kind: str, seconds: float, **facts: Any) -> None:
        """One line: what, when (seconds since the hosts were ready), and the facts."""
        line = json.dumps({"event": kind, "seconds": round(seconds, 4), **facts}, default=str)
        with self._lock:
            if self._file is not None:
                self._file.write(line + "\n")
                self._file.flush()

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def _file_name(run: str) -> str:
    """The name of a run as that of a file in its folder. Its end, where what makes it unique is, stays."""
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in run)
    return plain.encode()[-_LONGEST_BYTES:].decode(errors="ignore").lstrip(".") or "_"
