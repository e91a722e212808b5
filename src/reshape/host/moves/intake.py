"""What transfers bring to the workers of a host: taken in by the working thread, whole or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reshape.errors import FlowFailed
from reshape.exchange.queues import HostQueues
from reshape.exchange.wire import Purpose, StreamName
from reshape.host.moves.peers import NOT_TAKEN, Part
from reshape.host.worker import Copied, Worker, Workers

_LABEL = b"reshape.label"  # in the metadata of a stream's schema

Then = Callable[[Exception | None], None]
TransferId = tuple[int, int, int]  # operator, port, transfer


class Torn(FlowFailed):
    """Some of what arrived was taken and some could not be: the flow cannot go on."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What copied state stands for: some of an owner's partition."""

    owner: int
    copied: Copied


@dataclass(frozen=True, slots=True)
class Label:
    """What is said about state beside its rows. ``adopts``: rows that wait for these hand-overs may go on with it."""

    extent: Extent | None = None
    adopts: tuple[int, ...] = ()

    def pack(self) -> dict[bytes, bytes] | None:
        if self == Label():
            return None
        facts: dict[str, Any] = {"adopts": self.adopts}
        if self.extent is not None:
            copied = self.extent.copied
            facts |= {"owner": self.extent.owner, "everything": copied.everything}
            facts |= {"keys": sorted(copied.keys), "buckets": sorted(copied.buckets)}
        return {_LABEL: json.dumps(facts).encode()}

    @classmethod
    def unpack(cls, metadata: dict[bytes, bytes] | None) -> Label:
        if not metadata or _LABEL not in metadata:
            return cls()
        facts = json.loads(metadata[_LABEL])
        adopts = tuple(facts["adopts"])
        if "owner" not in facts:
            return cls(None, adopts)
        copied = Copied(frozenset(facts["keys"]), frozenset(facts["buckets"]), bool(facts["everything"]))
        return cls(Extent(int(facts["owner"]), copied), adopts)


@dataclass(slots=True)
class Arrival:
    """State, or rows, that have come for a worker. ``version`` and ``combined`` are those of rows."""

    name: StreamName
    label: Label = field(default_factory=Label)
    parts: list[Part] = field(default_factory=list)
    version: int = 0
    combined: bool = False
    taken: threading.Event = field(default_factory=threading.Event)
    failure: Exception | None = None
    then: Then | None = None

    def await_taken(self) -> None:
        """Return when the working thread has taken it in; raises what kept it from that. It may be busy with a slow
        function for any time; when the host closes, nobody waits here any more."""
        self.taken.wait()
        if self.failure is not None:
            raise self.failure

    def settle(self, failure: Exception | None) -> None:
        self.failure = failure
        self.taken.set()
        if self.then is not None:
            self.then(failure)


class Intake:
    """Takes in what arrives at the workers of one host. Used by its working thread; ``arrive`` by any thread."""

    def __init__(self, queues: HostQueues, workers: Workers) -> None:
        self._queues = queues
        self._workers = workers
        self._lock = threading.Lock()
        self._waiting: list[Arrival] = []
        self._closed: Exception | None = None
        self._taken: set[tuple[str, int]] = set()  # sender, number of the part
        self._recalled: set[tuple[str, int]] = set()
        self._returned: dict[TransferId, list[Arrival]] = {}
        self._forgotten: set[TransferId] = set()
        self._drained: set[tuple[int, int]] = set()  # operator, port

    def arrive(self, arrival: Arrival) -> None:
        with self._lock:
            if self._closed is None:
                self._waiting.append(arrival)
                return
        arrival.settle(self._closed)

    def close(self, error: Exception) -> None:
        """Let receiving threads go, these and all that come later."""
        with self._lock:
            self._closed = error
            waiting, self._waiting = self._waiting, []
        for arrival in waiting:
            arrival.settle(error)

    def forget(self, transfer: TransferId) -> None:
        """A copy that was given up is not taken in any more."""
        self._forgotten.add(transfer)

    def is_forgotten(self, transfer: TransferId) -> bool:
        return transfer in self._forgotten

    def drain(self, operator: int, port: int) -> None:
        """Nothing is processed at this input any more, so no copy of state is of use."""
        self._drained.add((operator, port))

    def is_drained(self, operator: int, port: int) -> bool:
        return (operator, port) in self._drained

    def step(self) -> None:
        if not self._waiting:
            return
        with self._lock:
            arrivals, self._waiting = self._waiting, []
        try:
            while arrivals:
                self._take_in(arrivals.pop(0))
        finally:
            if arrivals:  # the host fails: what is left is told so when it closes
                with self._lock:
                    self._waiting += arrivals

    def _take_in(self, arrival: Arrival) -> None:
        name = arrival.name
        sender = (name.router, name.part)
        if name.purpose == Purpose.RECALL:
            self._answer(arrival, sender)
            return
        worker = self._workers.get(name.operator, name.worker)
        if name.purpose != Purpose.SCATTERED and not worker.is_open(name.port) and sender not in self._recalled:
            self.arrive(arrival)  # waits until the input before this one has ended here too
            return
        try:
            if sender in self._recalled:
                raise FlowFailed(f"worker {worker.number}", NOT_TAKEN)
            self._take(worker, arrival)
        except Exception as error:
            arrival.settle(error)
            if isinstance(error, Torn):
                raise
        else:
            if name.part:
                self._taken.add(sender)
            arrival.settle(None)

    def _answer(self, arrival: Arrival, sender: tuple[str, int]) -> None:
        """The sender has lost sight of what it sent; what is not here by now is refused when it comes."""
        if sender in self._taken:
            arrival.settle(None)
            return
        self._recalled.add(sender)
        arrival.settle(FlowFailed(f"worker {arrival.name.worker}", NOT_TAKEN))

    def _take(self, worker: Worker, arrival: Arrival) -> None:
        name = arrival.name
        transfer = (name.operator, name.port, name.transfer)
        match name.purpose:
            case Purpose.REPLICA:
                if transfer in self._forgotten or self.is_drained(name.operator, name.port):
                    raise FlowFailed(f"worker {worker.number}", "the transfer was given up")
                self._take_copy(worker, arrival)
            case Purpose.HAND_OVER:
                self._take_keys(worker, arrival)
            case Purpose.HELD:
                self._returned.setdefault(transfer, []).append(arrival)
            case Purpose.BACKLOG:
                self._put(worker, arrival, version=0)
            case Purpose.SCATTERED:
                self._merge(worker, arrival.parts)

    def _take_copy(self, worker: Worker, arrival: Arrival) -> None:
        """Only the owner copies its state, and sends to each worker what it has not got yet."""
        extent = arrival.label.extent
        assert extent is not None
        held = worker.copies.get(extent.owner)
        try:
            worker.logic(extent.owner).merge_state([batch for _, batch in arrival.parts])
        except Exception as error:
            if held is not None:
                raise Torn(f"worker {worker.number}", f"could not take all of a copy: {error}") from error
            worker.logics.pop(extent.owner, None)
            raise
        worker.copies[extent.owner] = extent.copied if held is None else held | extent.copied

    def _take_keys(self, worker: Worker, arrival: Arrival) -> None:
        """The keys are this worker's now: rows that came back with them go first, then those that waited here."""
        name = arrival.name
        if arrival.label.extent is not None:
            self._take_copy(worker, arrival)
        else:
            self._merge(worker, arrival.parts)
        transfer = (name.operator, name.port, name.transfer)
        for returned in self._returned.pop(transfer, []):
            self._put(worker, returned, version=returned.version)
        for waiting in (*arrival.label.adopts, name.transfer):
            self._queues.release(worker.index, name.port, waiting)

    def _put(self, worker: Worker, arrival: Arrival, *, version: int) -> None:
        """Rows into the queue of a worker. With their version they wait behind older ones that still do."""
        for number, (owner, batch) in enumerate(arrival.parts):
            try:
                self._queues.put(
                    worker.index,
                    arrival.name.port,
                    owner,
                    batch,
                    version=version,
                    combined=arrival.combined,
                    may_wait=False,
                )
            except Exception as error:
                if number:  # the sender would keep them all, and the first ones are here too
                    raise Torn(f"worker {worker.number}", f"could not take all of its rows: {error}") from error
                raise

    def _merge(self, worker: Worker, parts: list[Part]) -> None:
        merged = False
        for owner in dict.fromkeys(owner for owner, _ in parts):
            try:
                worker.logic(owner).merge_state([batch for of, batch in parts if of == owner])
            except Exception as error:
                if merged:
                    raise Torn(f"worker {worker.number}", f"could not take all of its state: {error}") from error
                raise
            merged = True
