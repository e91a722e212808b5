import os
import sys
import time
from pathlib import Path

import pytest

from reshape.machine.spark_trial import SparkTrialFailed, try_spark


@pytest.fixture(autouse=True)
def local_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "local"
    directory.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(directory))
    return directory


def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a shell script in the place of the Python that runs the job."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def test_failure_says_what_was_printed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter(tmp_path, monkeypatch, "echo early >&2; echo the JVM is gone >&2; exit 3")
    with pytest.raises(SparkTrialFailed, match="the JVM is gone"):
        try_spark()


def test_noise_before_the_answer_is_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = '{"spark": "4.3.0", "java": "21", "processors": 2, "heap_bytes": 1, "seconds": 0.5}'
    interpreter(tmp_path, monkeypatch, f"echo noise; echo '{answer}'")
    assert try_spark().spark == "4.3.0"


def test_time_limit_ends_the_job_and_its_children(
    tmp_path: Path, local_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter(tmp_path, monkeypatch, f"touch here; sleep 60 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(SparkTrialFailed, match="did not end within 3 s"):
        try_spark(limit_seconds=3)
    assert list(local_directory.iterdir()) == []
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 60
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not runs(child)


def runs(process: int) -> bool:
    """A process that has ended but that nobody has waited for yet does not count."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_unusable_local_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "gone"))
    with pytest.raises(SparkTrialFailed, match="could not be started"):
        try_spark()
