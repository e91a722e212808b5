"""Sources that a host reads by itself: splits of files as Arrow, routed like the rows of any other source."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pyarrow as pa

from reshape.exchange.errors import HostClosed
from reshape.exchange.wire import Envelope
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.errors import Aborted
from reshape.protocol.link import FlowAddress
from reshape.protocol.reports import Met, SourceRead, SplitGiven, SplitWanted
from reshape.scan.reading import read_split, steps_of
from reshape.scan.sampling import HEAVY_KEY_ROWS, sample
from reshape.scan.scan import Scan
from reshape.sender.source import HereToo, SourceTask

LOG = logging.getLogger(__name__)

# Readers end with their streams; this only bounds how long a teardown waits for one that is stuck.
JOIN_S = 10.0


class _Stored:
    """Stored rows that a reader has gone through."""

    def __init__(self) -> None:
        self.rows = 0

    def add(self, rows: int) -> None:
        self.rows += rows


PutHere = Callable[[tuple[int, int], pa.RecordBatch, Envelope], None]


class Readers:
    """A thread for each source that is being read. ``put_here`` takes rows for workers of this host; ``wait_for_room``
    returns when few rows wait at an input here; ``on_failed`` gets the name of a reader and what has stopped it."""

    def __init__(
        self,
        plan: PhysicalPlan,
        host: int,
        scans: Mapping[int, Scan],
        flow: FlowAddress,
        met: Met,
        put_here: PutHere,
        wait_for_room: Callable[[tuple[int, int]], None],
        on_failed: Callable[[str, Exception], None],
    ) -> None:
        self._plan = plan
        self._host = host
        self._scans = scans
        self._flow = flow
        self._met = met
        self._put_here = put_here
        self._wait_for_room = wait_for_room
        self._on_failed = on_failed
        self._lock = threading.Lock()
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._tasks: list[SourceTask] = []

    def start(self, source: int) -> None:
        """Read splits of a source as long as there are any. What cannot even begin raises here."""
        with self._lock:
            if self._closed:
                return
            task = self._task(source)
            self._tasks.append(task)
            arguments = (source, self._name(source), task)
            thread = threading.Thread(target=self._read, args=arguments, name=f"reshape-read-{source}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Stop reading. The host's queues have failed by now, so that nobody waits for room in them."""
        with self._lock:
            self._closed = True
            tasks = list(self._tasks)
        for task in tasks:  # one of a paused flow waits to go on
            task.abandon(f"host {self._host} is closing")
        deadline = time.monotonic() + JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _name(self, source: int) -> str:
        return f"source-{source}-host{self._host}"

    def _task(self, source: int) -> SourceTask:
        target = self._plan.source_target(source)
        here = HereToo(self._host, partial(self._put_here, target))
        edge, name = self._plan.edge(*target), self._name(source)
        return SourceTask(edge, self._flow, self._met.attempt, self._met.locations, name, here)

    def _read(self, source: int, name: str, task: SourceTask) -> None:
        try:
            read = _Stored()
            last_word = partial(SourceRead, source, self._host)
            task.run(self._batches(source, task, read), last_word, lambda: read.rows)
        except Exception as error:
            LOG.info("host %d stopped reading source %d: %s", self._host, source, error)
            self._on_failed(name, error)

    def _batches(self, source: int, task: SourceTask, read: _Stored) -> Iterator[pa.RecordBatch]:
        """All rows that this host reads; a reader that is to stop raises, for an end would say that it has them all."""
        scan, target = self._scans[source], self._plan.source_target(source)
        if task.sampled_columns is not None:
            operator, port = target
            keyed = self._plan.operators[operator].ports[port].keys
            most_rows = HEAVY_KEY_ROWS if keyed else None
            task.offer(sample(scan, task.sampled_columns, self._host, self._plan.hosts, most_rows))
        steps = steps_of(scan)
        while True:
            self._check()
            answer = task.link.ask(SplitWanted(source))
            if not isinstance(answer, SplitGiven):
                raise Aborted("the driver", f"attempt {self._met.attempt} is over")
            if answer.split is None:
                return
            split = scan.splits[answer.split]
            after = read.rows + (split.rows or 0)
            for batch in read_split(scan, split, steps=steps, on_stored=read.add):
                self._wait_for_room(target)
                self._check()
                yield batch
            read.rows = max(read.rows, after)  # row groups that hold nothing of interest were not looked at

    def _check(self) -> None:
        if self._closed:
            raise HostClosed(f"host {self._host} is closing")
