"""Sends what load transfers move to other hosts, each in a thread of its own: the working thread never waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
from pyarrow.flight import FlightClient

from reshape.exchange.flight import Access, Outlet, connect
from reshape.exchange.wire import Envelope, Kind, Slice, StreamName

JOIN_S = 5.0

Part = tuple[int, pa.RecordBatch]  # owner, rows or state


class Peers:
    """The other hosts, as transfers see them."""

    def __init__(self, locations: Sequence[str], access: Access) -> None:
        self._locations = tuple(locations)
        self._access = access
        self._threads: set[threading.Thread] = set()
        self._clients: dict[int, FlightClient] = {}
        self._lock = threading.Lock()

    def send(
        self,
        host: int,
        name: StreamName,
        parts: Iterable[Part],
        then: Callable[[Exception | None], None],
        metadata: dict[bytes, bytes] | None = None,
    ) -> None:
        """Send parts and call ``then`` when the receiver has taken them in, or with what went wrong."""

        def run() -> None:
            failure: Exception | None = None
            try:
                self._send(host, name, parts, metadata)
            except Exception as error:
                failure = error
            with self._lock:
                self._threads.discard(threading.current_thread())
            then(failure)

        thread = threading.Thread(target=run, name=f"reshape-transfer-{name.transfer}", daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def _send(self, host: int, name: StreamName, parts: Iterable[Part], metadata: dict[bytes, bytes] | None) -> None:
        with self._lock:
            client = self._clients.get(host)
            if client is None:
                client = self._clients[host] = connect(self._locations[host], self._access)
        outlet: Outlet | None = None
        for sequence, (owner, batch) in enumerate(parts):
            if outlet is None:
                outlet = Outlet(client, name, batch.schema.with_metadata(metadata), peer=f"host {host}")
            slices = (Slice(name.worker, owner, batch.num_rows),)
            outlet.send(batch.replace_schema_metadata(metadata), Envelope(Kind.ROWS, 0, sequence, slices))
        if outlet is None:  # nothing to send is news too
            outlet = Outlet(client, name, pa.schema([], metadata), peer=f"host {host}")
        outlet.close()

    def close(self) -> None:
        with self._lock:
            threads, clients = list(self._threads), list(self._clients.values())
        for client in clients:
            with contextlib.suppress(pa.ArrowException):
                client.close()
        for thread in threads:
            thread.join(JOIN_S)
