"""Writes `src/reshape/surface.pyi`: the types of what flows have from PySpark, read from PySpark's own sources.

.venv/bin/python scripts/surface.py
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.pandas.group_ops import PandasCogroupedOps

from reshape.flows import CogroupedFlow, Flow, GroupedFlow

STUB = Path(__file__).parents[1] / "src" / "reshape" / "surface.pyi"
SURFACES = {
    "FrameSurface": (DataFrame, Flow),
    "GroupedSurface": (GroupedData, GroupedFlow),
    "CogroupedSurface": (PandasCogroupedOps, CogroupedFlow),
}
FLOWS = {"DataFrame": "Flow", "GroupedData": "GroupedFlow", "PandasCogroupedOps": "CogroupedFlow"}
TAKEN = {"DataFrame": "Flow | DataFrame", "GroupedData": "GroupedFlow | GroupedData"}


class _Ours(ast.NodeTransformer):
    """Types with flows in the place of DataFrames, and without the quotes that PySpark needs."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self.used: set[str] = set()

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return self.visit(ast.parse(node.value, mode="eval").body) if isinstance(node.value, str) else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        made = ast.parse(self._names.get(node.id, node.id), mode="eval").body
        self.used |= {one.id for one in ast.walk(made) if isinstance(one, ast.Name)}
        return made


def definitions(model: type) -> dict[str, list[ast.FunctionDef]]:
    """Methods of a class and its mixins by name, with all overloads."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for base in reversed(model.__mro__[:-1]):
        tree = ast.parse(Path(inspect.getsourcefile(base) or "").read_text())
        of_base = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == base.__name__)
        for node in of_base.body:
            if isinstance(node, ast.FunctionDef):
                found.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):  # another name for a method
                found |= {one.id: found[node.value.id] for one in node.targets if isinstance(one, ast.Name)}
    return found


def is_marked(node: ast.FunctionDef, decorator: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == decorator for one in node.decorator_list)


def written(name: str, node: ast.FunctionDef, used: set[str]) -> list[str]:
    """The lines of one method, or of one of its overloads."""
    lines = [f"    @{mark}" for mark in ("overload", "property") if is_marked(node, mark)]
    taken, given = _Ours(TAKEN), _Ours(FLOWS)
    arguments = node.args
    of_call = [arguments.vararg, arguments.kwarg, *arguments.args, *arguments.kwonlyargs, *arguments.posonlyargs]
    for argument in of_call:
        if argument is not None and argument.annotation is not None:
            argument.annotation = taken.visit(argument.annotation)
    arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
    arguments.kw_defaults = [None if one is None else ast.Constant(...) for one in arguments.kw_defaults]
    result = ast.unparse(given.visit(node.returns)) if node.returns is not None else "Any"
    used |= taken.used | given.used
    return [*lines, f"    def {name}({ast.unparse(arguments)}) -> {result}: ..."]


def imports(models: list[type], used: set[str]) -> list[str]:
    """Where PySpark's own files have these names from."""
    found: dict[str, str] = {}
    for model in models:
        for base in model.__mro__[:-1]:
            body = ast.parse(Path(inspect.getsourcefile(base) or "").read_text()).body
            for node in [*body, *(inner for one in body if isinstance(one, ast.If) for inner in one.body)]:
                if isinstance(node, ast.ImportFrom | ast.Import):
                    start = f"from {node.module} import" if isinstance(node, ast.ImportFrom) else "import"
                    for one in node.names:
                        found.setdefault(one.asname or one.name, f"{start} {ast.unparse(one)}")
    return sorted({found[name] for name in {*used, "overload"} if name in found and name not in FLOWS.values()})


def stub() -> str:
    """The text of the file."""
    used: set[str] = set()
    classes = []
    for name, (model, own) in SURFACES.items():
        lines = [f"class {name}:"]
        for method, nodes in sorted(definitions(model).items()):
            if method.startswith("_") or method in vars(own):
                continue  # what flows define themselves has its own types
            overloads = [node for node in nodes if is_marked(node, "overload")]
            for node in overloads or nodes[-1:]:
                lines += written(method, node, used)
        classes.append("\n".join(lines))
    # PySpark's own types are not strict.
    strict = '# mypy: disable-error-code="attr-defined,type-arg"'
    head = f'"""Types of `surface.py`, made by `scripts/surface.py`."""\n\n{strict}'
    known = imports([model for model, _ in SURFACES.values()], used)
    ours = ["from reshape.flows import CogroupedFlow, Flow, GroupedFlow", "ACTIONS: frozenset[str]"]
    ours.append("def rows_wanted(name: str, *args: Any, **kwargs: Any) -> int | None: ...")
    return "\n\n".join([head, "\n".join([*known, *ours]), *classes]) + "\n"


if __name__ == "__main__":
    STUB.write_text(stub())
    sys.stdout.write(f"{STUB}\n")
