"""The same flows on clusters whose executors have no reshape installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .flows import KINDS

pytestmark = pytest.mark.jvm

SCRIPT = Path(__file__).with_name("flows.py")
# Only what hangs takes as long.
LIMIT_S = 400.0


def results(master: str, python: Path, directory: Path) -> dict[str, Any]:
    # In a process of its own: this one may have a session already, and there can be one only.
    command = [sys.executable, str(SCRIPT), master, str(python)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # executors inherit it
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, cwd=directory, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def assert_all_equal(found: dict[str, Any], python: Path) -> None:
    assert found["before"] == [[False, str(python)]], "executors must not have reshape by themselves"
    assert found["after"] == [[True, str(python)]], "it was shipped to them"
    names = [*(f"{how} join" for how in KINDS), "group-by", "chain", "sort"]
    assert {name: found[name] for name in names} == dict.fromkeys(names, True)


def test_local_cluster(executor_python: Path, tmp_path: Path) -> None:
    assert_all_equal(results("local-cluster[2,2,512]", executor_python, tmp_path), executor_python)


def test_standalone_cluster(standalone: str, executor_python: Path, tmp_path: Path) -> None:
    assert_all_equal(results(standalone, executor_python, tmp_path), executor_python)
