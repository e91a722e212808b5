"""Drivers in processes of their own, watched from here."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from .remains import LIMIT_S, MARK, files, host_processes, processes, spilled, until

DRIVER = Path(__file__).with_name("driver.py")


class Watched:
    """A driver process and everything that it has started."""

    def __init__(
        self,
        master: str,
        directory: Path,
        script: Path = DRIVER,
        *,
        within: Callable[[list[str]], list[str]] = list,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``within`` makes a command one that runs on another machine; ``environment`` is more of it."""
        self.mark = environment.get(MARK) or uuid.uuid4().hex
        self.local_dir = directory / "local"
        self.local_dir.mkdir()
        self._directory = directory
        self._gates = 0
        self._unanswered = 1
        self.gate = directory / "gate"
        variables = {**os.environ, MARK: self.mark, "SPARK_WORKER_DIR": str(directory), **environment}
        variables.pop("SPARK_LOCAL_DIRS", None)
        self._log = (directory / "driver.log").open("w")
        self.process = subprocess.Popen(
            within([sys.executable, str(script), master, str(self.local_dir)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=variables,
            cwd=directory,
            start_new_session=True,
        )
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.answer() == {"outcome": "ready"}

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.put(line)

    def start(self, how: str, fault: str | None = None, *, scan: bool = False, read: str = "") -> None:
        """Begin a flow with a closed gate; with a ``scan``, of files that hosts read."""
        self._gates += 1
        self.gate = self._directory / f"gate-{self._gates}"
        command = {"how": how, "fault": fault, "gate": str(self.gate), "read": "scan" if scan else read}
        command["local_dir"] = str(self.local_dir)
        self.say(command)

    def say(self, command: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self._unanswered += 1
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def until_in_the_middle(self) -> list[int]:
        """Wait until rows lie on disk; the processes of the hosts."""
        until("rows on disk", self.spilled)
        return until("two hosts", lambda: hosts if len(hosts := host_processes(self.mark)) == 2 else [])

    def answer(self) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads(self._said.get(timeout=2 * LIMIT_S))
        except queue.Empty:
            raise AssertionError(f"the driver says nothing; its log:\n{self.log()}") from None
        self._unanswered -= 1
        return answer

    @property
    def serves(self) -> bool:
        """Can another test have it? Not if it has ended, nor with an answer that a failed test has not taken."""
        return self.process.poll() is None and not self._unanswered

    def log(self) -> str:
        return (self._directory / "driver.log").read_text()[-4000:]

    def spilled(self) -> list[Path]:
        return spilled([self._directory])

    def shuffled(self) -> list[Path]:
        """Files of shuffles."""
        return [file for file in files(self._directory) if file.match("shuffle_*.data")]

    def processes(self) -> dict[int, str]:
        return processes(self.mark)

    def find(self, sign: str) -> list[int]:
        return [pid for pid, command in self.processes().items() if sign in command]

    def executors(self) -> list[int]:
        """Both executors of a cluster, or none while one of them is not there."""
        found = self.find("CoarseGrainedExecutorBackend")
        return found if len(found) == 2 else []

    def end(self) -> None:
        """For the end of a test: whatever still is there ends, by its id."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        for stream in (self.process.stdin, self.process.stdout, self._log):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Watched]]:
    """Starts drivers; one per master serves tests of a module until it has ended, or a test has failed with it."""
    drivers: dict[str, Watched] = {}

    def get(master: str) -> Watched:
        known = drivers.get(master)
        if known is None or not known.serves:
            if known is not None:
                known.end()
            drivers[master] = Watched(master, tmp_path_factory.mktemp("driver"))
        return drivers[master]

    yield get
    for driver in drivers.values():
        driver.end()
