"""What the docs name is there, what they show runs, what follows from the code is up to date, and the site builds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reshape

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "reshape"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
NAMED = re.compile(r"`([\w./-]+(?:\.py|\.md|/))`")
# Recipes stand for files that somebody will add.
STANDS_FOR = re.compile(r"NAME|FAMILY")
LINKED = re.compile(r"""(?:\]\(|<img src=")([^)"#:]+)""")
# Only what hangs takes as long as this; all pages with their examples take about a minute.
LIMIT_S = 900.0


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


def navigated(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for place in entry.values():
            yield from navigated(place) if isinstance(place, list) else [place]


def test_every_page_is_in_the_navigation_once() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert sorted(navigated(nav)) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    assert [name for name in LINKED.findall(page.read_text()) if not (page.parent / name).exists()] == []


def done_by(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """By this interpreter, with this checkout's sources."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    built = done_by("-m", "zensical", "build", "--strict", cwd=tmp_path)
    assert built.returncode == 0, built.stdout
    assert "Warning" not in built.stdout
    start = (tmp_path / "build" / "site" / "index.html").read_text()
    assert "page-two-1280.png" in start
    assert not re.findall(r'(?:src|href)="https?://(?!zensical)', start), "everything is served from here"


def test_what_follows_from_the_code_is_up_to_date() -> None:
    checked = done_by(ROOT / "scripts" / "reference.py", "--check", cwd=ROOT)
    assert checked.returncode == 0, checked.stdout


def test_every_public_name_has_an_example() -> None:
    shown = (ROOT / "docs" / "api.md").read_text()
    for name in reshape.__all__:
        section = shown.partition(f"\n### {name}\n")[2].partition("\n##")[0]
        assert "```pycon\n>>> " in section, f"the docstring of {name} has no example (>>> ...)"


@pytest.mark.jvm
def test_what_the_docs_show_runs(tmp_path: Path) -> None:
    """Python blocks of every page from top to bottom, and the examples of the API, in an empty folder."""
    done = done_by(ROOT / "tests" / "documented.py", ROOT / "docs", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-8000:]
