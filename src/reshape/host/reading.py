"""Sources that a host reads by itself: splits of files as Arrow, routed like the rows of any other source."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pyarrow as pa

from reshape.exchange.wire import Envelope
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.link import FlowAddress
from reshape.protocol.reports import Met, SourceRead, SplitGiven, SplitWanted
from reshape.scan.reading import read_split
from reshape.scan.sampling import sample
from reshape.scan.scan import Scan
from reshape.sender.source import HereToo, SourceTask

LOG = logging.getLogger(__name__)

# Readers end with their streams; this only bounds how long a teardown waits for one that is stuck.
JOIN_S = 10.0

PutHere = Callable[[tuple[int, int], pa.RecordBatch, Envelope], None]


class Readers:
    """A thread for each source that is being read. ``put_here`` takes rows for workers of this host; ``wait_for_room``
    returns when few rows wait at an input here."""

    def __init__(
        self,
        plan: PhysicalPlan,
        host: int,
        scans: Mapping[int, Scan],
        flow: FlowAddress,
        met: Met,
        put_here: PutHere,
        wait_for_room: Callable[[tuple[int, int]], None],
    ) -> None:
        self._plan = plan
        self._host = host
        self._scans = scans
        self._flow = flow
        self._met = met
        self._put_here = put_here
        self._wait_for_room = wait_for_room
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, source: int) -> None:
        thread = threading.Thread(target=self._read, args=(source,), name=f"reshape-read-{source}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        self._closed.set()
        for thread in self._threads:
            thread.join(JOIN_S)

    def _read(self, source: int) -> None:
        target = self._plan.source_target(source)
        task = SourceTask(
            self._plan.edge(*target),
            self._flow,
            self._met.attempt,
            self._met.locations,
            f"source-{source}-host{self._host}",
            HereToo(self._host, partial(self._put_here, target)),
        )
        try:
            task.run(self._batches(source, target, task), lambda rows: SourceRead(source, self._host, rows))
        except Exception as error:  # the driver knows, or tells everybody: the attempt is over
            LOG.info("host %d stopped reading source %d: %s", self._host, source, error)

    def _batches(self, source: int, target: tuple[int, int], task: SourceTask) -> Iterator[pa.RecordBatch]:
        scan = self._scans[source]
        if task.sampled_columns is not None:
            task.offer(sample(scan, task.sampled_columns, self._host, self._plan.hosts))
        while not self._closed.is_set():
            answer = task.link.ask(SplitWanted(source))
            if not isinstance(answer, SplitGiven) or answer.split is None:
                return
            for batch in read_split(scan, scan.splits[answer.split]):
                self._wait_for_room(target)
                if self._closed.is_set():
                    return
                yield batch
