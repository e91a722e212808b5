"""Rooms import what the table in docs/architecture.md lets them import, and control is pure."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache

import pytest

from .sources import PACKAGE, ROOT, imported, modules, name_of, package_of, tree

# Modules at the top that make one room with the package itself: what users touch.
SURFACE = "reshape"
ROW = re.compile(r"^\| (`\w+`.*?) \|(.*)\|$", re.MULTILINE)
WORD = re.compile(r"`([\w.]+)`")

# A clock, a thread, a socket or global randomness would make the brain's decisions depend on more than its events.
IMPURE = {
    "_thread",
    "asyncio",
    "concurrent",
    "datetime",
    "importlib",
    "multiprocessing",
    "random",
    "sched",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "threading",
    "time",
    "uuid",
}


def read_table() -> tuple[dict[str, set[str]], set[str]]:
    """What each room may import, and the modules of the surface."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.split("## Which room may import which\n")[1].split("\n## ")[0]
    rooms: dict[str, set[str]] = {}
    surface: set[str] = set()
    for first, second in ROW.findall(section):
        room, *parts = WORD.findall(first)
        rooms[room] = set(WORD.findall(second))
        surface |= set(parts)
    return rooms, surface


ALLOWED, SURFACE_MODULES = read_table()


def room_of(name: str) -> str:
    """The room of a full name such as "reshape.host.loop.HostLoop"."""
    parts = name.split(".")
    if len(parts) == 1 or parts[1] in SURFACE_MODULES or not _is_ours(parts[1]):
        return SURFACE
    return parts[1]


def _is_ours(part: str) -> bool:
    return (PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").is_file()


def foreign(room: str, names: list[str]) -> list[str]:
    """Imports of another room that the table does not allow."""
    ours = [name for name in names if name.split(".")[0] == "reshape" and room_of(name) != room]
    may = ALLOWED[room] | {"errors"}
    return [name for name in ours if not any(_is_within(name, each) for each in may)]


def _is_within(name: str, allowed: str) -> bool:
    if allowed == SURFACE:
        return room_of(name) == SURFACE
    return f"{name}.".startswith(f"reshape.{allowed}.")


def test_every_room_is_in_the_table() -> None:
    assert {room_of(f"{package_of(path)}.{path.stem}") for path in modules()} - {SURFACE} <= set(ALLOWED)
    assert {"flows", "surface", "planned", "hosted", "collected", "query", "sinks", "__init__"} == SURFACE_MODULES


@cache
def imports_of(room: str) -> dict[str, list[str]]:
    """What each file of a room imports."""
    files = [path for path in modules() if room_of(f"{package_of(path)}.{path.stem}") == room]
    return {name_of(path): imported(tree(path), package_of(path)) for path in files}


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_what_the_table_allows(room: str) -> None:
    assert {file: names for file, all_names in imports_of(room).items() if (names := foreign(room, all_names))} == {}


@pytest.mark.parametrize("room", ALLOWED)
def test_the_table_allows_what_a_room_imports_and_no_more(room: str) -> None:
    names = [name for names in imports_of(room).values() for name in names]
    assert {each for each in ALLOWED[room] if not any(_is_within(name, each) for name in names)} == set()


def test_the_table_has_no_cycle() -> None:
    below = {room: {name.partition(".")[0] for name in may} - {room} for room, may in ALLOWED.items()}
    while below:
        lowest = {room for room, may in below.items() if not may & below.keys()}
        assert lowest, f"these import each other: {sorted(below)}"
        below = {room: may for room, may in below.items() if room not in lowest}


@pytest.mark.parametrize(
    ("room", "name"),
    [
        ("control", "reshape.kernels.hashing.hash_rows"),
        ("kernels", "reshape.control.routing.RoutingTable"),
        ("operators", "reshape.control.routing.RoutingTable"),
        ("operators", "reshape.read"),
        ("plan", "reshape.flows.Flow"),
    ],
)
def test_a_foreign_import_is_recognised(room: str, name: str) -> None:
    assert foreign(room, [name]) == [name]


@pytest.mark.parametrize(
    ("room", "name"),
    [
        ("control", "reshape.errors.ReshapeError"),
        ("kernels", "reshape.errors.ReshapeError"),
        ("sender", "reshape.control.routing.RoutingTable"),
        ("operators", "reshape.operators.base.Operator"),
        ("workloads", "reshape.read"),
        ("workloads", "reshape.flows.Flow"),
    ],
)
def test_an_import_that_the_table_allows_is_let_through(room: str, name: str) -> None:
    assert foreign(room, [name]) == []


# Control


def impure_imports(source: str, package: str) -> list[str]:
    """Imports of a module in ``package`` that are neither pure nor of ``reshape.control`` or ``reshape.errors``."""
    return [name for name in imported(ast.parse(source), package) if not is_pure(name)]


def is_pure(name: str) -> bool:
    """`reshape.errors` is the one other module of the package that the brain knows: classes, and nothing else."""
    if name == "reshape.control" or name.startswith(("reshape.control.", "reshape.errors.")):
        return True
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names and top not in IMPURE


def test_control_is_pure() -> None:
    found = {
        name_of(path): names
        for path in (*modules(PACKAGE / "control"), PACKAGE / "errors.py")
        if (names := impure_imports(path.read_text(), package_of(path)))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import math, threading",
        "from datetime import datetime",
        "from concurrent.futures import Future",
        "import numpy as np",
        "import reshape",
        "import reshape.controller",
        "from reshape import sim",
        "from reshape.machine.java import Java",
        "from ... import sim",
        "from ...sim import heap",
        "def f():\n    import random",
        "m = __import__('time')",
    ],
)
def test_impure_import_is_recognised(source: str) -> None:
    assert impure_imports(source, "reshape.control.baselines")


@pytest.mark.parametrize(
    "source",
    [
        "import math",
        "import collections.abc",
        "from __future__ import annotations",
        "from dataclasses import dataclass",
        "import reshape.control.events",
        "from reshape import control",
        "from reshape.control.events import Event",
        "from reshape.errors import ReshapeError",
        "from . import flux",
        "from .flux import Flux",
        "from .. import events",
        "from ..events import Event",
    ],
)
def test_pure_import_is_let_through(source: str) -> None:
    assert impure_imports(source, "reshape.control.baselines") == []
