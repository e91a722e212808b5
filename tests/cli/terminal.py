"""A program in a pseudo-terminal, and what a person sees of it."""

from __future__ import annotations

import codecs
import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence

_PART = re.compile(r"\x1b\[(?P<arguments>[?0-9;]*)(?P<command>[A-Za-z])|(?P<control>[\r\n])|(?P<text>[^\x1b\r\n]+)")

# Ctrl-C reaches the processes of a session whose terminal it is pressed in.
_IN_FRONT = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Screen:
    """As much of a terminal as rich uses: text, colours (ignored), lines erased, the cursor moved up.

    Nothing wraps, so a line that is too long for the terminal is too long here as well.
    """

    def __init__(self) -> None:
        self._lines: list[str] = [""]
        self._row = 0
        self._column = 0
        self._rest = ""

    def feed(self, text: str) -> None:
        text = self._rest + text
        self._rest = ""
        escape = text.rfind("\x1b")
        if escape >= 0 and not re.match(r"\x1b\[[?0-9;]*[A-Za-z]", text[escape:]):
            text, self._rest = text[:escape], text[escape:]
        for part in _PART.finditer(text):
            if part["text"]:
                self._write(part["text"])
            elif part["control"] == "\r":
                self._column = 0
            elif part["control"] == "\n":
                self._row += 1
                if self._row == len(self._lines):
                    self._lines.append("")
            elif part["command"] == "A":
                self._row = max(0, self._row - int(part["arguments"] or 1))
            elif part["command"] == "K" and part["arguments"] == "2":
                self._lines[self._row] = ""

    def _write(self, text: str) -> None:
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + text + line[self._column + len(text) :]
        self._column += len(text)

    @property
    def lines(self) -> list[str]:
        """All lines so far, those that have scrolled away too."""
        return [line.rstrip() for line in self._lines]


class Terminal:
    """Runs a program in a terminal of a size, in the foreground."""

    def __init__(self, command: Sequence[str], columns: int, rows: int, environment: Mapping[str, str]) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        known = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _IN_FRONT, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**known, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(slave)
        self.screen = Screen()
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a character

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def until(self, what: str, condition: Callable[[list[str]], bool], limit_s: float) -> list[str]:
        """Wait until the screen satisfies a condition; its lines."""
        deadline = time.monotonic() + limit_s
        while not condition(self.screen.lines):
            shown = "\n".join(self.screen.lines)
            assert self._read(), f"the program ended before {what}; it showed\n{shown}"
            assert time.monotonic() < deadline, f"waited {limit_s:.0f} s for {what}; the screen:\n{shown}"
        return self.screen.lines

    def end(self, limit_s: float) -> int:
        """Wait for the end of the program; its exit code."""
        deadline = time.monotonic() + limit_s
        while self._read():
            assert time.monotonic() < deadline, f"the program still runs after {limit_s:.0f} s"
        os.close(self._master)
        return self.process.wait(limit_s)

    def _read(self) -> bool:
        """Take in what the program writes within a moment; False when it has closed the terminal."""
        if not select.select([self._master], [], [], 0.2)[0]:
            return True
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # Linux says so when the last one has closed the other end
            return False
        self.screen.feed(self._decoder.decode(data))
        return bool(data)
