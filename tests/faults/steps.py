"""Faults in transfers: each step of a migration can be made to fail, as a lost connection or a full memory would.

A message of a host to the driver cannot be lost alone, for the host fails when it cannot tell it; it can be late, which
is for :class:`..chaos.valves.Valves` to arrange.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from reshape.exchange.wire import Envelope, Kind, Slice, StreamName
from reshape.host.moves import copies, hand_overs
from reshape.host.moves.intake import Arrival, Intake
from reshape.host.moves.peers import Parcel, Peers
from reshape.host.worker import Worker

# What has no other place to be is tried five times, so after a fault the same thing succeeds for so many times. One try
# exports the parts of several owners.
PAUSE = 2
EXPORTS = 8


class Injected(Exception):
    """A fault of a test."""


class Faults:
    """The first thing of each kind meets the fault; at a ``rate`` others do now and then, none of them for ever.

    ``hits`` are the kinds that met it, and how often.
    """

    def __init__(self, seed: int, rate: float) -> None:
        self._rng = Random(f"faults {seed}")
        self._rate = rate
        self._pauses: Counter[Any] = Counter()
        self._lock = threading.Lock()
        self.hits: Counter[str] = Counter()

    def strikes(self, what: str, thing: Any, pause: int = PAUSE) -> bool:
        with self._lock:
            spared = self._rng.random() >= self._rate or self._pauses[thing] > 0
            if spared and self.hits[what]:
                self._pauses[thing] -= 1
                return False
            self._pauses[thing] = pause
            self.hits[what] += 1
            return True


@contextmanager
def _in_export(faults: Faults) -> Iterator[None]:
    export = copies.export

    def failing(worker: Worker, *arguments: Any, **options: Any) -> Any:
        if faults.strikes(
            "hand over" if options["remove"] else "replica", (worker.operator.id, worker.number), EXPORTS
        ):
            raise Injected("no memory to export")
        return export(worker, *arguments, **options)

    with patch.object(copies, "export", failing), patch.object(hand_overs, "export", failing):
        yield


def _in_sending(how: str) -> Callable[[Faults], Any]:
    def make(faults: Faults) -> Any:
        send = Peers._send

        def failing(self: Peers, host: int, name: StreamName, parcel: Parcel) -> None:
            if not faults.strikes(name.purpose, (name.router, name.operator, name.port, name.purpose, name.transfer)):
                send(self, host, name, parcel)
                return
            if how == "middle" and parcel.parts:
                owner, batch = parcel.parts[0]
                outlet = self._outlets.open(host, name, batch.schema.with_metadata(parcel.metadata))
                slices = (Slice(name.worker, owner, batch.num_rows),)
                outlet.send(batch.replace_schema_metadata(parcel.metadata), Envelope(Kind.ROWS, 0, 0, slices))
            elif how == "after":
                send(self, host, name, parcel)
            raise Injected(f"the connection broke {how}")

        return patch.object(Peers, "_send", failing)

    return make


def _at_the_target(faults: Faults) -> Any:
    take = Intake._take

    def failing(self: Intake, worker: Worker, arrival: Arrival) -> None:
        name = arrival.name
        if faults.strikes(name.purpose, (name.router, name.operator, name.port, name.purpose, name.transfer)):
            raise Injected("no memory to take it in")
        take(self, worker, arrival)

    return patch.object(Intake, "_take", failing)


STEPS: dict[str, Callable[[Faults], Any]] = {
    "export": _in_export,
    "before sending": _in_sending("before"),
    "while sending": _in_sending("middle"),
    "after sending": _in_sending("after"),
    "at the target": _at_the_target,
}


@contextmanager
def faults_in(step: str, seed: int = 0, rate: float = 0.0) -> Iterator[Faults]:
    faults = Faults(seed, rate)
    with ExitStack() as stack:
        stack.enter_context(STEPS[step](faults))
        yield faults
