"""Nothing in the package is there for tests alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from .sources import ROOT, modules, name_of, tree

# What only users call, or what a framework calls by its name; each must still be there.
CALLED_BY_OTHERS = {"_repr_html_": "notebooks", "_ipython_display_": "notebooks"}
# Decorators that enter what they decorate in a list, by which it is found.
REGISTER = {"spark_function", "entry", "lazy_entry"}
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
WORD = re.compile(r"\w+")


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def defined() -> dict[str, str]:
    """Names of functions, methods and classes of the package that have to be called by name, with the file of each."""
    names: dict[str, str] = {}
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, Definition) and not _is_special(node.name) and not _is_registered(node):
                names[node.name] = name_of(path)
    return names


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_registered(node: Definition) -> bool:
    calls = [decorator.func for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    return any(isinstance(function, ast.Name) and function.id in REGISTER for function in calls)


@cache
def used() -> set[str]:
    """Identifiers in the package, the benchmarks and the examples, beside those that define something; words of code
    in the docs."""
    names: set[str] = set()
    for folder in (ROOT / "src", ROOT / "benchmarks", ROOT / "examples"):
        for path in modules(folder):
            names |= set(_identifiers(tree(path)))
    for page in DOCS:
        for code in CODE.findall(page.read_text()):
            names |= set(WORD.findall(code))
    return names


def _identifiers(source: ast.Module) -> Iterator[str]:
    for node in ast.walk(source):
        match node:
            case ast.Name():
                yield node.id
            case ast.Attribute():
                yield node.attr
            case ast.ImportFrom():
                yield from (alias.name for alias in node.names)
            case ast.Constant(value=str(text)) if text.isidentifier():
                yield text


def test_everything_is_used_by_more_than_tests() -> None:
    names = defined()
    unused = {name: file for name, file in names.items() if name not in used() and name not in CALLED_BY_OTHERS}
    assert unused == {}


def test_the_list_of_exceptions_is_short_and_true() -> None:
    assert CALLED_BY_OTHERS.keys() - defined().keys() == set()
    assert CALLED_BY_OTHERS.keys() & used() == set(), "these need no exception"
