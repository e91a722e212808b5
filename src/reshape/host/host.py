"""A host: one barrier task that runs workers of every operator. Its output is its part of the flow's result."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

from reshape.errors import FlowFailed
from reshape.exchange.addresses import AS_NEEDED, Listening, resolved
from reshape.exchange.queues import HostQueues
from reshape.exchange.spill import SpillSpace, sweep
from reshape.exchange.transport.listener import Listener
from reshape.exchange.transport.receiving import Receiver
from reshape.exchange.wire import StreamName
from reshape.host.running import RunningHost
from reshape.host.signals import ended_by_signals
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.link import LOST_AFTER_S, POLL_S, ControlLink, FlowAddress
from reshape.protocol.reports import AskAgain, HostReady, Met, Refused
from reshape.scan.scan import Scan

# A source is here sooner than the driver's word that the attempt has begun, by as much as the driver may be busy.
NUMBER_S = LOST_AFTER_S
# Spark starts all hosts at once; one that is not here after so long will not come. Time in which the driver does not
# answer is not counted: the others may have come as well.
MEET_S = 120.0
# Rows that may wait in the memory of one host before they go to disk.
QUEUE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HostSettings:
    queue_bytes: int = QUEUE_BYTES
    spill: bool = True
    spill_limit_bytes: int | None = None
    previews: bool = True  # is there anybody to show a running result to?
    encrypt: bool = False  # rows on disk; connections are encrypted by what a flow's address says
    listening: Listening = AS_NEEDED


class Host:
    """The task: listens, meets the other hosts, and runs as one of them; ``results`` is its life."""

    def __init__(
        self,
        plan: PhysicalPlan,
        index: int,
        flow: FlowAddress,
        settings: HostSettings,
        address: str,
        stage: int = 0,
        task: int = 0,
        scans: Mapping[int, Scan] = MappingProxyType({}),
    ) -> None:
        """``scans`` are the sources that hosts read by themselves, by their number."""
        self._plan = plan
        self._index = index
        self._flow = flow
        self._settings = settings
        self._scans = scans
        spaces = [path for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if path]
        sweep(spaces)
        limit, encrypt = settings.spill_limit_bytes, settings.encrypt
        self._space = SpillSpace(spaces, limit, encrypted=encrypt) if settings.spill else None
        ports = [len(operator.ports) for operator in plan.operators for _ in plan.workers_of(index)]
        self._queues = HostQueues(ports, settings.queue_bytes, self._space)
        self._running: Future[RunningHost] = Future()
        access, listening = flow.access, settings.listening
        self._listener = Listener(address, lambda: [access.secret], access.tls, self._open_stream, listening=listening)
        self._ready = HostReady(index, stage, task, self._listener.location)

    def results(self) -> Generator[pa.RecordBatch, None, None]:
        """Meet the other hosts, work, and give the result; whatever happens, leave nothing behind."""
        running: RunningHost | None = None
        with ended_by_signals():
            try:
                met = self._meet()
                running = RunningHost(
                    self._plan,
                    self._index,
                    self._flow,
                    met,
                    self._queues,
                    self._scans,
                    previews=self._settings.previews,
                )
                self._running.set_result(running)
                running.start()
                yield from running.results
            finally:
                self._close(running)

    def _meet(self) -> Met:
        """Tell the driver that this host is here; it numbers the attempt when all of them are."""
        hello = ControlLink(self._flow, 0, f"host-{self._index}", lambda _: None)
        left_s = MEET_S
        try:
            while True:
                answer = hello.ask(self._ready, POLL_S + LOST_AFTER_S)
                if isinstance(answer, AskAgain):
                    pause_s = answer.pause_s * random.uniform(0.5, 1.5)  # not all at the same time
                    time.sleep(pause_s)
                    left_s -= pause_s
                elif answer is not None:
                    break
                else:
                    left_s -= POLL_S
                if left_s <= 0:
                    raise FlowFailed(f"host {self._index}", f"the other hosts did not come within {MEET_S:.0f} s")
        finally:
            hello.close()
        if isinstance(answer, Refused):
            raise FlowFailed(answer.where, answer.cause)
        assert isinstance(answer, Met)
        return answer

    def _open_stream(self, name: StreamName, schema: pa.Schema) -> Receiver:
        # A source may be here before this host has heard which attempt it is.
        try:
            running = self._running.result(NUMBER_S)
        except TimeoutError:
            cause = f"the driver did not number the attempt within {NUMBER_S:.0f} s"
            raise FlowFailed(f"host {self._index}", cause) from None
        return running.open_stream(name, schema)

    def _close(self, running: RunningHost | None) -> None:
        self._listener.closing = True
        self._queues.fail(FlowFailed(f"host {self._index}", "the host is closing"))
        if running is not None:
            running.stop()
        if self._space is not None:
            self._space.close()  # first: Spark may be about to kill this process
        try:
            if running is not None:
                running.close()
        finally:  # its threads would serve senders for ever
            self._listener.shutdown()


def own_address(task_address: str, bind: str | None) -> str:
    """The address of this executor as the others see it, from Spark's own list of barrier tasks."""
    name = task_address.rsplit(":", 1)[0]
    try:
        return resolved(name)
    except OSError as error:
        if bind is not None:  # only others have to find it by its name
            return name
        raise FlowFailed(
            f"the host on {name}",
            f"its name has no address there ({error}): let it have one, or set spark.reshape.bindAddress to an address "
            "to listen at (0.0.0.0 for all)",
        ) from None
