"""A file of JSON lines per run: reports, commands, decisions, what was shown. For programs, and for `reshape replay`;
:meth:`Query.story` is for people.

The file is bounded. Reports and what is shown come again and again: the larger the file, the fewer of them are
written. Decisions and commands are all there, until the file is full.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any, TextIO

# What file systems take in one name, with room for an ending.
_LONGEST_BYTES = 200
# A file that is replayed is read as a whole. After each eighth of it, lines that repeat come half as often.
MOST_BYTES = 256 * 1024 * 1024
_STEPS = 8
_FIRST_STEP_S = 0.25
# Of these the newest replaces all before it.
REPEATED = {"report", "shown", "progress"}


class EventLog:
    """Writes are whole lines, in order, from any thread."""

    def __init__(self, directory: str, run: str, most_bytes: int = MOST_BYTES) -> None:
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{_file_name(run)}.jsonl"
        self._most_bytes = most_bytes
        self._bytes = 0
        self._written_at: dict[tuple[Any, ...], float] = {}  # lines that repeat, by what they are about
        self._lock = threading.Lock()
        self._file: TextIO | None = _private(self.path)

    def write(self, kind: str, seconds: float, **facts: Any) -> None:
        """One line: what, when (seconds since the hosts were ready), and the facts."""
        with self._lock:
            if self._file is None or not self._is_due(kind, seconds, facts):
                return
            line = json.dumps({"event": kind, "seconds": round(seconds, 4), **facts}, default=str)
            self._bytes += len(line) + 1
            if self._bytes > self._most_bytes:
                full = f"this file has {self._most_bytes:,} bytes, the most that it may have: no more is written"
                line = json.dumps({"event": "full", "seconds": round(seconds, 4), "text": full})
            self._file.write(line + "\n")
            self._file.flush()
            if self._bytes > self._most_bytes:
                self._close()

    def close(self) -> None:
        with self._lock:
            self._close()

    def _is_due(self, kind: str, seconds: float, facts: dict[str, Any]) -> bool:
        step = self._bytes * _STEPS // self._most_bytes
        if kind not in REPEATED or step == 0:
            return True
        about = (kind, facts.get("operator"), facts.get("port"))
        last = self._written_at.get(about)
        if last is not None and 0 <= seconds - last < _FIRST_STEP_S * 2**step and not facts.get("final"):
            return False
        self._written_at[about] = seconds
        return True

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _private(path: Path) -> TextIO:
    """A file to add to. It holds rows of results: others on the machine need not read them."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")


def _file_name(run: str) -> str:
    """The name of a run as that of a file in its folder. Its end, where what makes it unique is, stays."""
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in run)
    return plain.encode()[-_LONGEST_BYTES:].decode(errors="ignore").lstrip(".") or "_"
