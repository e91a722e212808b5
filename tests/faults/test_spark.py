"""Processes, executors, shuffle files and slots that go away in the middle of flows on a small cluster, and flows that
are cancelled anywhere: the exact result, or the error that names what happened, and nothing is left.

``RESHAPE_SPARK_FAULT_RUNS=200`` makes it a long form: the same runs and more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..endings.conftest import Watched
from ..endings.remains import host_processes, until

pytestmark = pytest.mark.jvm

DRIVER = Path(__file__).with_name("spark_driver.py")
# Two executors of three slots each: two for hosts, four for the eight partitions of the source.
MASTER = "local-cluster[2,3,512]"
RUNS = int(os.environ.get("RESHAPE_SPARK_FAULT_RUNS", "32"))
# What goes wrong, and when: as soon as the flow was started, while sources have sent their first rows, while hosts have
# the first ones.
WHAT = [
    ("host", "working"),
    ("source", "reading"),
    ("executor", "reading"),
    ("cancel", "at once"),
    ("shuffle", "reading"),
    ("slots", "at once"),
    ("executor", "working"),
    ("cancel", "working"),
    ("source", "reading"),
    ("cancel", "reading"),
    ("decommission", "reading"),
    ("decommission", "working"),
]


@dataclass(frozen=True, slots=True)
class SparkCase:
    seed: int

    @property
    def what(self) -> tuple[str, str]:
        return WHAT[self.seed % len(WHAT)]

    def __str__(self) -> str:
        return f"{self.seed}, {' '.join(self.what)}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    driver = Watched(MASTER, tmp_path_factory.mktemp("faults"), DRIVER)
    run(driver, -1, "nothing", "at once", tmp_path_factory.mktemp("warm"))  # executors and their Python are there then
    yield driver
    driver.end()


def run(cluster: Watched, seed: int, kind: str, moment: str, directory: Path) -> dict[str, Any]:
    places = {"directory": str(directory / "run"), "local_dir": str(cluster.local_dir)}
    cluster.say({"seed": seed, "kind": kind, "moment": moment, **places})
    while (answer := cluster.answer())["seed"] != seed:
        pass  # of a run that took longer than anybody waited for
    return answer


@pytest.mark.parametrize("case", [SparkCase(seed) for seed in range(RUNS)], ids=str)
def test_a_fault(case: SparkCase, cluster: Watched, tmp_path: Path) -> None:
    kind, moment = case.what
    answer = run(cluster, case.seed, kind, moment, tmp_path)
    print(f"\n{case}: {answer}")
    wanted = "FlowCancelled" if kind == "cancel" else "exact"
    assert answer["outcome"] == wanted, answer
    assert answer["left"] == {"threads": [], "jobs": [], "rows": 20}
    until("hosts to stop listening", lambda: not host_processes(cluster.mark))
    until("spilled rows to go", lambda: not cluster.spilled())
