"""Streams to hosts: one client per host, and whoever sends opens its streams here."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pyarrow as pa

from reshape.exchange.transport.access import Access
from reshape.exchange.transport.client import Client, connect
from reshape.exchange.transport.streams import Outlet
from reshape.exchange.wire import StreamName


class Outlets:
    """The hosts of one attempt, as a sender sees them. Any thread may open streams."""

    def __init__(self, locations: Sequence[str], access: Access) -> None:
        self._locations = tuple(locations)
        self._access = access
        self._clients: dict[int, Client] = {}
        self._lock = threading.Lock()

    def open(self, host: int, name: StreamName, schema: pa.Schema) -> Outlet:
        return Outlet(self._client(host), name, schema, peer=f"host {host}")

    def close(self) -> None:
        """Cut all streams; those that were closed have been taken."""
        with self._lock:
            clients = list(self._clients.values())
        for client in clients:
            client.close()

    def _client(self, host: int) -> Client:
        with self._lock:
            client = self._clients.get(host)
            if client is None:
                client = self._clients[host] = connect(self._locations[host], self._access)
            return client
