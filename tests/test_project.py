"""Rules about the project's own files."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Written in two parts, or this file would break its own rule.
REGISTRY_HOSTS = tuple(
    f"{name}.{domain}"
    for name, domain in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("deb.debian", "org"),
        ("security.debian", "org"),
        ("archive.ubuntu", "com"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("anaconda", "org"),
        ("repo1.maven", "org"),
        ("repo.maven.apache", "org"),
    )
)

CONTROL = ROOT / "src" / "reshape" / "control"

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


def project_files() -> Iterator[Path]:
    """Files that git has or would add; all but hidden and generated ones where the tree is no repository."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        tops = [path for path in ROOT.iterdir() if not path.name.startswith(".") or path.name == ".ci"]
        paths = [path for top in tops for path in (top, *top.rglob("*")) if "__pycache__" not in path.parts]
    return (path for path in paths if path.is_file())


def named_hosts(text: str) -> list[str]:
    return [host for host in REGISTRY_HOSTS if host in text.lower()]


def impure_imports(source: str, package: str) -> list[str]:
    """Imports of a module in `package` that leave the standard library, its pure part, or `reshape.control`."""
    imported: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            imported += [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Name) and node.id == "__import__":
            imported.append(node.id)
    return [name for name in imported if not is_pure(name)]


def is_pure(name: str) -> bool:
    """`reshape.errors` is the one other module of the package that the brain knows: classes, and nothing else."""
    if name == "reshape.control" or name.startswith(("reshape.control.", "reshape.errors.")):
        return True
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names and top not in IMPURE


def test_no_file_names_a_registry_host() -> None:
    found = {
        str(path.relative_to(ROOT)): hosts
        for path in project_files()
        if (hosts := named_hosts(path.read_text(errors="ignore")))
    }
    assert found == {}


def test_registry_hosts_are_recognised() -> None:
    assert named_hosts("--index-url https://" + "PyPI" + ".org/simple") == ["pypi" + ".org"]


def test_control_is_pure() -> None:
    found: dict[str, list[str]] = {}
    for path in (*CONTROL.rglob("*.py"), CONTROL.parent / "errors.py"):
        package = ".".join(path.parent.relative_to(ROOT / "src").parts)
        if names := impure_imports(path.read_text(), package):
            found[str(path.relative_to(ROOT))] = names
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
        "from . import flux",
        "from .flux import Flux",
        "from .. import events",
        "from ..events import Event",
    ],
)
def test_pure_import_is_let_through(source: str) -> None:
    assert impure_imports(source, "reshape.control.baselines") == []
