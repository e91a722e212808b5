"""A host in a process of its own, fed from the test's process over the real exchange; its memory can be measured."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

import reshape
from reshape.driver.attempts import Attempts, unique_name
from reshape.driver.cluster import TaskFate
from reshape.driver.execution import Execution
from reshape.driver.service import DriverService
from reshape.exchange.transport.access import Access
from reshape.host.host import Host, HostSettings
from reshape.operators.relay import RelaySpec
from reshape.plan.physical import PhysicalOperator, PhysicalPlan, Port
from reshape.protocol.link import FlowAddress
from reshape.sender.source import SourceTask

SCHEMA = pa.schema([("k", pa.int64()), ("filling", pa.binary())])
LIMIT_S = 120.0
# The very package that the tests run with, be it installed or not.
PACKAGES = str(Path(reshape.__file__).parents[1])

Partition = Callable[[], Iterator[pa.RecordBatch]]


def relay(gate: Path | None = None) -> PhysicalPlan:
    """Four workers of one operator on one host; with a gate they take the first rows and wait for it to be there."""
    port = Port(SCHEMA, keys=(0,), sources=(0,))
    functions = () if gate is None else (held_by(gate),)
    operator = PhysicalOperator(
        0, "repartition (operator 0)", RelaySpec(SCHEMA, (0,)), (port,), SCHEMA, functions=functions
    )
    return PhysicalPlan("memory", (operator,), hosts=1, workers=4)


def held_by(gate: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deadline = time.monotonic() + LIMIT_S
        while not gate.exists():
            assert time.monotonic() < deadline, f"{gate} was not there within {LIMIT_S:.0f} s"
            time.sleep(0.02)
        yield from batches

    return wait


class _FedCluster:
    """Source tasks as threads, each with its own partition; the host is a process that a test has started."""

    def __init__(self, plan: PhysicalPlan, partitions: list[Partition], at: Callable[[], FlowAddress]) -> None:
        self._plan = plan
        self._partitions = partitions
        self._at = at

    def run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        edge = self._plan.edge(0, 0)

        def run_task(number: int) -> int:
            task = SourceTask(edge, self._at(), attempt, locations, f"source-{source}-{number}")
            return task.run(self._partitions[number]())

        with ThreadPoolExecutor(len(self._partitions)) as pool:
            return sum(pool.map(run_task, range(len(self._partitions))))

    def cancel_sources(self, attempt: int) -> None:
        """They end with their streams."""

    def cancel_hosts(self, stage: int, reason: str) -> None:
        """It hears of it from the driver."""

    def kept_rows(self, stage: int) -> str | None:
        return None

    def task_count(self, stage: int) -> int | None:
        return None

    def unsuccessful(self, stage: int) -> list[TaskFate]:
        return []


class FedFlow(Attempts):
    """Its source is a list of partitions, each read by a thread."""

    def __init__(self, plan: PhysicalPlan, partitions: list[Partition]) -> None:
        super().__init__(unique_name(plan.name), plan, _FedCluster(plan, partitions, self._address))
        self.started = threading.Event()
        self.execution: Execution | None = None
        self.location = ""
        self.locations: tuple[str, ...] = ()

    def _execution(self, attempt: int, stage: int, locations: tuple[str, ...]) -> Execution:
        self.locations = locations
        self.execution = super()._execution(attempt, stage, locations)
        self.started.set()
        return self.execution

    def _address(self) -> FlowAddress:
        return FlowAddress(self.name, self.location, self.access)

    def run(
        self, gate: Path, directory: Path, watch: Callable[[], None] = lambda: None, **settings: Any
    ) -> dict[str, Any]:
        """Run to the end; what the host says then. ``watch`` is called before its workers go on."""
        service = DriverService("127.0.0.1")
        self.location = service.register(self.name, self)
        command = [
            *(sys.executable, __file__, self.name, self.location, self.access.secret, str(gate)),
            json.dumps(settings),
        ]
        environment = {"SPARK_LOCAL_DIRS": str(directory), "PATH": "/usr/bin:/bin", "PYTHONPATH": PACKAGES}
        host = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            deadline = time.monotonic() + LIMIT_S
            while not self.started.wait(0.1):
                assert host.poll() is None, "the host has ended"
                assert time.monotonic() < deadline, f"the host did not come within {LIMIT_S:.0f} s"
            watch()
            gate.touch()
            out, _ = host.communicate(timeout=LIMIT_S)
            self.join(LIMIT_S)
        finally:
            host.kill()
            host.wait()
            service.unregister(self.name)
        said: dict[str, Any] = json.loads(out)
        return said


def resident(name: str) -> int:
    """Bytes: VmRSS is what this process has in memory, VmHWM the most that it ever had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(name)))


def main() -> None:
    name, location, secret, gate, settings = sys.argv[1:]
    options = json.loads(settings)
    file_limit = options.pop("file_limit", None)
    if file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    flow = FlowAddress(name, location, Access(secret))
    host = Host(relay(Path(gate)), 0, flow, HostSettings(**options), "127.0.0.1")
    rows, error, before = 0, "", resident("VmRSS")
    try:
        for batch in host.results():
            rows += batch.num_rows
    except Exception as failure:
        error = str(failure)
    grown = resident("VmHWM") - before
    print(json.dumps({"rows": rows, "grown": grown, "error": error, "pool": pa.default_memory_pool().max_memory()}))


if __name__ == "__main__":
    main()
