"""The wheel holds all of the package, and says what it needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "reshape"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from a copy, without a network: setuptools is in the environment."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(PACKAGE, tree / "src" / "reshape", ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(tree / "dist")]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, str(tree)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [made] = (tree / "dist").glob("reshape-*.whl")
    return zipfile.ZipFile(made)


def test_every_file_of_the_package_is_in_it(wheel: zipfile.ZipFile) -> None:
    """Static files of the page and py.typed among them; no tests, no docs."""
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == {str(path.relative_to(PACKAGE.parent)) for path in files}
    assert {"reshape/py.typed", "reshape/page/static/index.html"} <= packed


def test_it_brings_the_command_and_names_its_extras(wheel: zipfile.ZipFile) -> None:
    about = {Path(name).name: wheel.read(name).decode() for name in wheel.namelist() if ".dist-info/" in name}
    assert "reshape = reshape.cli.main:main" in about["entry_points.txt"]
    extras = [line.split()[1] for line in about["METADATA"].splitlines() if line.startswith("Provides-Extra")]
    assert {"java", "page", "plot", "tls"} <= set(extras)
