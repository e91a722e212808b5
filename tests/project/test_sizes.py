"""Files, functions and classes stay small enough to be read at one sitting."""

from __future__ import annotations

import ast

from .sources import modules, name_of, tree

MOST_LINES = 400
MOST_FUNCTION_LINES = 50
MOST_ATTRIBUTES = 15

# Why it has more attributes than others.
MANY_ATTRIBUTES = {
    "StrategySettings": "the parameters of the paper, each with its name",
    "FlowSettings": "all that users may set, each with its name",
    "QueryProgress": "all that is known of a run at one moment, each with its name",
}


def test_no_file_is_long() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_function_is_long() -> None:
    lengths: dict[str, int] = {}
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths[f"{name_of(path)}: {node.name}"] = (node.end_lineno or node.lineno) - node.lineno + 1
    assert {name: lines for name, lines in lengths.items() if lines > MOST_FUNCTION_LINES} == {}


def test_no_class_has_many_attributes() -> None:
    counts: dict[str, int] = {}
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and node.name not in MANY_ATTRIBUTES:
                counts[f"{name_of(path)}: {node.name}"] = len(attributes(node))
    assert {name: count for name, count in counts.items() if count > MOST_ATTRIBUTES} == {}


def attributes(made: ast.ClassDef) -> set[str]:
    """What objects of a class have: fields, and what its methods set on ``self``."""
    names = {
        node.target.id
        for node in made.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "ClassVar" not in ast.dump(node)
    }
    for node in ast.walk(made):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            names.add(node.attr)
    return names


def test_attributes_are_counted() -> None:
    source = "class A:\n    x: int\n    y: ClassVar[int] = 1\n    def f(self):\n        self.z = other.w = self.x = 1\n"
    [made] = ast.parse(source).body
    assert isinstance(made, ast.ClassDef)
    assert attributes(made) == {"x", "z"}
