import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

import reshape
from reshape.cli import main as entry
from reshape.errors import ReshapeError


def with_command(monkeypatch: pytest.MonkeyPatch, run: Callable[[argparse.Namespace], int]) -> None:
    def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
        subparsers.add_parser("try").set_defaults(run=run)

    monkeypatch.setattr(entry, "COMMANDS", (SimpleNamespace(add_parser=add_parser),))


def raising(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def run(_: argparse.Namespace) -> int:
        raise error

    return run


def test_exit_code_is_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    with_command(monkeypatch, lambda _: 7)
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
    with pytest.raises(SystemExit) as caught:
        entry.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"reshape {reshape.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["nonsense"]])
def test_missing_or_unknown_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        entry.main(arguments)
    assert caught.value.code == 2
    assert "reshape: error:" in capsys.readouterr().err


def test_building_the_parser_imports_nothing_heavy() -> None:
    code = (
        "import sys; from reshape.cli.main import build_parser; build_parser();"
        "print({'pyspark', 'pandas', 'pyarrow', 'numpy', 'rich'} & set(sys.modules) or '')"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == ""
