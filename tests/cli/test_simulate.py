from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from reshape.cli.main import main
from reshape.cli.simulate import drawn


def test_json_is_one_object_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "ratio", "--strategy", "none", "--strategy", "reshape", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["experiment"] == "ratio"
    assert printed["engine"] == "simulator"
    assert list(printed["summary"]) == ["none", "reshape"]
    assert set(printed["summary"]["none"]["ttr"]) == {"CA:AZ", "CA:IL"}
    assert printed["params"]["seed"] == 0


def test_a_table_says_what_to_look_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "first-phase"]) == 0
    out = capsys.readouterr().out
    assert "reshape-paper/no-first-phase" in out
    assert "Look at" in out
    assert "The paper:" in out


def test_without_a_name_the_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate"]) == 0
    assert "multiple-helpers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nonsense"], "experiment = 'nonsense'"),
        (["ratio", "--strategy", "nonsense"], "strategy = 'nonsense'"),
        (["sort", "--strategy", "pkg"], "strategy = 'pkg'"),
        (["ratio", "--set", "workers=0"], "workers = 0"),
        (["ratio", "--set", "tau=-5"], "tau = -5"),
        (["ratio", "--set", "tau"], "--set = 'tau'"),
        (["control-latency", "--set", "delays=-1"], "delays = -1"),
        (["ratio", "--plot", "figure.pdf"], "--plot = 'figure.pdf'"),
        (["ratio", "--plot", "/no/such/place/figure.png"], "--plot"),
    ],
)
def test_nonsense_gets_a_clear_error(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *arguments]) == 2
    caught = capsys.readouterr()
    assert caught.err.startswith("reshape: error: ")
    assert named in caught.err
    assert not caught.out


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_figure_is_drawn(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / f"figure{suffix}"
    assert main(["simulate", "multiple-helpers", "--set", "helpers=1,2", "--plot", str(file)]) == 0
    assert file.stat().st_size > 1000


def test_a_missing_matplotlib_is_said_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reshape.sim.plot.find_spec", lambda name: None)
    assert main(["simulate", "ratio", "--plot", "figure.png"]) == 2
    assert "reshape[plot]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (40, [["case", "skewed workers", "ttr"], ["none", "12", "0.901"]]),
        (20, [["skewed"], ["case", "workers", "ttr"], ["none", "12", "0.901"]]),
        (12, [["none: skewed"], ["workers 12,"], ["ttr 0.901"]]),
    ],
)
def test_no_number_is_cut_however_narrow_the_terminal(width: int, lines: list[list[str]]) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(drawn(["skewed workers", "ttr"], {"none": ["12", "0.901"]}, width))
    shown = str(console.file.getvalue()).splitlines()  # type: ignore[attr-defined]
    assert [re.split(r"  +", line.strip()) for line in shown] == lines
