"""Frames and batches as bytes: whatever comes, an error of this room's own, and the listener goes on."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa
import pytest

from reshape.exchange.addresses import LOCAL
from reshape.exchange.errors import ExchangeError, WireError
from reshape.exchange.transport import frames
from reshape.exchange.transport.access import Access
from reshape.exchange.transport.batches import BatchCodec, read_schema
from reshape.exchange.transport.client import Client, call, connect
from reshape.exchange.transport.frames import Cause, Frame, Kind, failed, read_failure, read_frame, send_frame
from reshape.exchange.transport.listener import Listener
from reshape.exchange.transport.pipes import Pipe, PlainPipe
from reshape.exchange.transport.streams import Outlet
from reshape.exchange.wire import Envelope, Slice, StreamName
from reshape.exchange.wire import Kind as Message

SECRET = "a-secret-of-this-run"
SOON_S = 60.0
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
NAME = StreamName("run", 1, "source-0-0", 3, 0)


def sample(rows: int = 10) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(rows)), pa.array([f"row {n}" for n in range(rows)])], schema=SCHEMA)


class Taking:
    def accept(self, batch: pa.RecordBatch, envelope: Envelope) -> None:
        pass

    def close(self) -> None:
        pass


@contextmanager
def listening() -> Iterator[tuple[Listener, Client]]:
    opened = Listener(
        LOCAL,
        lambda: [SECRET],
        open_stream=lambda name, schema: Taking(),
        actions={"echo": lambda body: body},
        notes=lambda body: None,
    )
    try:
        with connect(opened.location, Access(SECRET)) as caller:
            yield opened, caller
    finally:
        opened.shutdown()


@contextmanager
def pipes() -> Iterator[tuple[Pipe, Pipe]]:
    one, other = socket.socketpair()
    yield PlainPipe(one), PlainPipe(other)


@pytest.mark.parametrize("head", [b"", b"x", b"12345678", bytes(range(256)) * 50])
@pytest.mark.parametrize("body", [b"", b"x", bytes(100_000)])
def test_frames_arrive_as_they_were(head: bytes, body: bytes) -> None:
    with pipes() as (sender, receiver):
        thread = threading.Thread(target=send_frame, args=(sender, Frame(Kind.CALL, head, body)))
        thread.start()
        frame = read_frame(receiver)
        thread.join()
    assert (frame.kind, frame.head, bytes(frame.body)) == (Kind.CALL, head, body)


def test_a_body_begins_where_arrow_wants_it() -> None:
    with pipes() as (sender, receiver):
        for length in range(20):
            send_frame(sender, Frame(Kind.ROWS, bytes(length), b"12345678"))
            assert read_frame(receiver).body.address % 8 == 0


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ((0, 0, 0), "kind 0 is not known"),
        ((99, 0, 0), "kind 99 is not known"),
        ((Kind.ROWS, frames.MOST_HEAD + 1, 0), "too long"),
        ((Kind.ROWS, 0, frames.MOST_BODY + 1), "too long"),
        ((Kind.CALL, 0, frames.MOST_CALL + 1), "too long"),
        ((Kind.STREAM, 0, 2**64 - 1), "too long"),
    ],
)
def test_frames_that_cannot_be_are_refused_before_they_are_read(header: tuple[int, int, int], what: str) -> None:
    with pipes() as (sender, receiver):
        sender.send([struct.pack("<BxxxIQ", *header)])
        with pytest.raises(WireError, match=what):
            read_frame(receiver)


def test_frames_that_are_too_long_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MOST_BODY", 100)
    with listening() as (_, caller):
        outlet = Outlet(caller, NAME, SCHEMA)
        with pytest.raises(ExchangeError, match="is too long: at most"):
            outlet.send(sample(), Envelope(Message.ROWS, 0, 0, (Slice(0, 0, 10),)))


@pytest.mark.parametrize("cause", list(Cause))
def test_failures_are_told_in_short(cause: Cause) -> None:
    assert read_failure(failed(cause, "größer")) == (cause, "größer")
    assert read_failure(failed(cause, "x" * 10_000)) == (cause, "x" * frames.MESSAGE_CHARS)
    assert read_failure(Frame(Kind.FAILED)) == (Cause.ERROR, "")
    assert read_failure(Frame(Kind.FAILED, b"\xffx")) == (Cause.ERROR, "x")


@pytest.mark.parametrize("seed", range(60))
def test_whatever_an_admitted_caller_sends_the_listener_serves_on(seed: int) -> None:
    """It answers with an error, or ends the connection: it neither hangs nor raises anything of its own."""
    rng = random.Random(seed)
    good = [
        (Kind.CALL, b"echo", b"x"),
        (Kind.NOTE, b"", b"note"),
        (Kind.NOTES_END, b"", b""),
        (Kind.STREAM, NAME.pack(), SCHEMA.serialize().to_pybytes()),
        (Kind.ROWS, Envelope(Message.ROWS, 0, 0, (Slice(0, 0, 10),)).pack(), sample().serialize().to_pybytes()),
        (Kind.ROWS, Envelope(Message.MARKER, 1, 0).pack(), b""),
        (Kind.ROWS, Envelope(Message.END, 0, 1).pack(), b""),
    ]
    with listening() as (_, caller):
        pipe = caller.take()
        try:
            for _ in range(rng.randrange(1, 8)):
                kind, head, body = rng.choice(good)
                data = _framed(kind, head, body) if rng.random() < 0.6 else _spoilt(rng, _framed(kind, head, body))
                pipe.send([data])
            pipe.connection.shutdown(socket.SHUT_WR)
            pipe.connection.settimeout(SOON_S)
            while pipe.connection.recv(65_536):
                pass
        except ConnectionError:
            pass
        assert call(caller, "echo", b"x", SOON_S) == b"x"


def _framed(kind: int, head: bytes, body: bytes) -> bytes:
    return struct.pack("<BxxxIQ", kind, len(head), len(body)) + head + bytes(-len(head) % 8) + body


def _spoilt(rng: random.Random, data: bytes) -> bytes:
    spoilt = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
    return bytes(spoilt[: rng.randrange(1, len(spoilt) + 1)]) if rng.random() < 0.3 else bytes(spoilt)


BATCHES = {
    "plain": sample(1_000),
    "a slice": sample(1_000).slice(17, 100),
    "no rows": sample(0),
    "no columns": sample(7).select([]),
    "no columns and no rows": sample(0).select([]),
    "nulls": pa.record_batch({"none": pa.nulls(5), "some": pa.array([None, 1, None, 2, None])}),
    "nested": pa.record_batch(
        {
            "list": pa.array([[1, 2], None, [], [3]]),
            "struct": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}, {"a": 2, "b": []}]),
            "map": pa.array([[("k", 1)], [], None, [("l", 2)]], pa.map_(pa.string(), pa.int32())),
        }
    ).slice(1, 3),
    "dictionary": pa.record_batch({"word": pa.array(["a", "b", None, "a"]).dictionary_encode()}).slice(1),
    "nested dictionary": pa.record_batch(
        {"s": pa.StructArray.from_arrays([pa.array(["a", "b"]).dictionary_encode()], ["w"])}
    ),
    "views": pa.record_batch({"v": pa.array(["a", "a text that does not fit beside its length"], pa.string_view())}),
    "metadata": sample(3).replace_schema_metadata({b"label": b"value"}),
    "many columns": pa.record_batch({f"c{n}": pa.array([n]) for n in range(2_000)}),
}


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_batches_arrive_as_they_were(batch: pa.RecordBatch) -> None:
    schema = read_schema(batch.schema.serialize())
    came = BatchCodec(schema).decode(BatchCodec(batch.schema).encode(batch))
    assert came.num_rows == batch.num_rows
    assert came.schema.equals(batch.schema, check_metadata=True)
    assert came.to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_bytes_that_are_no_batch_raise_one_error(batch: pa.RecordBatch) -> None:
    codec, rng = BatchCodec(batch.schema), random.Random(1)
    good = codec.encode(batch).to_pybytes()
    for _ in range(200):
        with suppress(WireError):
            codec.decode(pa.py_buffer(_spoilt(rng, good)))


def test_buffers_that_are_too_short_are_no_batch() -> None:
    """Else whoever reads the rows would read beyond them."""
    batch = pa.record_batch({"n": pa.array(np.arange(100))})
    whole = BatchCodec(batch.schema).encode(batch)
    with pytest.raises(WireError, match="not a batch"):
        BatchCodec(batch.schema).decode(whole.slice(0, whole.size - 400))
    other = pa.record_batch({"n": pa.array(np.arange(100, dtype=np.int8))})
    with pytest.raises(WireError, match="not a batch"):
        BatchCodec(batch.schema).decode(BatchCodec(other.schema).encode(other))


def test_a_batch_with_dictionaries_of_another_schema_is_refused() -> None:
    words = pa.record_batch({"word": pa.array(["a"]).dictionary_encode()})
    others = pa.record_batch({"other": pa.array(["a"]).dictionary_encode()})
    with pytest.raises(WireError, match="came in a stream of"):
        BatchCodec(words.schema).decode(BatchCodec(others.schema).encode(others))
