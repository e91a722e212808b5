"""Options that users give: how each is called, and how its value is read from a number, a flag or a text.

Values come from Python and from a session's settings, which are texts. What reads one raises ValueError with the words
that complete "it must be ...".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

SECONDS = "a number of seconds, 0 or more"
LONGEST_LABEL = 200
ROWS = "a number of rows, more than 0"

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_RANGE = re.compile(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?")
_PAIRS = re.compile(r"\d+:( *\d+)+(, *\d+:( *\d+)+)*")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TRUTH = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False, "on": True, "off": False}

Read = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Option:
    """``name`` is the option in Python, ``key`` the setting in a session without its prefix.

    read:         the value as it is kept, of its type
    per_operator: whether one operator of a flow can have a value of its own
    """

    name: str
    key: str
    read: Read
    per_operator: bool = False


def text(value: Any) -> str:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise ValueError("a text")
    return str(value)


def label(value: Any) -> str:
    """What a thing is called, in one line: it stands in messages, in job descriptions and in names of files."""
    name = text(value)
    if len(name) > LONGEST_LABEL or not name.isprintable():
        raise ValueError(f"a text of at most {LONGEST_LABEL} characters that can all be printed")
    return name


def ports(value: Any) -> str:
    """The first and the last of a range."""
    expected = ValueError('a port from 1024 to 65535, or a range of them such as "40000-40100"')
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise expected
    given = _RANGE.fullmatch(str(value))
    if given is None:
        raise expected
    lowest, highest = int(given[1]), int(given[2] or given[1])
    if not 1024 <= lowest <= highest <= 65_535:
        raise expected
    return f"{lowest}-{highest}"


def flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    truth = _TRUTH.get(value.strip().lower()) if isinstance(value, str) else None
    if truth is None:
        raise ValueError("true or false")
    return truth


def count(most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        expected = ValueError(f"a whole number from 1 to {most:,}")
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise expected
        try:
            number = int(value)
        except ValueError:
            raise expected from None
        if not 1 <= number <= most:
            raise expected
        return number

    return read


def number(least: float, what: str) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        expected = ValueError(what)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise expected
        try:
            converted = float(value)
        except ValueError:
            raise expected from None
        if not isfinite(converted) or converted < least:
            raise expected
        return converted

    return read


def one_of(names: Iterable[str]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        allowed = sorted(names)  # looked up late: strategies can be added
        if value not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return str(value)

    return read


def pairs(value: Any) -> str:
    if not isinstance(value, str) or not _PAIRS.fullmatch(value.strip()):
        raise ValueError('pairs of a skewed worker and its helpers such as "0: 10 11, 6: 4"')
    return value.strip()


def size(value: Any) -> int:
    expected = ValueError('a size of at least one byte, as a number of bytes or as a text such as "256m" or "2g"')
    match = _SIZE.fullmatch(str(value).strip())
    if match is None or isinstance(value, bool) or not isinstance(value, int | str):
        raise expected
    bytes_wanted = int(match[1]) * _UNITS[match[2].lower()]
    if bytes_wanted < 1:
        raise expected
    return bytes_wanted
