"""Threads in the place of Spark and of its machines: hosts that can be killed, and a stage that is tried again.

As Spark does: when one host's task has failed, the others are killed, and all of them start anew as often as
``spark.task.maxFailures`` says, unless the stage has been cancelled. A source task that is killed is lost with its job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from reshape.driver.attempts import Attempts, unique_name
from reshape.driver.service import DriverService
from reshape.host.host import Host
from reshape.protocol.errors import TaskLost
from reshape.protocol.link import FlowAddress
from reshape.testing.threads import TEARDOWN_S, SourcesCancelled, ThreadCluster, _stacks

from ..chaos.valves import Gate, Valves
from .flows import Prepared
from .injecting import Injector, cut_connections, killed

TRIES = 3
# Hosts that are told to stop need no killing.
LEAVE_S = 1.0
# Only what hangs takes as long; an error has to be there within half a minute.
LIMIT_S = 30.0


class CommonGate(Gate):
    """For an input and those of later operators that its rows get to: open when all their scripts are through."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self._closed = inputs

    def open(self) -> None:
        self._closed -= 1
        if self._closed <= 0:
            super().open()

    def open_at_once(self) -> None:
        super().open()


class FaultyCluster(ThreadCluster):
    """Sources of several attempts, which wait for scripts and for the fault; those of one attempt can be cancelled."""

    def __init__(self, flow: Prepared, injector: Injector, valves: Valves, at: Callable[[], FlowAddress]) -> None:
        super().__init__(flow.plan, flow.sources, at)
        self._injector = injector
        self._valves = valves
        self.gates = [self._gate(flow, source) for source in range(len(flow.sources))]
        self._lengths = [[len(partition) for partition in partitions] for partitions in flow.sources]
        self._over: set[int] = set()
        self.stage_cancelled = threading.Event()

    def _gate(self, flow: Prepared, source: int) -> CommonGate:
        names: list[str] = []
        target: tuple[int, int] | None = flow.plan.source_target(source)
        while target is not None:
            operator = flow.plan.operators[target[0]]
            names.append(f"{operator.label}, input {target[1]}")
            target = operator.target
        gate = CommonGate(len(names))
        self._valves.gates.update(dict.fromkeys(names, gate))
        return gate

    def run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        cluster = _OneAttempt(self, attempt)
        try:
            return ThreadCluster.run_source(cluster, source, attempt, locations)
        except SystemExit as error:
            raise TaskLost(f"source {source}", f"{error}: Python worker exited unexpectedly") from None

    def is_over(self, attempt: int) -> bool:
        return attempt in self._over

    def send(self, attempt: int, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        last, side = self._lengths[source][partition] - 1, f"source-{source}-{partition}"

        def is_over() -> bool:
            return self.is_over(attempt) or side in self._injector.dead

        for number, batch in enumerate(ThreadCluster.batches(self, source, partition)):
            self.gates[source].pass_through(number, number == last, is_over)
            while number == last and self._injector.holds_sources and not is_over():
                self._injector.struck.wait(0.02)
            self._injector.check_alive(side)
            if self.is_over(attempt):
                raise SourcesCancelled(f"source {source}, partition {partition}")
            yield batch

    def cancel_sources(self, attempt: int) -> None:
        """What waits for a script waits no more: in the next attempt there is none."""
        self._over.add(attempt)
        self.open_gates()

    def open_gates(self) -> None:
        for gate in self.gates:
            gate.open_at_once()
        self._valves.go_on()
        self._valves.release()

    def cancel_hosts(self, stage: int, reason: str) -> None:
        self.stage_cancelled.set()


class _OneAttempt(ThreadCluster):
    def __init__(self, cluster: FaultyCluster, attempt: int) -> None:
        super().__init__(cluster._plan, cluster._sources, cluster._at)
        self._cluster = cluster
        self._attempt = attempt

    def batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        yield from self._cluster.send(self._attempt, source, partition)


class HostTask:
    """One try of one host's task."""

    def __init__(self, flow: Prepared, index: int, number: int, at: FlowAddress) -> None:
        self.index = index
        self._killed = False
        self.batches: list[pa.RecordBatch] = []
        self.error: BaseException | None = None
        self._host = Host(flow.plan, index, at, flow.settings, "127.0.0.1", task=number, scans=flow.scans)
        self.thread = threading.Thread(target=self._run, name=f"reshape-task-{index}", daemon=True)

    def _run(self) -> None:
        try:
            self.batches.extend(self._host.results())
            if self._killed:  # Spark has not heard of its end
                raise killed(f"host {self.index}")
        except BaseException as error:
            self.error = error

    def cut(self) -> None:
        """Reset all connections to this host."""
        cut_connections(self._host._listener)

    def kill(self) -> None:
        """Nobody hears of this host any more, and nobody can reach it. What is left of it here is put away."""
        self._killed = True
        self._host._listener.closing = True
        self.cut()
        if self._host._running.done():
            self._host._running.result().results.close(killed(f"host {self.index}"))


class FaultyFlow:
    """A flow of which something goes wrong. ``run`` gives its result, or raises what the user would see."""

    def __init__(self, flow: Prepared, injector: Injector, valves: Valves) -> None:
        self._flow = flow
        self._injector = injector
        self.cluster = FaultyCluster(flow, injector, valves, self._address)
        name = unique_name(flow.plan.name)
        self.attempts = Attempts(name, flow.plan, self.cluster, flow.scans)
        self._service = DriverService("127.0.0.1")
        self._location = self._service.register(name, self.attempts)
        self._tasks: list[HostTask] = []
        self.tries = 0
        self._driver_killed = False
        injector.kill, injector.kill_driver, injector.cut = self._kill, self._kill_driver, self._cut

    def run(self) -> pa.Table:
        deadline = time.monotonic() + LIMIT_S
        errors: list[BaseException] = []
        try:
            while self.tries < TRIES and not self.cluster.stage_cancelled.is_set():
                errors = self._try(deadline)
                if errors and self._driver_killed:
                    break
                if not errors:
                    self.attempts.join(0.0 if self._driver_killed else TEARDOWN_S)
                    batches = [batch for task in self._tasks for batch in task.batches]
                    return pa.Table.from_batches(batches, self._flow.plan.output)
        finally:
            self._service.unregister(self.attempts.name)
            if self._driver_killed:  # what would have ended with its process
                self.attempts.fail("the driver", "it was killed")
            self.attempts.join(TEARDOWN_S)
        raise errors[0] if self._driver_killed or self.attempts.failure is None else self.attempts.failure

    def _try(self, deadline: float) -> list[BaseException]:
        """Run all hosts once; what they failed with."""
        hosts = self._flow.plan.hosts
        self._injector.dead.clear()
        first = self.tries * hosts
        self.tries += 1
        self._tasks = [HostTask(self._flow, index, first + index, self._address()) for index in range(hosts)]
        for task in self._tasks:
            task.thread.start()
        while any(task.thread.is_alive() for task in self._tasks) and not any(task.error for task in self._tasks):
            self._join(0.01, deadline)
        until = time.monotonic() + LEAVE_S
        while any(task.thread.is_alive() for task in self._tasks):
            if time.monotonic() > until:
                for task in self._tasks:
                    self._kill(f"host-{task.index}")
            self._join(0.01, deadline)
        return [task.error for task in self._tasks if task.error is not None]

    def _join(self, seconds: float, deadline: float) -> None:
        alive = [task.thread for task in self._tasks if task.thread.is_alive()]
        if alive:
            alive[0].join(seconds)
        if time.monotonic() < deadline:
            return
        stuck = _stacks()
        self.attempts.fail("the test", "it hangs")
        for thread in alive:
            thread.join(TEARDOWN_S)
        waits_for = [gate.waits_for for gate in self.cluster.gates]
        raise TimeoutError(
            f"after {LIMIT_S:.0f} s there was no result and no error; scripts wait for {waits_for}\n{stuck}"
        )

    def _address(self) -> FlowAddress:
        return FlowAddress(self.attempts.name, self._location, self.attempts.access)

    def _kill(self, side: str) -> None:
        self._injector.dead.add(side)
        if side.startswith("source"):
            self.cluster.open_gates()  # its job fails whatever the other tasks of it wait for
        for task in self._tasks:
            if side == f"host-{task.index}":
                task.kill()

    def _kill_driver(self) -> None:
        self._driver_killed = True
        listener, self._service._listener = self._service._listener, None
        if listener is not None:
            cut_connections(listener)
            listener.shutdown()
        self.cluster.open_gates()

    def _cut(self, peer: str) -> None:
        if peer == "driver":
            listener = self._service._listener
            if listener is not None:
                cut_connections(listener)
        for task in self._tasks:
            if peer == f"host {task.index}":
                task.cut()
