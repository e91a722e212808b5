"""A Python for executors that has everything but this package, and a standalone cluster of two workers."""

from __future__ import annotations

import os
import re
import signal
import site
import subprocess
import time
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from reshape.machine.java import ensure_java

from .machines import Machine

# Only what hangs takes as long; a worker registers within some seconds.
LIMIT_S = 120.0
LEFT_OUT = "flows on several machines were not tried"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    places = [report.longrepr for report in terminalreporter.stats.get("skipped", [])]  # file, line and reason
    texts = [str(place[-1]) for place in places if isinstance(place, tuple)]
    for why in sorted({text.partition(f"{LEFT_OUT}: ")[2] for text in texts if LEFT_OUT in text}):
        terminalreporter.write_line(f"{LEFT_OUT}: {why}")


@pytest.fixture(scope="session")
def executor_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter whose packages are links to ours, reshape left out."""
    directory = tmp_path_factory.mktemp("executors")
    venv.create(directory, symlinks=True, with_pip=False)
    python = directory / "bin" / "python"
    (packages,) = directory.glob("lib/python*/site-packages")
    ours = next(Path(path) for path in site.getsitepackages() if (Path(path) / "pyspark").is_dir())
    for entry in ours.iterdir():
        if "reshape" not in entry.name and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    check = "import pyspark, pyarrow, importlib.util as u; assert u.find_spec('reshape') is None"
    subprocess.run([python, "-c", check], check=True, env=environment, cwd="/")
    return python


class Daemon:
    """A process of the cluster; ready when its log says so."""

    def __init__(
        self,
        arguments: list[str],
        ready: str,
        directory: Path,
        name: str,
        machine: Machine | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """On this machine, at loopback, unless another one is given. ``environment``: more of it."""
        ensure_java()
        import pyspark

        self._log = directory / f"{name}.log"
        variables = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYTHON"))},
            **environment,
            "SPARK_LOCAL_IP": "127.0.0.1" if machine is None else machine.address,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *arguments]
        if machine is not None:
            command = machine.within(command)
        self._process = subprocess.Popen(
            command, stdout=self._log.open("w"), stderr=subprocess.STDOUT, env=variables, start_new_session=True
        )
        self._ready = ready

    def wait(self) -> str:
        """What its log says when it is ready."""
        deadline = time.monotonic() + LIMIT_S
        while (match := re.search(self._ready, log := self._log.read_text())) is None:
            assert self._process.poll() is None, log
            assert time.monotonic() < deadline, f"no {self._ready!r} within {LIMIT_S:.0f} s in:\n{log}"
            time.sleep(0.05)
        return match.group(0)

    def end(self) -> None:
        """A worker takes its executors with it."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master with two workers of two cores each."""
    directory = tmp_path_factory.mktemp("standalone")
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    daemons = [Daemon(master, r"spark://127\.0\.0\.1:\d+", directory, "master")]
    try:
        address = daemons[0].wait()
        for number in range(2):
            worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", "0"]
            worker += ["--webui-port", "0", "--cores", "2", "--memory", "1g"]
            worker += ["--work-dir", str(directory / f"work-{number}"), address]
            daemons.append(Daemon(worker, "Successfully registered with master", directory, f"worker-{number}"))
        for worker_daemon in daemons[1:]:
            worker_daemon.wait()
        yield address
    finally:
        for daemon in reversed(daemons):
            daemon.end()
