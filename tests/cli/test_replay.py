from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from reshape.cli import main as entry

FLOW = {"event": "flow", "seconds": 0.0, "name": "told", "attempt": 1, "hosts": 1, "operators": []}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "told-1.jsonl"
    path.write_text(json.dumps(FLOW) + "\n")
    return path


@pytest.fixture
def replay(log: Path) -> Iterator[subprocess.Popen[str]]:
    """In a process of its own, whose imports would fail if they needed Spark. Ctrl-C is heard also where the tests run
    in the background."""
    script = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.modules['pyspark'] = None\n"
        "from reshape.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "replay", str(log), "--port", "0", "--speed", "5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate(timeout=60)


def test_the_page_is_served_until_ctrl_c(replay: subprocess.Popen[str]) -> None:
    assert replay.stdout is not None
    assert "Ctrl-C" in replay.stdout.readline()
    url = replay.stdout.readline().strip()
    with httpx.Client() as client:
        assert client.get(url.split("?")[0]).status_code == 403
        assert "<title>reshape</title>" in client.get(url).text
        with client.stream("GET", f"{url.split('?')[0]}events?runs=1") as events:
            assert any('"name":"told"' in line for line in events.iter_lines() if line.startswith("data"))
    os.kill(replay.pid, signal.SIGINT)
    _, errors = replay.communicate(timeout=60)
    assert (replay.returncode, errors) == (130, "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gone.jsonl"], "gone.jsonl cannot be read: No such file or directory"),
        (["."], "there is no event log (*.jsonl) in ."),
        (["empty.jsonl"], "does not say which flow"),
    ],
)
def test_what_cannot_be_replayed_is_one_line(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if arguments == ["empty.jsonl"]:
        Path("empty.jsonl").touch()
    assert entry.main(["replay", *arguments]) == 2
    printed = capsys.readouterr().err
    assert says in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize("option", [["--speed", "0"], ["--speed", "fast"], ["--port", "99999"], ["--port", "x"]])
def test_options_that_make_no_sense_are_refused(
    option: list[str], log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(["replay", str(log), *option]) == 2
    printed = capsys.readouterr().err
    assert option[0] in printed
    assert printed.count("\n") == 1
