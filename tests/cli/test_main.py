import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

import reshape
from reshape.cli import main as entry
from reshape.errors import ReshapeError


def with_command(monkeypatch: pytest.MonkeyPatch, run: Callable[[], int]) -> None:
    def add(app: typer.Typer) -> None:
        app.command("try")(run)
        app.command("other")(lambda: 0)  # one command alone would need no name

    monkeypatch.setattr(entry, "COMMANDS", (SimpleNamespace(add=add),))


def raising(error: BaseException) -> Callable[[], int]:
    def run() -> int:
        raise error

    return run


def test_exit_code_is_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    with_command(monkeypatch, lambda: 7)
    assert entry.main(["try"]) == 7


def test_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with_command(monkeypatch, raising(ReshapeError("no such thing")))
    assert entry.main(["try"]) == 2
    assert capsys.readouterr().err == "reshape: error: no such thing\n"


def test_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with_command(monkeypatch, raising(KeyboardInterrupt()))
    assert entry.main(["try"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        answer = subprocess.run(
            [sys.executable, "-m", "reshape.cli.main", "doctor", "--no-spark", "--json"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (answer.returncode, answer.stderr) == (141, "")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--version"]) == 0
    assert capsys.readouterr().out == f"reshape {reshape.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["doctor", "--nonsense"], ["simulate", "--seed", "x"], ["run"]]
)
def test_what_makes_no_sense(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("reshape: error:")
    assert "Try: reshape" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("command", ["run", "inspect", "replay", "demo", "simulate", "doctor"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main([command, "--help"]) == 0
    assert f"reshape {command}" in capsys.readouterr().out


def test_a_shell_completes_commands_and_names() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "reshape.cli.main"],
        env={
            **os.environ,
            "_RESHAPE_COMPLETE": "complete_bash",
            "COMP_WORDS": "reshape simulate he",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stdout.split() == ["heavy-hitter"]


@pytest.mark.parametrize("command", [["demo"], ["run", "a.sql"]])
def test_a_page_that_cannot_be_is_told_before_spark_starts(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1")
    code = (
        "import sys; sys.modules['uvicorn'] = None; from reshape.cli.main import main;"
        f"code = main([*{command}, '--open']); sys.exit(99 if 'pyspark' in sys.modules else code)"
    )
    answer = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("reshape: error: the live page needs packages that are not there (uvicorn)")


def test_building_the_commands_imports_nothing_heavy() -> None:
    code = (
        "import sys; from reshape.cli.main import build_app; build_app();"
        "print({'pyspark', 'pandas', 'pyarrow', 'numpy', 'rich'} & set(sys.modules) or '')"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == ""
