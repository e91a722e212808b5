from __future__ import annotations

import io

import pytest
from rich.console import Console

from reshape.cli import demo
from reshape.cli.demo_run import Demo
from reshape.cli.main import EXIT_INTERRUPTED, main


@pytest.fixture(scope="module")
def runs() -> Demo:
    return Demo()


def test_the_chart_is_right_early_with_reshape_only(runs: Demo) -> None:
    plain, ours = runs.runs
    assert plain.representative_s > 0.85 * plain.total_s
    assert ours.representative_s < 0.1 * plain.total_s
    assert ours.total_s < plain.total_s
    assert ours.shown(ours.total_s) == plain.shown(plain.total_s) == runs.final


def test_a_frame_fits_into_80_columns(runs: Demo) -> None:
    for at_s in (0.0, 5.0, runs.length_s):
        out = io.StringIO()
        Console(file=out, width=80).print(demo.frame(runs, at_s, width=80))
        lines = out.getvalue().splitlines()
        assert max(map(len, lines)) <= 80
        assert len(lines) == 15  # a header, twelve months, the ratios, the clock: nothing wrapped


def test_output_that_cannot_move_gets_snapshots_and_a_conclusion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--fast"]) == 0
    out = capsys.readouterr().out
    assert out.count("virtual time") == len(demo.SNAPSHOTS)
    assert "The story of J6's worker" in out
    assert "worker 0 is skewed" in out


def test_an_interrupt_ends_it_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_arguments: object, **_named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "frame", interrupt)
    assert main(["demo", "--fast"]) == EXIT_INTERRUPTED
    assert not capsys.readouterr().err
