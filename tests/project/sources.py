"""The project's own Python files, as trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "reshape"


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules(folder: Path = PACKAGE) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*.py")) if "__pycache__" not in path.parts)


def name_of(path: Path) -> str:
    """As in "host/loop.py"."""
    return str(path.relative_to(PACKAGE))


def imported(source: ast.Module, package: str) -> list[str]:
    """Full names of what a module in ``package`` imports anywhere in it: of modules, and of names out of them."""
    names: list[str] = []
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            names += [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Name) and node.id == "__import__":
            names.append(node.id)
    return names


def package_of(path: Path) -> str:
    return ".".join(path.parent.relative_to(PACKAGE.parent).parts)
