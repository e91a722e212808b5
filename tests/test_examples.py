"""The examples run as a reader would run them, and say what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
# Only what hangs takes as long as this; the longest of them, Spark's start included, takes some ten seconds.
LIMIT_S = 240.0


def lines_of(name: str, directory: Path) -> list[str]:
    """What an example prints; Spark leaves its warehouse where it runs."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        cwd=directory,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def test_every_example_is_run_and_short() -> None:
    source = Path(__file__).read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f'"{path.name}"' in source
        assert len(path.read_text().splitlines()) < 80


@pytest.mark.jvm
def test_skewed_join(tmp_path: Path) -> None:
    lines = lines_of("skewed_join.py", tmp_path)
    [result] = [line for line in lines if line.startswith("result")]
    counts = [int(word.rstrip(",").replace(",", "")) for word in result.split() if word[0].isdigit()]
    assert len(counts) == 4
    assert sum(counts) == 400_000
    assert max(counts) == counts[3]  # the hot shop is in the west
    assert "what was done about the skew:" in lines


@pytest.mark.jvm
def test_own_aggregate(tmp_path: Path) -> None:
    want = [f"shop {shop}: most reviews have {shop + 2} words" for shop in range(5)]
    assert lines_of("own_aggregate.py", tmp_path) == want


def test_own_strategy(tmp_path: Path) -> None:
    story, result = lines_of("own_strategy.py", tmp_path)
    assert "takes half of worker" in story
    assert result == "key 7 has 5,386 of 8,000 rows; 50 keys, each counted once"
