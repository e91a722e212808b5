"""`reshape inspect` as people start it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from reshape.cli.main import main
from reshape.cli.running import counting

from .terminal import Screen

LIMIT_S = 400.0


@pytest.mark.jvm
def test_a_hot_key_is_named_to_programs(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [7 if row % 2 else row for row in range(1000)]}), tmp_path / "t.parquet")
    (tmp_path / "q.sql").write_text("SELECT k, collect_list(k) AS all FROM t GROUP BY k")
    (tmp_path / "scratch").mkdir()
    ended = subprocess.run(
        [sys.executable, "-m", "reshape.cli.main", "inspect", "q.sql", "-t", "t=t.parquet", "--workers", "8", "--json"],
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_DIRS": str(tmp_path / "scratch")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    [finding] = json.loads(ended.stdout)["findings"]
    assert [key["values"] for key in finding["hot"]] == [[7]]
    assert "looking at keys, 1 of 1: group by k" in ended.stderr
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone.sql"], "there is no such file"),
        (["gone.sql", "--rows", "0"], "--rows"),
        (["gone.sql", "--workers", "none"], "--workers"),
    ],
)
def test_mistakes(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_a_bar_counts_the_operations_that_were_looked_at() -> None:
    said = io.StringIO()
    console = Console(file=said, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    with counting(console, "looking at keys") as on_operation:
        on_operation("group by shop", 0, 3)
        on_operation("join by [item]", 2, 3)
    screen = Screen()
    screen.feed(said.getvalue())
    drawn = "".join(said.getvalue().splitlines())
    assert "2/3" in drawn
    assert "looking at keys: join by [item]" in drawn
    assert not any(screen.lines)  # it goes when all is done
