import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reshape.exchange.errors import CallError, ExchangeError, NoAnswer, NotAdmitted
from reshape.exchange.transport.access import Access, Tls
from reshape.exchange.transport.client import call, connect
from reshape.exchange.transport.frames import Frame
from reshape.exchange.transport.frames import Kind as FrameKind
from reshape.exchange.transport.listener import Listener
from reshape.exchange.transport.receiving import Receiver, Services
from reshape.exchange.transport.streams import NoteLine, Outlet
from reshape.exchange.wire import Envelope, Kind, Slice, StreamName

from ..certificates import certificate_for

SECRET = "a-secret-of-this-run"
SOON_S = 60.0
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def rows(start: int, count: int = 10) -> pa.RecordBatch:
    numbers = range(start, start + count)
    return pa.record_batch(
        [pa.array(numbers), pa.array([f"row {n}" if n % 3 else None for n in numbers])], schema=SCHEMA
    )


def envelope(sequence: int, count: int = 10) -> Envelope:
    slices = (Slice(1, 0, count // 2), Slice(2, 2, count - count // 2))
    return Envelope(Kind.ROWS, 7, sequence, slices, combined=bool(sequence % 2))


def name(router: str = "source-0-0", port: int = 0) -> StreamName:
    return StreamName("run", 1, router, 3, port)


class Inbox:
    """Keeps what streams bring; ``gate`` may block or raise before a message is taken."""

    def __init__(self, gate: Callable[[Envelope], None] = lambda _: None) -> None:
        self.gate = gate
        self.opened: list[tuple[StreamName, pa.Schema]] = []
        self.messages: dict[str, list[tuple[pa.RecordBatch, Envelope]]] = {}
        self.closed: list[str] = []

    def open_stream(self, stream: StreamName, schema: pa.Schema) -> Receiver:
        self.opened.append((stream, schema))
        self.messages[stream.router] = []
        return _Inbound(self, stream)


class _Inbound:
    def __init__(self, inbox: Inbox, stream: StreamName) -> None:
        self._inbox = inbox
        self._stream = stream

    def accept(self, batch: pa.RecordBatch, envelope: Envelope) -> None:
        self._inbox.gate(envelope)
        self._inbox.messages[self._stream.router].append((batch, envelope))

    def close(self) -> None:
        self._inbox.closed.append(self._stream.router)


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    listeners: list[Listener] = []

    def start(inbox: Inbox | None = None, tls: Tls | None = None, **actions: Callable[[bytes], bytes]) -> Listener:
        open_stream = inbox.open_stream if inbox else None
        listeners.append(Listener("127.0.0.1", lambda: ["another run's", SECRET], tls, open_stream, actions))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.shutdown()


@pytest.fixture(scope="module")
def tls() -> Tls:
    made = certificate_for("reshape")
    return Tls(made.certificate, made.key, authority=made.authority, name="reshape")


def outlet_to(listener: Listener, stream: StreamName | None = None, access: Access | None = None) -> Outlet:
    return Outlet(connect(listener.location, access or Access(SECRET)), stream or name(), SCHEMA)


def send_until_refused(outlet: Outlet, batch: pa.RecordBatch, count: int) -> None:
    for sequence in range(count):
        outlet.send(batch, envelope(sequence, batch.num_rows))
    outlet.close()


def sample_messages(count: int, first: int = 0) -> list[tuple[pa.RecordBatch, Envelope]]:
    return [(rows(first + 10 * sequence), envelope(sequence)) for sequence in range(count)]


def test_messages_arrive_in_order_and_equal(listen: Callable[..., Listener]) -> None:
    inbox = Inbox()
    outlet = outlet_to(listen(inbox))
    sent = [*sample_messages(50), (rows(0, 100_000), envelope(50, 100_000))]
    for batch, header in sent:
        outlet.send(batch, header)
    outlet.mark(8)
    outlet.await_mark(8)
    assert inbox.messages == {"source-0-0": sent}
    outlet.close()
    assert inbox.opened == [(name(), SCHEMA)]
    assert inbox.messages == {"source-0-0": sent}
    assert inbox.closed == ["source-0-0"]


@pytest.mark.parametrize(
    ("numbers", "what"),
    [
        ((0, 2), "message 1 of a stream is missing"),
        ((1,), "message 0 of a stream is missing"),
        ((0, 1, 1), "message 1 of a stream came twice"),
    ],
)
def test_a_message_that_is_missing_or_came_twice_breaks_the_stream(
    listen: Callable[..., Listener], numbers: tuple[int, ...], what: str
) -> None:
    outlet = outlet_to(listen(Inbox()))
    with pytest.raises(ExchangeError, match=what):
        for number in numbers:
            outlet.send(rows(0), envelope(number))
        outlet.close()


def test_the_last_message_of_a_stream_is_missed_too(listen: Callable[..., Listener]) -> None:
    inbox = Inbox()
    outlet = outlet_to(listen(inbox))
    outlet.send(rows(0), envelope(0))
    outlet._sent += 1
    with pytest.raises(ExchangeError, match="message 1 of a stream is missing: 1 have been taken"):
        outlet.close()
    assert inbox.closed == []


def test_slices_and_dictionaries_arrive(listen: Callable[..., Listener]) -> None:
    inbox = Inbox()
    batch = pa.record_batch({"word": pa.array(["a", "b", None, "a", "c"]).dictionary_encode(), "n": pa.nulls(5)})
    other = pa.record_batch({"word": pa.array(["x", None]).dictionary_encode(), "n": pa.nulls(2)})
    outlet = Outlet(connect(listen(inbox).location, Access(SECRET)), name(), batch.schema)
    sent = [batch.slice(1, 3), other, batch.slice(4)]
    for sequence, part in enumerate(sent):
        outlet.send(part, Envelope(Kind.ROWS, 0, sequence, (Slice(0, 0, part.num_rows),)))
    outlet.close()
    assert [part.to_pylist() for part, _ in inbox.messages["source-0-0"]] == [part.to_pylist() for part in sent]


def test_several_streams_at_once(listen: Callable[..., Listener]) -> None:
    """They overlap for sure: the first message of each waits for all the others' first ones."""
    count = 6
    together = threading.Barrier(count, timeout=SOON_S)

    def meet(header: Envelope) -> None:
        if header.sequence == 0:
            together.wait()

    inbox = Inbox(meet)
    listener = listen(inbox)
    failures: list[BaseException] = []

    def send(number: int) -> None:
        try:
            outlet = outlet_to(listener, name(f"source-{number}"))
            for batch, header in sample_messages(30, first=1_000 * number):
                outlet.send(batch, header)
            outlet.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON_S)
    assert failures == []
    assert inbox.messages == {f"source-{n}": sample_messages(30, first=1_000 * n) for n in range(count)}
    assert sorted(inbox.closed) == sorted(inbox.messages)


@pytest.mark.parametrize("secret", ["", "wrong", SECRET[:-1], SECRET + "x", SECRET.upper()])
def test_calls_without_the_secret_are_refused(listen: Callable[..., Listener], secret: str) -> None:
    inbox = Inbox()
    asked: list[bytes] = []

    def answer(body: bytes) -> bytes:
        asked.append(body)
        return b"answer"

    listener = listen(inbox, ask=answer)
    client = connect(listener.location, Access(secret))
    with pytest.raises(NotAdmitted, match="secret is missing or wrong") as refused:
        call(client, "ask", b"question", SOON_S)
    assert SECRET not in str(refused.value)
    with pytest.raises(ExchangeError, match=r"router source-0-0 .*secret is missing or wrong") as broken:
        send_until_refused(Outlet(client, name(), SCHEMA), rows(0), 1_000)
    assert SECRET not in str(broken.value)
    assert asked == []
    assert inbox.opened == []
    assert call(connect(listener.location, Access(SECRET)), "ask", b"question", SOON_S) == b"answer"
    assert asked == [b"question"]


def test_secrets_are_looked_up_at_every_call() -> None:
    secrets = ["first"]
    listener = Listener("127.0.0.1", lambda: secrets, actions={"ping": lambda body: body})
    client = connect(listener.location, Access("second"))
    with pytest.raises(NotAdmitted):
        call(client, "ping", b"x", SOON_S)
    secrets.append("second")
    assert call(client, "ping", b"x", SOON_S) == b"x"
    secrets.clear()
    with pytest.raises(NotAdmitted):
        call(client, "ping", b"x", SOON_S)
    listener.shutdown()


def test_secrets_never_show(tls: Tls, listen: Callable[..., Listener]) -> None:
    access = Access(SECRET, tls)
    shown = " ".join(map(repr, (access, tls, connect(listen(tls=tls).location, access), listen())))
    assert SECRET not in shown
    assert tls.key not in shown
    assert "PRIVATE" not in shown
    assert "tls=on" in repr(access)
    assert "tls=off" in repr(Access(SECRET))


def test_tls(tls: Tls, listen: Callable[..., Listener]) -> None:
    inbox = Inbox()
    listener = listen(inbox, tls, echo=lambda body: body[::-1])
    assert listener.location.startswith("tls://127.0.0.1:")
    outlet = outlet_to(listener, access=Access(SECRET, tls))
    for batch, header in sample_messages(20):
        outlet.send(batch, header)
    outlet.close()
    assert inbox.messages == {"source-0-0": sample_messages(20)}
    assert call(connect(listener.location, Access(SECRET, tls)), "echo", b"abc", SOON_S) == b"cba"
    with pytest.raises(ExchangeError, match="secret is missing or wrong"):
        send_until_refused(outlet_to(listener, access=Access("wrong", tls)), rows(0), 1_000)


def test_tls_refuses_plain_calls_and_strangers(tls: Tls, listen: Callable[..., Listener]) -> None:
    inbox = Inbox()
    listener = listen(inbox, tls)
    plain = connect(listener.location.replace("tls:", "tcp:"), Access(SECRET))
    with pytest.raises(ExchangeError, match="router source-0-0"):
        send_until_refused(Outlet(plain, name(), SCHEMA), rows(0), 1_000)
    elsewhere = Tls(tls.certificate, tls.key, tls.authority, "another-name")
    with pytest.raises(ExchangeError, match="router source-0-0"):
        send_until_refused(outlet_to(listener, access=Access(SECRET, elsewhere)), rows(0), 1_000)
    assert inbox.opened == []


def test_blocked_receiver_makes_the_sender_wait(listen: Callable[..., Listener]) -> None:
    go_on, reached = threading.Event(), threading.Event()

    def wait(_: Envelope) -> None:
        reached.set()
        assert go_on.wait(SOON_S)

    inbox = Inbox(wait)
    outlet = outlet_to(listen(inbox))
    batch = rows(0, 20_000)
    count = 500  # some 200 MB, far more than all buffers on the way
    sent, done = [0], threading.Event()

    def send() -> None:
        for sequence in range(count):
            outlet.send(batch, envelope(sequence, batch.num_rows))
            sent[0] += 1
        outlet.close()
        done.set()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    assert reached.wait(SOON_S)
    assert not done.wait(0.5)
    stalled = sent[0]
    assert stalled < count // 2
    go_on.set()
    assert done.wait(SOON_S)
    thread.join(SOON_S)
    assert [header.sequence for _, header in inbox.messages["source-0-0"]] == list(range(count))


def test_close_returns_after_the_last_message_was_taken(listen: Callable[..., Listener]) -> None:
    go_on, reached = threading.Event(), threading.Event()

    def wait(header: Envelope) -> None:
        if header.sequence == 2:
            reached.set()
            assert go_on.wait(SOON_S)

    inbox = Inbox(wait)
    outlet = outlet_to(listen(inbox))
    for batch, header in sample_messages(3):
        outlet.send(batch, header)
    closed = threading.Event()

    def close() -> None:
        outlet.close()
        closed.set()

    threading.Thread(target=close, daemon=True).start()
    assert reached.wait(SOON_S)
    assert not closed.wait(0.2)
    assert inbox.closed == []
    go_on.set()
    assert closed.wait(SOON_S)
    assert inbox.messages == {"source-0-0": sample_messages(3)}
    assert inbox.closed == ["source-0-0"]


def test_receiver_that_raises_fails_its_sender(listen: Callable[..., Listener]) -> None:
    def refuse(header: Envelope) -> None:
        if header.sequence == 3:
            raise ValueError("this disk is full")

    inbox = Inbox(refuse)
    outlet = outlet_to(listen(inbox), name("source-4-2"))
    with pytest.raises(ExchangeError, match=r"router source-4-2 to operator 3 broke: this disk is full"):
        send_until_refused(outlet, rows(0), 10_000)
    assert len(inbox.messages["source-4-2"]) == 3
    assert inbox.closed == []


def test_receiver_that_raises_at_the_last_message_fails_close(listen: Callable[..., Listener]) -> None:
    def refuse(_: Envelope) -> None:
        raise ValueError("not wanted")

    outlet = outlet_to(listen(Inbox(refuse)))
    outlet.send(*sample_messages(1)[0])
    with pytest.raises(ExchangeError, match="router source-0-0 to operator 3 broke: not wanted"):
        outlet.close()


def test_stream_that_is_not_wanted_fails_its_sender(listen: Callable[..., Listener]) -> None:
    with pytest.raises(ExchangeError, match=r"router source-0-0 .*no streams are taken here"):
        send_until_refused(outlet_to(listen()), rows(0), 10_000)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "without an envelope"),
        (b"xyz", "too short"),
        (Envelope(Kind.ROWS, 0, 0, (Slice(0, 0, 9),)).pack(), "for 9 rows came with 10 rows"),
        (Envelope(Kind.ROWS, 0, 0).pack(), "for 0 rows came with 10 rows"),
    ],
)
def test_bad_messages_are_refused(listen: Callable[..., Listener], metadata: bytes | None, message: str) -> None:
    inbox = Inbox()
    outlet = outlet_to(listen(inbox))
    outlet._line.send(Frame(FrameKind.ROWS, metadata or b"", rows(0).serialize()))
    with pytest.raises(ExchangeError, match=message):
        outlet.close()
    assert inbox.messages == {"source-0-0": []}
    assert inbox.closed == []


def test_rows_without_any_batch_are_refused(listen: Callable[..., Listener]) -> None:
    inbox = Inbox()
    outlet = outlet_to(listen(inbox))
    outlet._line.send(Frame(FrameKind.ROWS, Envelope(Kind.ROWS, 0, 0).pack()))
    with pytest.raises(ExchangeError, match="for 0 rows came with"):
        outlet.close()


@pytest.mark.parametrize("bad", [b"", b"{}", b"\xff" * 20])
def test_bad_stream_names_are_refused(
    listen: Callable[..., Listener], bad: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox()
    monkeypatch.setattr(StreamName, "pack", lambda _: bad)
    with pytest.raises(ExchangeError, match="not the name of a stream"):
        outlet_to(listen(inbox)).close()
    assert inbox.opened == []


def test_batch_of_another_schema_is_an_exchange_error(listen: Callable[..., Listener]) -> None:
    outlet = outlet_to(listen(Inbox()))
    with pytest.raises(ExchangeError, match="router source-0-0"):
        outlet.send(pa.record_batch({"other": pa.array([1])}), envelope(0, 1))


def test_listener_that_is_gone_is_an_exchange_error(listen: Callable[..., Listener]) -> None:
    listener = listen(Inbox())
    listener.shutdown()
    with pytest.raises(ExchangeError, match="router source-0-0"):
        send_until_refused(outlet_to(listener), rows(0), 1_000)


def test_killed_sender_is_not_taken_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stream ends, and nothing but a good end may look like one."""
    taken, ended = threading.Semaphore(0), threading.Event()
    inbox = Inbox(lambda _: taken.release())
    serve = Services.serve

    def watched(*arguments: Any) -> bool:
        goes_on = serve(*arguments)
        ended.set()
        return goes_on

    monkeypatch.setattr(Services, "serve", watched)
    listener = Listener("127.0.0.1", lambda: [SECRET], open_stream=inbox.open_stream)
    script = f"""
import sys
from tests.exchange import test_streams
client = test_streams.connect({listener.location!r}, test_streams.Access({SECRET!r}))
outlet = test_streams.Outlet(client, test_streams.name("killed"), test_streams.SCHEMA)
for message in test_streams.sample_messages(2):
    outlet.send(*message)
sys.stdin.read()
"""
    sender = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, cwd=Path(__file__).parents[2])
    try:
        assert taken.acquire(timeout=SOON_S)
        assert taken.acquire(timeout=SOON_S)
        sender.send_signal(signal.SIGKILL)
        assert ended.wait(SOON_S)
    finally:
        sender.kill()
        sender.communicate()
        listener.shutdown()
    assert inbox.messages == {"killed": sample_messages(2)}
    assert inbox.closed == []


def test_outlet_that_is_dropped_is_not_taken_for_the_end(listen: Callable[..., Listener]) -> None:
    inbox = Inbox()
    outlet = outlet_to(listener := listen(inbox))
    outlet.send(*sample_messages(1)[0])
    del outlet
    listener.shutdown()
    assert inbox.closed == []


def test_actions(listen: Callable[..., Listener]) -> None:
    def fail(_: bytes) -> bytes:
        raise ValueError("cannot do that")

    listener = listen(None, echo=lambda body: body * 2, nothing=lambda _: b"", fail=fail)
    client = connect(listener.location, Access(SECRET))
    assert call(client, "echo", b"\x00\xff", SOON_S) == b"\x00\xff\x00\xff"
    assert call(client, "nothing", b"", SOON_S) == b""
    large = np.random.default_rng(0).bytes(20_000_000)
    assert call(client, "echo", large, SOON_S) == large * 2
    with pytest.raises(CallError, match="unknown action 'other'"):
        call(client, "other", b"", SOON_S)
    with pytest.raises(CallError, match="cannot do that"):
        call(client, "fail", b"", SOON_S)


def test_action_has_a_time_limit(listen: Callable[..., Listener]) -> None:
    go_on = threading.Event()
    listener = listen(None, wait=lambda _: b"" if go_on.wait(SOON_S) else b"late")
    with pytest.raises(NoAnswer):
        call(connect(listener.location, Access(SECRET)), "wait", b"", 0.05)
    go_on.set()


def test_notes_arrive_in_order_and_all_before_close() -> None:
    notes: list[bytes] = []
    listener = Listener("127.0.0.1", lambda: [SECRET], notes=notes.append)
    try:
        lines = [NoteLine(connect(listener.location, Access(SECRET))) for _ in range(3)]
        for number in range(200):
            for line, _ in enumerate(lines):
                lines[line].send(b"%d %d" % (line, number))
        for sent in lines:
            sent.close()
    finally:
        listener.shutdown()
    for line, _ in enumerate(lines):
        assert [n for n in notes if n.startswith(b"%d " % line)] == [b"%d %d" % (line, n) for n in range(200)]


def test_notes_need_the_secret_and_somebody_who_takes_them(listen: Callable[..., Listener]) -> None:
    listener = listen(Inbox())
    for secret, message in (("wrong", "secret is missing or wrong"), (SECRET, "no notes are taken here")):
        with pytest.raises(CallError, match=message):
            line = NoteLine(connect(listener.location, Access(secret)))
            line.send(b"note")
            line.close()


def python_threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def is_listening(location: str) -> bool:
    host, port = location.rsplit("/", 1)[1].split(":")
    with socket.socket() as probe:
        probe.settimeout(SOON_S)
        return probe.connect_ex((host, int(port))) == 0


def test_shutdown_leaves_no_port_and_no_thread(listen: Callable[..., Listener]) -> None:
    before = python_threads()
    inbox = Inbox()
    listener = listen(inbox)
    outlet = outlet_to(listener)
    for message in sample_messages(5):
        outlet.send(*message)
    outlet.close()
    location = listener.location
    assert is_listening(location)
    listener.shutdown()
    assert not is_listening(location)
    assert python_threads() <= before
    listener.shutdown()


def test_shutdown_does_not_wait_for_open_streams(listen: Callable[..., Listener]) -> None:
    """There is a sender that neither sends nor closes."""
    other_inbox = Inbox()
    other = outlet_to(listen(other_inbox))
    taken = threading.Semaphore(0)
    inbox = Inbox(lambda _: taken.release())
    listener = listen(inbox)
    outlet = outlet_to(listener)
    outlet.send(*sample_messages(1)[0])
    assert taken.acquire(timeout=SOON_S)
    stopping = threading.Thread(target=listener.shutdown, daemon=True)
    stopping.start()
    stopping.join(SOON_S)
    assert not stopping.is_alive()
    assert not is_listening(listener.location)
    assert inbox.closed == []
    with pytest.raises(ExchangeError, match="router source-0-0"):
        outlet.close()
    other.send(*sample_messages(1)[0])
    other.close()
    assert other_inbox.closed == ["source-0-0"]
    assert not [thread for thread in python_threads() if thread.name.startswith(f"listener-{listener.port}")]
