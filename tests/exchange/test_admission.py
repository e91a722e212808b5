"""Callers without the secret: refused, bounded in what they cost, and never told anything."""

from __future__ import annotations

import hmac
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

import reshape
from reshape.exchange.addresses import LOCAL
from reshape.exchange.errors import NotAdmitted, Unreachable
from reshape.exchange.transport import client, listener
from reshape.exchange.transport.access import Access
from reshape.exchange.transport.client import call, connect
from reshape.exchange.transport.handshake import _ADMITTED, _MAGIC, _NONCE, _PROOF, _proof
from reshape.exchange.transport.listener import Listener
from reshape.exchange.transport.sockets import place

SECRET = "a-secret-of-this-run"
# Only what hangs takes as long.
SOON_S = 60.0
MB = 1 << 20


@contextmanager
def listening() -> Iterator[Listener]:
    opened = Listener(LOCAL, lambda: ["another", SECRET], actions={"echo": lambda body: body})
    try:
        yield opened
    finally:
        opened.shutdown()


def dial(opened: Listener) -> socket.socket:
    return socket.create_connection(place(opened.location), SOON_S)


def is_ended(stranger: socket.socket) -> bool:
    """Wait for its end; what comes before is not looked at."""
    try:
        while stranger.recv(65_536):
            pass
    except ConnectionError:
        pass
    return True


def serves(opened: Listener) -> bool:
    with connect(opened.location, Access(SECRET)) as caller:
        return call(caller, "echo", b"x", SOON_S) == b"x"


@contextmanager
def impatience() -> Iterator[None]:
    """Not while an honest caller comes: a busy machine may need more."""
    with patch.object(listener, "HANDSHAKE_S", 0.2), patch.object(listener, "TICK_S", 0.05):
        yield


@pytest.mark.parametrize(
    "said",
    [b"", _MAGIC, _MAGIC + bytes(_NONCE), (_MAGIC + bytes(_NONCE))[:-1]],
    ids=["nothing", "half a word", "a hello", "nearly a hello"],
)
def test_a_caller_that_says_no_more_is_cut_off(said: bytes) -> None:
    with listening() as opened:
        with impatience(), closing(dial(opened)) as stranger:
            stranger.sendall(said)
            assert is_ended(stranger)
        assert serves(opened)


def test_a_caller_that_trickles_is_cut_off() -> None:
    with listening() as opened:
        with impatience(), closing(dial(opened)) as stranger, pytest.raises(ConnectionError):
            for byte in (_MAGIC + bytes(_NONCE)) * 1_000:
                stranger.sendall(bytes([byte]))
                time.sleep(0.05)
        assert serves(opened)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: reshape\r\n\r\n" * 3,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100),
        b"\x16\x03\x01\x02\x00" + bytes(600),
        os.urandom(1_000),
        _MAGIC + bytes(_NONCE) + bytes(_PROOF),
        _MAGIC + bytes(_NONCE) + bytes(10_000),
    ],
    ids=["http", "http2", "tls", "noise", "a wrong proof", "too much"],
)
def test_garbage_is_refused(said: bytes) -> None:
    with listening() as opened, closing(dial(opened)) as stranger:
        stranger.sendall(said)
        assert is_ended(stranger)
        assert serves(opened)


def test_a_listener_says_nothing_but_a_number_to_strangers() -> None:
    with listening() as opened, closing(dial(opened)) as stranger:
        stranger.sendall(_MAGIC + bytes(_NONCE))
        hello = _received(stranger, len(_MAGIC) + _NONCE)
        stranger.sendall(bytes(_PROOF))
        verdict = _received(stranger, 1 + _PROOF)
        assert stranger.recv(1) == b""
    assert hello.startswith(_MAGIC)
    assert verdict == b"-" + bytes(_PROOF)


def test_proofs_of_one_side_do_not_pass_for_the_other_s_or_twice() -> None:
    """The listener's own proof, and one that was good before."""
    with listening() as opened:
        for reuse in ("listener", "caller"):
            with closing(dial(opened)) as stranger:
                stranger.sendall(_MAGIC + bytes(_NONCE))
                nonce = _received(stranger, len(_MAGIC) + _NONCE)[len(_MAGIC) :]
                both = bytes(_NONCE) + (nonce if reuse == "listener" else bytes(_NONCE))
                stranger.sendall(_proof(SECRET, reuse.encode(), both))
                assert _received(stranger, 1) == b"-"


def test_the_secret_does_not_travel() -> None:
    heard: list[bytes] = []

    def answer(caller: socket.socket) -> None:
        heard.append(_received(caller, len(_MAGIC) + _NONCE))
        caller.sendall(_MAGIC + bytes(_NONCE))
        heard.append(_received(caller, _PROOF))
        caller.sendall(_ADMITTED + bytes(_PROOF))
        heard.append(caller.recv(65_536))

    with impostor(answer) as location, pytest.raises(Unreachable, match="does not know this run's secret"):
        call(connect(location, Access(SECRET)), "echo", b"rows that are nobody's business", SOON_S)
    assert SECRET.encode() not in b"".join(heard)
    assert hmac.digest(SECRET.encode(), b"caller" + heard[0][len(_MAGIC) :] + bytes(_NONCE), "sha256") == heard[1]
    assert heard[2] == b""


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4, bytes(1_000)])
def test_somebody_else_at_the_address_is_nobody(said: bytes) -> None:
    def answer(caller: socket.socket) -> None:
        _received(caller, len(_MAGIC) + _NONCE)
        caller.sendall(said)

    with impostor(answer) as location, pytest.raises(Unreachable, match="no connection to tcp"):
        call(connect(location, Access(SECRET)), "echo", b"x", SOON_S)


def test_a_listener_that_is_busy_is_waited_for_as_long_as_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a driver whose process has no time: the system answers for it. Nobody answers for a machine that vanishes."""
    opened, looks = client.Client._opened, 0
    busy = socket.create_server((LOCAL, 0))

    def counted(caller: client.Client, within_s: float) -> socket.socket:
        nonlocal looks
        looks += 1
        if looks == 4:
            busy.close()
        return opened(caller, within_s)

    monkeypatch.setattr(client, "STALL_S", 0.05)
    monkeypatch.setattr(client.Client, "_opened", counted)
    caller = connect(f"tcp://{LOCAL}:{busy.getsockname()[1]}", Access(SECRET))
    with closing(busy), pytest.raises(Unreachable):
        call(caller, "echo", b"x", SOON_S)
    assert looks >= 3


def test_many_strangers_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MOST_STRANGERS", 5)
    monkeypatch.setattr(listener, "TICK_S", 0.5)
    with listening() as opened:
        strangers = [dial(opened) for _ in range(10)]
        assert serves(opened)
        assert len(opened._strangers) <= 5
        for stranger in strangers:
            stranger.close()
        assert serves(opened)


def test_400_mb_of_a_stranger_take_no_memory() -> None:
    script = f"""
import sys
from pathlib import Path
from reshape.exchange.transport.listener import Listener
def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(name)))
listener = Listener({LOCAL!r}, lambda: [{SECRET!r}], actions={{"echo": lambda body: body}})
before = resident("VmRSS")
print(listener.location, flush=True)
sys.stdin.read()
listener.shutdown()
print(resident("VmHWM") - before)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(reshape.__file__).parents[1])}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        location = process.stdout.readline().strip()
        junk = bytes(MB)
        for begin in (b"", _MAGIC + bytes(_NONCE)):
            sent = 0
            while sent < 400:
                with socket.create_connection(place(location), SOON_S) as stranger:
                    try:
                        stranger.sendall(begin)
                        while sent < 400:
                            sent += 1
                            stranger.sendall(junk)
                    except ConnectionError:
                        pass
        with connect(location, Access("wrong")) as caller, pytest.raises(NotAdmitted):
            call(caller, "echo", bytes(10 * MB), SOON_S)
        grown, _ = process.communicate("")
    assert int(grown) < 10 * MB


def _received(caller: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = caller.recv(length - len(data))
        assert more, f"the connection ended after {data!r}"
        data += more
    return data


@contextmanager
def impostor(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Somebody who listens at an address, serves one caller, and goes."""
    with socket.create_server((LOCAL, 0)) as server:

        def serve() -> None:
            caller, _ = server.accept()
            with caller:
                answer(caller)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"tcp://{LOCAL}:{server.getsockname()[1]}"
        thread.join(SOON_S)
        assert not thread.is_alive()
