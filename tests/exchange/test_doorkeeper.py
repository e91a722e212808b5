"""Callers that nobody knows: what they send takes no memory, and what others send is not cut."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from reshape.exchange.addresses import AS_NEEDED, LOCAL, Listening, resolved
from reshape.exchange.certificates import own_certificate
from reshape.exchange.doorkeeper import UNKNOWN_BYTES, Connection, Doorkeeper, sockets_on
from reshape.exchange.errors import ExchangeError, PortsTaken
from reshape.exchange.flight import Access, Listener, Outlet, Receiver, Tls, call, connect
from reshape.exchange.wire import Envelope, StreamName

SECRET = "a-secret-of-this-run"
# Only what hangs takes as long.
SOON_S = 60.0
# gRPC calls again when a connection breaks, for ever; by then each has sent all it can.
STRANGER_S = 3.0
MB = 1 << 20
SERVER = f"""
import sys
from reshape.exchange.flight import Listener
listener = Listener("127.0.0.1", lambda: [{SECRET!r}], actions={{"size": lambda body: str(len(body)).encode()}})
print(listener.location, flush=True)
sys.stdin.read()
listener.shutdown()
"""


@contextmanager
def listening(address: str = LOCAL, tls: Tls | None = None, at: Listening = AS_NEEDED) -> Iterator[Listener]:
    listener = Listener(
        address,
        lambda: [SECRET],
        tls,
        lambda name, schema: Taking(),
        {"size": lambda body: str(len(body)).encode()},
        listening=at,
    )
    try:
        yield listener
    finally:
        listener.shutdown()


class Taking(Receiver):
    def accept(self, batch: pa.RecordBatch, envelope: Envelope) -> None:
        pass

    def close(self) -> None:
        pass


def peak_bytes(process: int) -> int:
    facts = Path(f"/proc/{process}/status").read_text()
    return int(facts.partition("VmHWM:")[2].split()[0]) * 1024


def test_large_first_words_of_those_who_have_the_secret_are_heard() -> None:
    with listening() as listener:
        for _ in range(3):
            client = connect(listener.location, Access(SECRET))
            assert call(client, "size", bytes(12 * UNKNOWN_BYTES), SOON_S) == str(12 * UNKNOWN_BYTES).encode()
            client.close()
        wide = pa.schema([(f"a column with a long name, {number:050}", pa.int64()) for number in range(20_000)])
        assert wide.serialize().size > UNKNOWN_BYTES
        client = connect(listener.location, Access(SECRET))
        Outlet(client, StreamName("run", 1, "source", 0, 0), wide).close()
        client.close()


class Door:
    """A listener that only accepts, its doorkeeper, and as many connections as wanted, each with its two ends."""

    def __init__(self, callers: int) -> None:
        self._server = socket.create_server((LOCAL, 0))
        self.keeper = Doorkeeper(self._server.getsockname()[1])
        self.pairs = []
        for _ in range(callers):
            client = socket.create_connection(self._server.getsockname(), SOON_S)
            self.pairs.append((client, self._server.accept()[0]))

    def is_cut(self, number: int) -> bool:
        """Once the keeper is closed: an end that is not cut can still be written to."""
        client, accepted = self.pairs[number]
        try:
            accepted.sendall(b"x")
        except OSError:
            return True
        return client.recv(1) == b""

    def close(self) -> None:
        self.keeper.close()
        for end in (self._server, *(end for pair in self.pairs for end in pair)):
            end.close()


@pytest.fixture
def door(request: pytest.FixtureRequest) -> Iterator[Door]:
    made = Door(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("door", [1], indirect=True)
def test_a_stranger_that_brings_much_is_cut(door: Door) -> None:
    client, accepted = door.pairs[0]
    client.sendall(bytes(1000))
    assert len(accepted.recv(1000, socket.MSG_WAITALL)) == 1000
    with pytest.raises(OSError, match=r"reset|Broken"):
        while True:
            client.sendall(bytes(UNKNOWN_BYTES))
            accepted.recv(UNKNOWN_BYTES, socket.MSG_WAITALL)


@pytest.mark.parametrize("door", [1], indirect=True)
def test_who_is_admitted_while_bytes_are_counted_is_not_cut(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A knock, its answer and much that follows, seen by a doorkeeper that looks a little late."""
    counted = threading.Event()

    def received(connection: Connection) -> int:
        door.keeper.admit(f"ipv4:{connection.peer.replace(' ', ':')}")
        counted.set()
        return 100 * UNKNOWN_BYTES

    monkeypatch.setattr(Connection, "received", received)
    door.pairs[0][0].sendall(b"x")
    assert counted.wait(SOON_S)
    door.keeper.close()  # its look is over
    assert not door.is_cut(0)


def test_sockets_of_a_port_are_found_and_told_apart() -> None:
    with listening() as listener:
        doors, accepted = sockets_on(listener.port)
        assert doors
        assert accepted == []
        with socket.create_connection((LOCAL, listener.port)) as client:
            deadline = time.monotonic() + SOON_S
            while not (accepted := sockets_on(listener.port)[1]) and time.monotonic() < deadline:
                time.sleep(0.005)
            (connection,) = accepted
            assert connection.peer == f"{LOCAL} {client.getsockname()[1]}"
            assert connection.received() == 0
            assert sockets_on(listener.port, frozenset({connection.inode}))[1] == []
            with pytest.raises(ConnectionResetError, match="is gone"):
                replace(connection, inode=connection.inode + 1).received()  # another socket has its number by now
            connection.cut()
            client.settimeout(SOON_S)
            while client.recv(1000):
                pass


def test_ipv6() -> None:
    with listening("::1") as listener:
        assert listener.location == f"grpc://[::1]:{listener.port}"
        assert call(connect(listener.location, Access(SECRET)), "size", bytes(3 * MB), SOON_S) == str(3 * MB).encode()
    assert resolved("[::1]") == resolved("::1") == "::1"
    assert resolved(LOCAL) == LOCAL


def test_a_listener_takes_a_port_of_its_range_that_is_free() -> None:
    with socket.create_server((LOCAL, 0)) as taken:
        first = taken.getsockname()[1]
        with pytest.raises(
            PortsTaken, match=rf"cannot listen at {LOCAL} on a port from {first} to {first}: .*reshape.po"
        ):
            Listener(LOCAL, lambda: [], listening=Listening(None, first, first))
        with listening(at=Listening(None, first, min(first + 50, 65_535))) as listener:
            assert first < listener.port <= first + 50
            assert call(connect(listener.location, Access(SECRET)), "size", b"x", SOON_S) == b"1"


def test_a_listener_may_listen_elsewhere_than_others_find_it() -> None:
    with listening("localhost", at=Listening("0.0.0.0")) as listener:
        assert listener.location == f"grpc://localhost:{listener.port}"
        assert call(connect(listener.location, Access(SECRET)), "size", b"x", SOON_S) == b"1"
    with pytest.raises(PortsTaken, match=r"cannot listen at 192\.0\.2\.77 on any port: .*spark\.reshape\.bindAddress"):
        Listener("192.0.2.77", lambda: [])


def test_nobody_without_the_key_gets_as_far_as_a_call() -> None:
    made = own_certificate()
    with listening(tls=made) as listener:
        assert listener.location.startswith("grpc+tls://")
        assert (
            call(connect(listener.location, Access(SECRET, made)), "size", bytes(2 * MB), SOON_S)
            == str(2 * MB).encode()
        )
        for access in (Access(SECRET, replace(made, mutual=False)), Access(SECRET)):
            location = listener.location if access.tls else listener.location.replace("grpc+tls", "grpc")
            with pytest.raises(flight.FlightUnavailableError):
                call(connect(location, access), "size", b"x", SOON_S)
        with pytest.raises(ExchangeError, match="secret"):
            Outlet(connect(listener.location, Access("wrong", made)), StreamName("run", 1, "r", 0, 0), pa.schema([]))
