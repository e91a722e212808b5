"""Sends what load transfers move to other hosts, each in a thread of its own: the working thread never waits for it.

A sender that only hears of a broken stream cannot know whether the receiver took the last message. It asks, for state
that is taken and kept would count twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa

from reshape.exchange.errors import ExchangeError, PeerLost
from reshape.exchange.transport.streams import Outlet
from reshape.exchange.wire import Envelope, Kind, Purpose, Slice, StreamName
from reshape.sender.outlets import Outlets

JOIN_S = 5.0
# A peer that does not say within this time what it has taken is gone: it answers between two batches.
RECALL_S = 30.0
RETRY_S = 0.1
NOT_TAKEN = "this was not taken, and never will be"

Part = tuple[int, pa.RecordBatch]  # owner, rows or state


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one stream brings: parts of one schema. ``version`` and ``combined`` are those of rows."""

    parts: Sequence[Part]
    metadata: dict[bytes, bytes] | None = None
    version: int = 0
    combined: bool = False
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", sum(batch.nbytes for _, batch in self.parts))


class Peers:
    """The other hosts, as transfers see them."""

    def __init__(self, outlets: Outlets) -> None:
        self._outlets = outlets
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._numbers = count(1)

    def send(self, host: int, name: StreamName, parcel: Parcel, then: Callable[[Exception | None], None]) -> None:
        """Send parts and call ``then`` when the receiver has taken them in, or with what kept it from that.

        With a :class:`PeerLost` nobody knows; with any other error nothing was taken.
        """
        name = replace(name, part=next(self._numbers))

        def run() -> None:
            failure: Exception | None = None
            try:
                self._send(host, name, parcel)
            except Exception as error:
                failure = self._settled(host, name, error)
            with self._lock:
                self._threads.discard(threading.current_thread())
            then(failure)

        thread = threading.Thread(target=run, name=f"reshape-transfer-{name.transfer}", daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def _send(self, host: int, name: StreamName, parcel: Parcel) -> None:
        metadata = parcel.metadata
        outlet: Outlet | None = None
        for sequence, (owner, batch) in enumerate(parcel.parts):
            if outlet is None:
                outlet = self._outlets.open(host, name, batch.schema.with_metadata(metadata))
            slices = (Slice(name.worker, owner, batch.num_rows),)
            envelope = Envelope(Kind.ROWS, parcel.version, sequence, slices, parcel.combined)
            outlet.send(batch.replace_schema_metadata(metadata), envelope)
        if outlet is None:  # nothing to send is news too
            outlet = self._outlets.open(host, name, pa.schema([], metadata))
        outlet.close()

    def _settled(self, host: int, name: StreamName, error: Exception) -> Exception | None:
        """None if what failed here was taken there all the same."""
        deadline = time.monotonic() + RECALL_S
        question = replace(name, purpose=Purpose.RECALL)
        while not self._closed.is_set():
            try:
                self._outlets.open(host, question, pa.schema([])).close()
            except ExchangeError as answer:
                if NOT_TAKEN in str(answer):
                    return ExchangeError(str(error)) if isinstance(error, PeerLost) else error
                if time.monotonic() > deadline:
                    return answer if isinstance(answer, PeerLost) else PeerLost(f"host {host}", str(answer))
                self._closed.wait(RETRY_S)
            else:
                return None
        return PeerLost(f"host {host}", str(error))

    def close(self) -> None:
        """Ask no more, and wait for what is under way; its streams are cut before, by whoever closes the outlets."""
        self._closed.set()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(JOIN_S)
