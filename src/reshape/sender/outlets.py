"""Streams to hosts: one client per host, and whoever sends opens its streams here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

import pyarrow as pa
from pyarrow.flight import FlightClient

from reshape.exchange.flight import Access, Outlet, connect
from reshape.exchange.wire import StreamName


class Outlets:
    """The hosts of one attempt, as a sender sees them. Any thread may open streams."""

    def __init__(self, locations: Sequence[str], access: Access) -> None:
        self._locations = tuple(locations)
        self._access = access
        self._clients: dict[int, FlightClient] = {}
        self._lock = threading.Lock()

    def open(self, host: int, name: StreamName, schema: pa.Schema) -> Outlet:
        return Outlet(self._client(host), name, schema, peer=f"host {host}")

    def close(self) -> None:
        """Cut all streams; those that were closed have been taken."""
        with self._lock:
            clients = list(self._clients.values())
        for client in clients:
            with contextlib.suppress(pa.ArrowException):
                client.close()

    def _client(self, host: int) -> FlightClient:
        with self._lock:
            client = self._clients.get(host)
            if client is None:
                client = self._clients[host] = connect(self._locations[host], self._access)
            return client
