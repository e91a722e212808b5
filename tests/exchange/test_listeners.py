"""Where listeners are opened, and who gets as far as a call."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest

from reshape.exchange.addresses import AS_NEEDED, LOCAL, Listening, resolved
from reshape.exchange.certificates import own_certificate
from reshape.exchange.errors import ExchangeError, PortsTaken, Unreachable
from reshape.exchange.transport import sockets
from reshape.exchange.transport.access import Access, Tls
from reshape.exchange.transport.client import call, connect
from reshape.exchange.transport.crew import Crew
from reshape.exchange.transport.listener import Listener
from reshape.exchange.transport.receiving import Receiver
from reshape.exchange.transport.streams import Outlet
from reshape.exchange.wire import Envelope, Kind, Slice, StreamName

SECRET = "a-secret-of-this-run"
# Only what hangs takes as long.
SOON_S = 60.0
MB = 1 << 20


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


def test_ipv6() -> None:
    with listening("::1") as listener:
        assert listener.location == f"tcp://[::1]:{listener.port}"
        client = connect(listener.location, Access(SECRET))
        assert call(client, "size", bytes(3 * MB), SOON_S) == str(3 * MB).encode()
        batch = pa.record_batch({"v": [1, 2, 3]})
        with closing(Outlet(client, StreamName("run", 1, "source-0-0", 0, 0), batch.schema)) as outlet:
            outlet.send(batch, Envelope(Kind.ROWS, 0, 0, slices=(Slice(0, 0, 3),)))
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
        assert listener.location == f"tcp://localhost:{listener.port}"
        assert call(connect(listener.location, Access(SECRET)), "size", b"x", SOON_S) == b"1"
    with pytest.raises(PortsTaken, match=r"cannot listen at 192\.0\.2\.77 on any port: .*spark\.reshape\.bindAddress"):
        Listener("192.0.2.77", lambda: [])


def test_a_listener_at_all_addresses_is_found_at_each() -> None:
    with listening(at=Listening("::")) as listener:
        for location in (listener.location, f"tcp://[::1]:{listener.port}"):
            assert call(connect(location, Access(SECRET)), "size", b"x", SOON_S) == b"1"


def test_a_caller_that_cannot_be_taken_keeps_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a process has no more files to open for a while."""
    configure, failed = sockets.configure, threading.Event()

    def failing(connection: socket.socket) -> None:
        if threading.current_thread().name.startswith("listener") and not failed.is_set():
            failed.set()
            raise OSError("too many open files")
        configure(connection)

    monkeypatch.setattr(sockets, "configure", failing)
    with listening() as listener:
        with pytest.raises(Unreachable):
            call(connect(listener.location, Access(SECRET)), "size", b"x", SOON_S)
        assert failed.is_set()
        assert call(connect(listener.location, Access(SECRET)), "size", b"x", SOON_S) == b"1"


def test_a_caller_for_whom_there_is_no_thread_keeps_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    do, failed = Crew.do, threading.Event()

    def failing(crew: Crew, task: Callable[[], None]) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("can't start new thread")
        do(crew, task)

    monkeypatch.setattr(Crew, "do", failing)
    with listening() as listener:
        with pytest.raises(Unreachable):
            call(connect(listener.location, Access(SECRET)), "size", b"x", SOON_S)
        assert call(connect(listener.location, Access(SECRET)), "size", b"x", SOON_S) == b"1"


def test_nobody_without_the_key_gets_as_far_as_a_call() -> None:
    made = own_certificate()
    with listening(tls=made) as listener:
        assert listener.location.startswith("tls://")
        assert (
            call(connect(listener.location, Access(SECRET, made)), "size", bytes(2 * MB), SOON_S)
            == str(2 * MB).encode()
        )
        for access in (Access(SECRET, replace(made, mutual=False)), Access(SECRET)):
            location = listener.location if access.tls else listener.location.replace("tls:", "tcp:")
            with pytest.raises(Unreachable):
                call(connect(location, access), "size", b"x", SOON_S)
        with pytest.raises(ExchangeError, match="secret"):
            Outlet(
                connect(listener.location, Access("wrong", made)), StreamName("run", 1, "r", 0, 0), pa.schema([])
            ).close()
