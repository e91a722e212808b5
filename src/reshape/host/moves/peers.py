"""Sends what load transfers move to other hosts, each in a thread of its own: the working thread never waits for it.

A sender that only hears of a broken stream cannot know whether the receiver took the last message. It asks, for state
that is taken and kept would count twice.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa
from pyarrow.flight import FlightClient

from reshape.exchange.errors import ExchangeError, PeerLost
from reshape.exchange.flight import Access, Outlet, connect
from reshape.exchange.wire import Envelope, Kind, Purpose, Slice, StreamName

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

    def __init__(self, locations: Sequence[str], access: Access) -> None:
        self._locations = tuple(locations)
        self._access = access
        self._threads: set[threading.Thread] = set()
        self._clients: dict[int, FlightClient] = {}
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
        client = self._client(host)
        metadata = parcel.metadata
        outlet: Outlet | None = None
        for sequence, (owner, batch) in enumerate(parcel.parts):
            if outlet is None:
                outlet = Outlet(client, name, batch.schema.with_metadata(metadata), peer=f"host {host}")
            slices = (Slice(name.worker, owner, batch.num_rows),)
            envelope = Envelope(Kind.ROWS, parcel.version, sequence, slices, parcel.combined)
            outlet.send(batch.replace_schema_metadata(metadata), envelope)
        if outlet is None:  # nothing to send is news too
            outlet = Outlet(client, name, pa.schema([], metadata), peer=f"host {host}")
        outlet.close()

    def _settled(self, host: int, name: StreamName, error: Exception) -> Exception | None:
        """None if what failed here was taken there all the same."""
        deadline = time.monotonic() + RECALL_S
        question = replace(name, purpose=Purpose.RECALL)
        while not self._closed.is_set():
            try:
                Outlet(self._client(host), question, pa.schema([]), peer=f"host {host}").close()
            except ExchangeError as answer:
                if NOT_TAKEN in str(answer):
                    return error
                if time.monotonic() > deadline:
                    return answer if isinstance(answer, PeerLost) else PeerLost(f"host {host}", str(answer))
                self._closed.wait(RETRY_S)
            else:
                return None
        return PeerLost(f"host {host}", str(error))

    def _client(self, host: int) -> FlightClient:
        with self._lock:
            client = self._clients.get(host)
            if client is None:
                client = self._clients[host] = connect(self._locations[host], self._access)
            return client

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            threads, clients = list(self._threads), list(self._clients.values())
        for client in clients:
            with contextlib.suppress(pa.ArrowException):
                client.close()
        for thread in threads:
            thread.join(JOIN_S)
