"""A standalone master that nobody can reach is told before Spark starts."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reshape.machine.masters import MasterUnreachable, reach_master

# Only what hangs takes as long, on a machine that is busy with other things too.
LIMIT_S = 120.0


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def refusing() -> Iterator[str]:
    """A port that nobody else gets, and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_one_master_of_several_is_enough(listening: str, refusing: str) -> None:
    reach_master(f"spark://{listening}")
    reach_master(f"spark://{refusing},{listening}")


def test_all_that_was_tried_is_told(refusing: str) -> None:
    with pytest.raises(MasterUnreachable) as told:
        reach_master(f"spark://{refusing},master.invalid:7077")
    text = str(told.value)
    assert text.startswith(f"no Spark master listens at spark://{refusing},master.invalid:7077 ({refusing}: ")
    assert "Connection refused" in text
    assert "; master.invalid:7077: " in text


@pytest.mark.parametrize(
    "master",
    ["local[4]", "yarn", "k8s://https://nobody.invalid:443", "spark://", "spark://nobody.invalid", "spark://:a"],
)
def test_what_only_spark_can_tell_is_left_to_it(master: str) -> None:
    reach_master(master)


def test_a_command_tells_it_in_a_line(refusing: str, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1")
    command = [sys.executable, "-m", "reshape.cli.main", "run", "q.sql", "--master", f"spark://{refusing}"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 2
    assert f"reshape: error: no Spark master listens at spark://{refusing}" in ended.stderr.replace("\n", " ")
    assert "Traceback" not in ended.stderr
