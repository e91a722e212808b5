"""Files and folders of the package that the docs name are there, and the README's example is Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "reshape"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
NAMED = re.compile(r"`([\w./-]+(?:\.py|\.md|/))`")
# Recipes stand for files that somebody will add.
STANDS_FOR = re.compile(r"NAME|FAMILY")


def is_there(name: str) -> bool:
    """By its path from the checkout, the package or the tests; a bare name in a list of one room's files by that."""
    if any((base / name).exists() for base in (ROOT, PACKAGE, ROOT / "tests")):
        return True
    return any(next(base.rglob(name), None) is not None for base in (PACKAGE, ROOT / "benchmarks"))


def missing(text: str) -> list[str]:
    # Paths that begin with tests/ are for people who run them.
    names = {name for name in NAMED.findall(text) if not name.startswith("tests/") and not STANDS_FOR.search(name)}
    return sorted(name for name in names if not is_there(name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    assert missing(page.read_text()) == []


def test_what_is_gone_is_noticed() -> None:
    assert missing("`driver/launch.py`, `launch.py` and `runtime/`, `driver/gone.py`") == ["driver/gone.py", "runtime/"]


def test_the_readme_shows_python() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, "README.md", "exec")
