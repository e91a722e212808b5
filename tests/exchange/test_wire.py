import json
import pickle
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reshape.control.profile import MOST_WORKERS
from reshape.exchange.errors import WireError
from reshape.exchange.wire import Envelope, Kind, Purpose, Slice, StreamName, offsets

workers = st.integers(0, MOST_WORKERS)
slices = st.builds(Slice, workers, workers, st.integers(0, 2**32 - 1))
envelopes = st.builds(
    Envelope,
    st.sampled_from(Kind),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.lists(slices, max_size=20).map(tuple),
    st.booleans(),
)
# JSON cannot carry lone surrogates through UTF-8, and nobody names a router so.
texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(2**63), 2**63)
purposes = st.sampled_from(Purpose)
names = st.builds(StreamName, texts, numbers, texts, numbers, numbers, purposes, numbers, numbers, numbers)
NAME = StreamName("run", 1, "source-0-3", 2, 1)


@given(envelopes)
def test_envelope_comes_back(envelope: Envelope) -> None:
    again = Envelope.unpack(envelope.pack())
    assert again == envelope
    assert type(again.kind) is Kind
    assert again.rows == sum(part.rows for part in envelope.slices)


def test_envelope_at_its_limits() -> None:
    most = Slice(MOST_WORKERS, MOST_WORKERS, 2**32 - 1)
    # One message may hold more slices than there are workers: a redirected owner's rows make a slice of their own.
    envelope = Envelope(Kind.ROWS, 2**32 - 1, 2**64 - 1, (most,) * (MOST_WORKERS + 10), combined=True)
    assert Envelope.unpack(envelope.pack()) == envelope


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope(Kind.ROWS, 0, 0, (Slice(MOST_WORKERS + 1, 0, 1),)),
        Envelope(Kind.ROWS, 0, 0, (Slice(0, -1, 1),)),
        Envelope(Kind.ROWS, 2**32, 0),
        Envelope(Kind.ROWS, 0, 2**64),
    ],
)
def test_envelope_beyond_its_limits_is_not_cut_short(envelope: Envelope) -> None:
    with pytest.raises(WireError, match="does not fit"):
        envelope.pack()


@given(envelopes, st.data())
def test_truncated_envelope_is_refused(envelope: Envelope, data: st.DataObject) -> None:
    packed = envelope.pack()
    with pytest.raises(WireError):
        Envelope.unpack(packed[: data.draw(st.integers(0, len(packed) - 1))])
    with pytest.raises(WireError):
        Envelope.unpack(packed + data.draw(st.binary(min_size=1, max_size=30)))


@given(st.binary(max_size=80))
@example(b"\x07" + bytes(17))
def test_any_bytes_are_an_envelope_or_a_wire_error(data: bytes) -> None:
    try:
        envelope = Envelope.unpack(data)
    except WireError:
        return
    assert envelope.pack() == data


@pytest.mark.parametrize(("position", "what"), [(0, "kind 9"), (1, "flags 0x9")])
def test_unknown_kinds_and_flags_are_refused(position: int, what: str) -> None:
    packed = bytearray(Envelope(Kind.MARKER, 3, 4).pack())
    packed[position] = 9
    with pytest.raises(WireError, match=what):
        Envelope.unpack(bytes(packed))


@given(names)
def test_stream_name_comes_back(name: StreamName) -> None:
    assert StreamName.unpack(name.pack()) == name


def test_truncated_stream_name_is_refused() -> None:
    for size in range(len(NAME.pack())):
        with pytest.raises(WireError, match="not the name of a stream"):
            StreamName.unpack(NAME.pack()[:size])


@given(st.binary() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(lambda v: json.dumps(v).encode()))
@example(b"\xff\xfe")
@example(b"[" * 100_000)
@example(b'{"run":"r","attempt":Infinity,"router":"a","operator":0,"port":0}')
@example(b'{"run":"r","attempt":NaN,"router":"a","operator":0,"port":0}')
@example(b'{"run":"r","attempt":1.5,"router":"a","operator":0,"port":0}')
@example(b'{"run":null,"attempt":1,"router":"a","operator":0,"port":0}')
@example(b'{"run":"r","attempt":1,"router":"a","operator":0,"port":true}')
@example(b'{"run":"r","attempt":1,"router":"a","operator":0}')
@example(b'{"run":"r","attempt":1,"router":"a","operator":0,"port":0,"transfer":"1"}')
@example(b'{"run":"r","attempt":1,"router":"a","operator":0,"port":0,"worker":null}')
@example(b'{"run":"r","attempt":1,"router":"a","operator":0,"port":0,"part":1.0}')
@example(b'{"run":"r","attempt":1,"router":"a","operator":0,"port":0,"more":0}')
@example(b'{"run":"r","attempt":' + b"1" * 5_000 + b',"router":"a","operator":0,"port":0}')
def test_any_other_bytes_are_no_stream_name(data: bytes) -> None:
    with pytest.raises(WireError, match="not the name of a stream") as caught:
        StreamName.unpack(data)
    assert len(str(caught.value)) < 1_000
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("purpose", ["gifts", 3, [], None])
def test_streams_for_unknown_purposes_are_refused(purpose: object) -> None:
    packed = NAME.pack().replace(b'"rows"', json.dumps(purpose).encode())
    with pytest.raises(WireError, match=re.escape(f"a stream for {purpose!r} is not known here")):
        StreamName.unpack(packed)


def test_a_stream_without_more_is_for_rows() -> None:
    name = StreamName.unpack(b'{"run":"run","attempt":1,"router":"source-0-3","operator":2,"port":1}')
    assert name == NAME
    assert (name.purpose, name.transfer, name.worker, name.part) == (Purpose.ROWS, 0, -1, 0)


def test_missing_stream_name_is_refused() -> None:
    with pytest.raises(WireError):
        StreamName.unpack(None)


def test_offsets_are_where_slices_start() -> None:
    assert offsets([Slice(0, 0, 3), Slice(1, 0, 0), Slice(1, 1, 4)]) == [0, 3, 3]
    assert offsets([]) == []
