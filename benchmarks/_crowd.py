"""A flow with many hosts and sources that are not there: what each would report, and the driver that books it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from reshape.driver.attempts import Attempts
from reshape.driver.cluster import TaskFate
from reshape.driver.execution import Execution
from reshape.driver.service import DriverService
from reshape.exchange.tally import RouterCounts
from reshape.operators.relay import RelaySpec
from reshape.plan.nodes import OperatorNode, SourceNode
from reshape.plan.physical import PhysicalPlan
from reshape.plan.planner import Planner
from reshape.protocol.codec import Reports, encode_reports
from reshape.protocol.link import FlowAddress
from reshape.protocol.reports import HostReady, Progress, Report, RouterCounted, RouterStarted, Sender, WorkerCounts

RUN = "crowd"
ROWS = 3  # that a source sends to each worker between two reports
WORKERS_PER_HOST = 2  # what a flow has unless it says otherwise


def crowd_plan(hosts: int) -> PhysicalPlan:
    """A repartition, as flows of so many hosts have it by default."""
    schema = pa.schema([("k", pa.int64())])
    node = OperatorNode((SourceNode(0, schema),), RelaySpec(schema, (0,)))
    return Planner().plan(node, RUN, hosts, WORKERS_PER_HOST * hosts)


class AbsentCluster:
    """Runs nothing: its sources are the benchmark's, and end when it does."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        self._over.wait()
        return 0

    def cancel_sources(self, attempt: int) -> None:
        self._over.set()

    def cancel_hosts(self, stage: int, reason: str) -> None:
        """There are none."""

    def kept_rows(self, stage: int) -> str | None:
        return None

    def task_count(self, stage: int) -> int | None:
        return None

    def unsuccessful(self, stage: int) -> Sequence[TaskFate]:
        return ()


@lru_cache(8)
def _routed(workers: int, unrest: int, number: int) -> tuple[int, ...]:
    return tuple(number * ROWS + (worker * 7 + unrest) % 3 for worker in range(workers))


@dataclass(frozen=True, slots=True)
class Crowd:
    """What the tasks of a plan report, by the number of the report. Load is even, with a little unrest."""

    plan: PhysicalPlan
    attempt: int = 1

    def source_counts(self, source: int, number: int) -> RouterCounted:
        # A little unrest, so that samples have an error; a fixed pattern keeps runs comparable.
        routed = _routed(self.plan.workers, (source + number) % 3, number)
        return RouterCounted(0, 0, f"source-0-{source}", RouterCounts(routed, routed))

    def host_counts(self, host: int, number: int) -> Progress:
        processed = max(0, number - 1) * ROWS * self.plan.hosts
        workers = tuple(
            WorkerCounts(0, worker, (5,), (processed,), ({worker: processed},), 4_096, processed, number * 0.01, False)
            for worker in self.plan.workers_of(host)
        )
        return Progress(host, workers, None, {})

    def started(self, source: int) -> RouterStarted:
        return RouterStarted(0, 0, f"source-0-{source}")

    def round_of(self, number: int) -> list[bytes]:
        """One report of every source and every host, as they travel."""
        reports: list[tuple[str, Report]] = [
            *((f"source-0-{source}", self.source_counts(source, number)) for source in range(self.plan.hosts)),
            *((f"host-{host}", self.host_counts(host, number)) for host in range(self.plan.hosts)),
        ]
        return [self.encoded(task, report) for task, report in reports]

    def encoded(self, task: str, report: Report) -> bytes:
        return encode_reports(Reports(Sender(RUN, self.attempt, task), task, 0, (report,)))


class CrowdedDriver:
    """The driver's service with an attempt whose hosts have met and whose sources have started."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self.attempts = Attempts(RUN, plan, AbsentCluster())
        self.service = DriverService("127.0.0.1")
        self.address = FlowAddress(RUN, self.service.register(RUN, self.attempts), self.attempts.access)
        self._meet(plan.hosts)
        self.crowd = Crowd(plan, self.execution.attempt)

    @property
    def execution(self) -> Execution:
        newest = self.attempts.newest
        assert newest is not None
        return newest

    def start_sources(self) -> None:
        for source in range(self.crowd.plan.hosts):
            self.book(self.crowd.encoded(f"source-0-{source}", self.crowd.started(source)))

    def book(self, body: bytes) -> None:
        """What the listener does with the body of a call."""
        self.service._book(body)

    def close(self) -> None:
        self.execution.fail("the benchmark", "it is over")
        self.attempts.join(10.0)
        self.service.close()

    def _meet(self, hosts: int) -> None:
        """Hosts that come one after the other; some wait for the rest, and nobody asks twice."""

        def arrive(host: int) -> None:
            self.attempts.reported(Sender(RUN, 0, f"host-{host}"), HostReady(host, 1, host, f"tcp://10.0.0.1:{host}"))

        arrivals = [threading.Thread(target=arrive, args=(host,)) for host in range(hosts)]
        for arrival in arrivals:
            arrival.start()
        for arrival in arrivals:
            arrival.join()
