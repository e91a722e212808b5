"""Benchmarks that run quickly, and leave their figures with the runs behind them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def quick(name: str, tmp_path: Path) -> dict[str, Any]:
    out = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", "--quick", "--json", out],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    figures: dict[str, Any] = json.loads(out.read_text())
    assert figures["benchmark"] == name
    assert figures["quick"] is True
    return figures


def verdicts(part: dict[str, Any]) -> list[str]:
    return [each["figure"] for each in part["verdicts"]]


@pytest.mark.jvm
def test_holistic(tmp_path: Path) -> None:
    figures = quick("holistic", tmp_path)
    for part in ("median per key", "sort"):
        assert len(figures[part]["verdicts"]) == 1
        assert all(len(runs) == 1 and runs[0] > 0 for runs in figures[part]["total_s"].values())
        rows = figures[part]["rows"]
        assert sum(rows["none"]) == sum(rows["reshape"]) == 2_000
        # The heaviest worker gives away a good part of its rows, whatever the machine is busy with.
        assert max(rows["reshape"]) < max(rows["none"])


@pytest.mark.jvm
def test_windows(tmp_path: Path) -> None:
    figures = quick("windows", tmp_path)
    emulated, finishing, real = figures["emulated"], figures["finishing"], figures["real"]
    assert [len(part["verdicts"]) for part in (emulated, finishing, real)] == [2, 1, 2]
    rows = emulated["rows"]
    assert all(sum(of_way) == 2_000 for of_way in rows.values())
    # The heaviest worker gives away a good part of its rows, or never had them, whatever the machine is busy with.
    alone = max(rows["an owner, none"])
    assert all(max(rows[way]) < alone for way in ("an owner, reshape", "shared, reshape"))
    assert all(seconds > 0 for runs in finishing["cpu_s"].values() for seconds in runs)
    for of_case in real["seconds"].values():
        assert all(seconds > 0 for runs in of_case.values() for seconds in runs)


def test_crowd(tmp_path: Path) -> None:
    figures = quick("crowd", tmp_path)
    for of_size in figures["results"]:
        assert all(of_size[part]["cpu_s_per_s"] > 0 for part in ("handling", "calls"))
        assert of_size["calls"]["reports_per_s"] > 0


@pytest.mark.jvm
def test_queries(tmp_path: Path) -> None:
    figures = quick("queries", tmp_path)
    for kind in ("uniform", "skewed"):
        assert all(each["ways"]["reshape"]["seconds"][0] > 0 for each in figures["results"][kind].values())
        assert figures["totals"][kind]["flow_over_spark"] > 0


def test_transport(tmp_path: Path) -> None:
    figures = quick("transport", tmp_path)
    assert all(run["gb_per_s"] > 0 for runs in figures["streams"].values() for run in runs)
    assert all(run["ms"] > 0 for runs in figures["calls"].values() for run in runs)
