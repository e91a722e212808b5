"""How connections are used, cut and left: by one thread that sends and one that waits, by many calls, at the end."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from reshape.exchange.addresses import LOCAL
from reshape.exchange.certificates import own_certificate
from reshape.exchange.errors import ExchangeError, NoAnswer, PeerLost, Unreachable
from reshape.exchange.transport import listener as listening_module
from reshape.exchange.transport import receiving, streams
from reshape.exchange.transport.access import Access, Tls
from reshape.exchange.transport.client import Client, call, connect
from reshape.exchange.transport.listener import Listener
from reshape.exchange.transport.streams import NoteLine, Outlet
from reshape.exchange.wire import Envelope, Kind, Slice, StreamName

SECRET = "a-secret-of-this-run"
# Only what hangs takes as long.
SOON_S = 60.0
# Who is stuck goes on by itself only when all that wait for it have given up.
STUCK_S = 3 * SOON_S
BATCH = pa.record_batch({"n": pa.array(np.arange(500_000))})  # 4 MB: more than one lot in the system's buffers


def envelope(sequence: int) -> Envelope:
    return Envelope(Kind.ROWS, 0, sequence, (Slice(0, 0, BATCH.num_rows),))


class Gated:
    """Takes messages up to ``free``, the others when it is opened; ``reached`` when it is at such a one."""

    def __init__(self, free: int, fails: bool = False) -> None:
        self.free = free
        self.fails = fails
        self.taken = 0
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.closed = False

    def accept(self, batch: pa.RecordBatch, envelope: Envelope) -> None:
        if self.taken >= self.free:
            self.reached.set()
            if self.fails:
                raise OSError("this disk is full")
            assert self.go_on.wait(STUCK_S)
        self.taken += 1

    def close(self) -> None:
        self.closed = True


@contextmanager
def listening(
    receiver: Gated | None = None, tls: Tls | None = None, **actions: Callable[[bytes], bytes]
) -> Iterator[tuple[Listener, Client]]:
    opened = Listener(
        LOCAL, lambda: [SECRET], tls, None if receiver is None else lambda name, schema: receiver, actions
    )
    try:
        with connect(opened.location, Access(SECRET, tls)) as caller:
            yield opened, caller
    finally:
        if receiver is not None:
            receiver.go_on.set()
        opened.shutdown()


def outlet_of(caller: Client) -> Outlet:
    return Outlet(caller, StreamName("run", 1, "source-0-0", 3, 0), BATCH.schema, "host 1")


@contextmanager
def running(action: Callable[[], None]) -> Iterator[list[BaseException]]:
    """In a thread of its own; what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield raised
    thread.join(SOON_S)
    assert not thread.is_alive()


def send_all(outlet: Outlet, count: int, first: int = 0) -> None:
    for sequence in range(first, first + count):
        outlet.send(BATCH, envelope(sequence))


encryption = pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])


@encryption
def test_a_mark_is_heard_of_while_rows_wait(encrypted: bool) -> None:
    """A receiver may take no more rows before the mark of earlier ones is known to have been taken."""
    receiver = Gated(free=1)
    with listening(receiver, own_certificate() if encrypted else None) as (_, caller):
        outlet = outlet_of(caller)
        send_all(outlet, 1)
        outlet.mark(5)
        with running(lambda: send_all(outlet, 30, first=1)) as raised:
            assert receiver.reached.wait(SOON_S)
            outlet.await_mark(5)
            assert receiver.taken == 1
            receiver.go_on.set()
        assert raised == []
        outlet.mark(6)
        outlet.await_mark(6)
        outlet.await_mark(5)
        assert receiver.taken == 31
        outlet.close()
        assert receiver.closed
        outlet.await_mark(6)
        with pytest.raises(PeerLost, match="ended the stream while a mark was under way"):
            outlet.await_mark(7)


@encryption
def test_the_cause_of_a_failure_reaches_a_sender_that_is_at_something_else(
    encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver has long ended the connection when the sender sends again."""
    monkeypatch.setattr(receiving, "DRAIN_S", 0.01)
    receiver = Gated(free=0, fails=True)
    with listening(receiver, own_certificate() if encrypted else None) as (opened, caller):
        outlet = outlet_of(caller)
        send_all(outlet, 1)
        assert receiver.reached.wait(SOON_S)
        with opened._changed:
            assert opened._changed.wait_for(lambda: not opened._connections, SOON_S)
        with pytest.raises(ExchangeError, match="broke: this disk is full"):
            send_all(outlet, 20, first=1)


@encryption
def test_the_cause_of_a_failure_reaches_a_sender_that_is_stuck(encrypted: bool) -> None:
    receiver = Gated(free=0)
    with listening(receiver, own_certificate() if encrypted else None) as (_, caller):
        outlet = outlet_of(caller)
        with running(lambda: send_all(outlet, 50)) as raised:
            assert receiver.reached.wait(SOON_S)
            receiver.fails, receiver.free = True, 0
            receiver.go_on.set()
        assert "broke: this disk is full" in str(raised[0])
        assert not isinstance(raised[0], PeerLost)


def test_a_receiver_that_closes_is_lost_whatever_it_fails_with() -> None:
    receiver = Gated(free=0, fails=True)
    with listening(receiver) as (opened, caller):
        opened.closing = True
        outlet = outlet_of(caller)
        with pytest.raises(PeerLost, match=r"host 1 is gone: .*the receiver is closing"):
            send_all(outlet, 50)


@encryption
def test_shutdown_ends_senders_that_are_stuck_and_calls_that_wait(
    encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening_module, "GRACE_S", 0.05)
    monkeypatch.setattr(streams, "STALL_S", STUCK_S)  # no sender comes to look by itself
    before = set(threading.enumerate())
    receiver, called = Gated(free=0), threading.Event()

    def wait(_: bytes) -> bytes:
        called.set()
        receiver.go_on.wait(STUCK_S)
        return b""

    tls = own_certificate() if encrypted else None
    with listening(receiver, tls, wait=wait) as (opened, caller):
        outlet, waiting = outlet_of(caller), connect(opened.location, Access(SECRET, tls))
        with running(lambda: send_all(outlet, 100)) as sent, running(lambda: ask(waiting)) as asked:
            assert receiver.reached.wait(SOON_S)
            assert called.wait(SOON_S)
            until(lambda: has_no_room(outlet))
            with running(opened.shutdown) as ended:
                until(lambda: bool(sent and asked))  # cut, though receivers are stuck
                receiver.go_on.set()
        assert isinstance(sent[0], PeerLost)
        assert isinstance(asked[0], Unreachable)
        assert ended == []
    # Their threads end now that receivers go on.
    until(lambda: set(threading.enumerate()) <= before)


def has_no_room(outlet: Outlet) -> bool:
    """Whether the receiver's system takes not one byte more (``tcpi_snd_wnd``): some are too few to be sent at once."""
    known = outlet._line._pipe.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    return known[228:] == bytes(4)


def ask(caller: Client) -> None:
    call(caller, "wait", b"", SOON_S)


def until(true: Callable[[], bool]) -> None:
    """Nobody tells when it is."""
    deadline = time.monotonic() + SOON_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_stuck_receiver_does_not_hold_up_shutdown_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening_module, "GRACE_S", 0.05)
    monkeypatch.setattr(listening_module, "SHUTDOWN_S", 0.1)
    receiver = Gated(free=0)
    with listening(receiver) as (opened, caller):
        outlet = outlet_of(caller)
        send_all(outlet, 1)
        assert receiver.reached.wait(SOON_S)
        with pytest.warns(ResourceWarning, match="has not ended"):
            opened.shutdown()


@encryption
def test_a_client_that_is_closed_cuts_its_streams(encrypted: bool) -> None:
    receiver = Gated(free=0)
    with listening(receiver, own_certificate() if encrypted else None) as (_, caller):
        outlet = outlet_of(caller)
        with running(lambda: send_all(outlet, 100)) as sent, running(lambda: outlet.await_mark(1)) as waited:
            assert receiver.reached.wait(SOON_S)
            caller.close()
        assert [type(error) for error in (*sent, *waited)] == [PeerLost, PeerLost]
        with pytest.raises(PeerLost, match="has been closed"):
            outlet_of(caller)
        assert not receiver.closed


def test_connections_are_used_again() -> None:
    receiver = Gated(free=1_000)
    with listening(receiver, echo=lambda body: body) as (opened, caller):
        for number in range(20):
            assert call(caller, "echo", b"%d" % number, SOON_S) == b"%d" % number
            outlet = outlet_of(caller)
            send_all(outlet, 2)
            outlet.close()
        assert len(opened._connections) == 1
        with opened._changed:
            opened._cut()
        outlet_of(caller).close()  # the connection that was cut is not taken for a good one
        assert call(caller, "echo", b"x", SOON_S) == b"x"


def test_a_connection_whose_answer_is_late_is_not_used_again() -> None:
    go_on = threading.Event()

    def echo(body: bytes) -> bytes:
        assert body != b"late" or go_on.wait(SOON_S)
        return body

    with listening(echo=echo) as (_, caller):
        with pytest.raises(NoAnswer):
            call(caller, "echo", b"late", 0.05)
        go_on.set()
        assert call(caller, "echo", b"next", SOON_S) == b"next"


def test_idle_connections_hold_no_thread() -> None:
    notes: list[bytes] = []
    heard = threading.Semaphore(0)

    def note(body: bytes) -> None:
        notes.append(body)
        heard.release()

    opened = Listener(LOCAL, lambda: [SECRET], actions={"echo": lambda body: body}, notes=note)
    try:
        clients = [connect(opened.location, Access(SECRET)) for _ in range(50)]
        lines = [NoteLine(caller) for caller in clients]
        for line, caller in zip(lines, clients, strict=True):
            line.send(b"note")
            assert heard.acquire(timeout=SOON_S)
            assert call(caller, "echo", b"x", SOON_S) == b"x"
        assert len(opened._connections) == 100
        assert len(opened._crew._threads) < 10
    finally:
        opened.shutdown()
    assert notes == [b"note"] * 50


def test_nothing_is_left_open() -> None:
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    for tls in (None, own_certificate()):
        with listening(Gated(free=1_000), tls, echo=lambda body: body) as (opened, caller):
            for _ in range(5):
                call(caller, "echo", b"x", SOON_S)
                outlet = outlet_of(caller)
                send_all(outlet, 1)
                outlet.close()
            broken = outlet_of(caller)
            opened.shutdown()
            with pytest.raises(PeerLost):
                broken.close()
            del broken, outlet
    del opened, caller
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before


def test_a_process_that_ends_with_all_under_way_ends() -> None:
    script = f"""
import sys, threading
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.exchange import test_connections as here
receiver, called = here.Gated(free=0), threading.Event()
def wait(body):
    called.set()
    threading.Event().wait()
opened = here.Listener(here.LOCAL, lambda: [here.SECRET], None, lambda name, schema: receiver, {{"wait": wait}})
caller = here.connect(opened.location, here.Access(here.SECRET))
outlet = here.outlet_of(caller)
for task in (lambda: here.send_all(outlet, 100), lambda: outlet.await_mark(1), lambda: here.ask(caller)):
    threading.Thread(target=task, daemon=True).start()
assert receiver.reached.wait(here.SOON_S) and called.wait(here.SOON_S)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SOON_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
