"""Flows on several machines, each with an address and files of its own: the driver and Spark's master on one, executors
without the package on two others. Copies of slow source tasks, which Spark puts on another machine only, and links that
go down: the exact result, and nothing is left."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..endings.conftest import Watched
from ..endings.remains import MARK, host_processes, until
from .conftest import LEFT_OUT, Daemon
from .machines import Machine, Network, impossible

pytestmark = pytest.mark.jvm

DRIVER = Path(__file__).with_name("machines_driver.py")


@dataclass(frozen=True, slots=True)
class Cluster:
    """``shared``: a folder that is the same on all machines."""

    network: Network
    driver: Watched
    shared: Path

    def run(self, name: str, source: str = "none", host: str = "none") -> Path:
        """Begin something; where it stops."""
        place = self.shared / name
        place.mkdir()
        self.driver.say({"what": name, "place": str(place), "source": source, "host": host})
        return place

    def answer(self) -> dict[str, Any]:
        answer = self.driver.answer()
        assert answer.pop("left") == {"threads": [], "jobs": []}, answer
        until("hosts to stop listening", lambda: not host_processes(self.driver.mark))
        return answer


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, executor_python: Path) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("machines")
    if (why := impossible(directory)) is not None:
        pytest.skip(f"{LEFT_OUT}: {why}")
    for name in ("private", "shared", "driver"):
        (directory / name).mkdir()
    mark = {MARK: uuid.uuid4().hex}
    daemons: list[Daemon] = []
    with Network(2, directory / "private") as network:
        hub = network.hub

        def daemon(kind: str, arguments: list[str], ready: str, machine: Machine) -> Daemon:
            listening = ["--host", machine.address, "--port", "0", "--webui-port", "0"]
            command = [f"org.apache.spark.deploy.{kind.lower()}.{kind}", *listening, *arguments]
            daemons.append(Daemon(command, ready, directory, f"{kind}-{machine.name}", machine, mark))
            return daemons[-1]

        try:
            master = daemon("Master", [], r"spark://[0-9.]+:\d+", hub).wait()
            room = ["--cores", "3", "--memory", "1g", "--work-dir", str(directory / "private" / "work"), master]
            for machine in network.machines:
                daemon("Worker", room, "Successfully registered with master", machine)
            environment = {
                **mark,
                "SPARK_LOCAL_IP": hub.address,
                "PYSPARK_PYTHON": str(executor_python),
                "PYSPARK_DRIVER_PYTHON": sys.executable,
                "TMPDIR": str(directory / "private"),
            }
            driver = Watched(master, directory / "driver", DRIVER, within=hub.within, environment=environment)
            try:
                yield Cluster(network, driver, directory / "shared")
            finally:
                driver.end()
        finally:
            for each in reversed(daemons):
                each.end()


def test_flows(cluster: Cluster) -> None:
    cluster.run("flows")
    names = ("join", "join of files", "sort", "window", "toArrow", "start")
    assert cluster.answer() == dict.fromkeys(names, True)


def test_a_copy_of_a_slow_source_task_sends_nothing(cluster: Cluster) -> None:
    """The slow one goes on as soon as its copy on the other machine was told to wait."""
    cluster.run("speculation", source="first")
    answer = cluster.answer()
    assert answer["exact"], answer
    assert 0 in answer["copies"]
    assert not [line for line in answer["story"] if "was lost" in line]


def test_a_link_that_is_down_for_a_moment(cluster: Cluster) -> None:
    """Less than anybody would take for a loss: what was sent meanwhile is sent again by TCP."""
    place = cluster.run("a moment", host="all")
    until("both hosts", lambda: len(hosts_there(place)) == 2)
    cluster.network.cut(cluster.network.machines[0])
    (place / "gate").touch()
    time.sleep(2.0)  # this is the fault, not a wait for something
    cluster.network.mend(cluster.network.machines[0])
    answer = cluster.answer()
    assert answer["exact"], answer


def test_a_machine_that_is_gone_for_good(cluster: Cluster) -> None:
    """Hosts there end by themselves, with nobody to tell them; the flow begins anew on the other one. The last test:
    Spark's own master takes a minute to see the machine again."""
    place = cluster.run("gone", source="all")
    until("both machines", lambda: len(hosts_there(place)) == 2)
    cluster.network.cut(cluster.network.machines[0])
    (place / "gate").touch()
    answer = cluster.answer()
    assert answer["exact"], answer
    assert [line for line in answer["story"] if "attempt 1 was lost" in line]


def hosts_there(place: Path) -> set[str]:
    """Machines from which something has come."""
    return {path.name.partition("machine-")[2] for path in place.glob("*machine-*")}
