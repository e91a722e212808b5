"""Every message comes back as it was sent, and what is none is refused by the name of its record and field."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reshape.protocol import codec
from reshape.protocol.codec import (
    Poll,
    Reports,
    decode_answer,
    decode_orders,
    decode_poll,
    decode_reports,
    encode_answer,
    encode_orders,
    encode_poll,
    encode_reports,
)
from reshape.protocol.errors import MessageRefused
from reshape.protocol.orders import Order, Orders
from reshape.protocol.reports import (
    Answer,
    Failed,
    HostReady,
    Progress,
    Report,
    RouterCounted,
    Sampled,
    Sender,
    StateArrived,
    TableApplied,
)

from .examples import ANSWERS, COUNTS, ORDERS, REPORTS, ROWS, TABLE, WORKER, kinds_of

SENDER = Sender("flow-1", 2, "host-0")


@pytest.mark.parametrize(("union", "examples"), [(Report, REPORTS), (Order, ORDERS), (Answer, ANSWERS)])
def test_every_record_has_an_example(union: Any, examples: list[Any]) -> None:
    assert {type(example) for example in examples if example is not None} == kinds_of(union)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: type(report).__name__)
def test_reports_come_back(report: Report) -> None:
    sent = Reports(SENDER, "a", 1, (report,))
    assert decode_reports(encode_reports(sent)) == sent


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: type(order).__name__)
def test_orders_come_back(order: Order) -> None:
    sent = Orders((order,), 7, over=False)
    assert decode_orders(encode_orders(sent)) == sent


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_answers_come_back(answer: Answer | None) -> None:
    assert decode_answer(encode_answer(answer)) == answer


def test_several_come_back_in_their_order() -> None:
    reports, orders = Reports(SENDER, "a", 1, tuple(REPORTS)), Orders(tuple(ORDERS), len(ORDERS), over=True)
    assert decode_reports(encode_reports(reports)) == reports
    assert decode_orders(encode_orders(orders)) == orders
    assert decode_reports(encode_reports(Reports(SENDER, "a", 1, ()))) == Reports(SENDER, "a", 1, ())
    for poll in (Poll(SENDER, 2**53), Poll(SENDER, 0, (COUNTED, PROGRESS))):
        assert decode_poll(encode_poll(poll)) == poll


def test_an_error_that_names_a_path_without_an_encoding_is_told_all_the_same() -> None:
    cause = b"/data/\xff".decode(errors="surrogateescape")
    [told] = decode_reports(encode_reports(Reports(SENDER, "a", 1, (Failed("host 0", cause, False),)))).reports
    assert isinstance(told, Failed)
    assert told.cause == "/data/\\udcff"


# What is refused


def altered(report: Report, change: Callable[[list[Any]], None]) -> bytes:
    """The fields of a report, as JSON has them, with a change."""
    message = json.loads(encode_reports(Reports(SENDER, "a", 1, (report,))))
    change(message[3][0]["fields"])
    return json.dumps(message).encode()


def put(value: Any, *path: Any) -> Callable[[list[Any]], None]:
    def change(fields: Any) -> None:
        for step in path[:-1]:
            fields = fields[step]
        fields[path[-1]] = value

    return change


HOST, APPLIED = HostReady(1, 2, 3, "tcp://a:1"), TableApplied(0, 1, "r", 5)
ARRIVED, COUNTED = StateArrived(0, 0, 1, 2, 3, 0.5), RouterCounted(0, 0, "r", COUNTS)
PROGRESS = Progress(0, (WORKER,), None, {0: COUNTS})


@pytest.mark.parametrize(
    ("report", "change", "where", "wanted"),
    [
        (HOST, put(-1, 0), "HostReady.host", "a number from 0 to 65535"),
        (HOST, put(65_536, 0), "HostReady.host", "a number from 0 to 65535"),
        (HOST, put(True, 0), "HostReady.host", "a number"),
        (HOST, put(1.0, 0), "HostReady.host", "a number"),
        (HOST, put("1", 0), "HostReady.host", "a number"),
        (HOST, put(None, 0), "HostReady.host", "a number"),
        (HOST, put(2**53 + 1, 1), "HostReady.stage", "a number"),
        (HOST, put(10**4000, 1), "HostReady.stage", "a number"),
        (HOST, put(4711, 3), "HostReady.location", "a str"),
        (HOST, put("\ud800", 3), "HostReady.location", "a text that can be encoded"),
        (HOST, lambda fields: fields.pop(), "HostReady", "a list of 4 fields (host, stage, task, location)"),
        (HOST, lambda fields: fields.append(0), "HostReady", "a list of 4 fields"),
        (APPLIED, put(2**32, 3), "TableApplied.version", "a number from 0 to"),
        (APPLIED, put(-1, 3), "TableApplied.version", "a number from 0 to"),
        (ARRIVED, put(2**31, 2), "StateArrived.transfer", "a number"),
        (ARRIVED, put(float("nan"), 5), "StateArrived.seconds", "a number"),
        (ARRIVED, put(float("inf"), 5), "StateArrived.seconds", "a number"),
        (ARRIVED, put(-0.1, 5), "StateArrived.seconds", "a number"),
        (ARRIVED, put(10**400, 5), "StateArrived.seconds", "a number"),
        (Failed("a", "b", False), put(1, 2), "Failed.lost", "a bool"),
        (COUNTED, put(None, 3), "RouterCounted.counts > RouterCounts", "a list of 4 fields"),
        (COUNTED, put({}, 3, 0), "RouterCounted.counts > RouterCounts.routed", "a list"),
        (COUNTED, put("4" + "00" * 67, 3, 0), "RouterCounted.counts > RouterCounts.routed", "more than 16 numbers"),
        (COUNTED, put("4" + "00" * 64, 3, 0), "RouterCounted.counts > RouterCounts.routed", "more than 16 numbers"),
        (COUNTED, put("8" + "ff" * 136, 3, 0), "RouterCounted.counts > RouterCounts.routed", "more than 16 numbers"),
        (COUNTED, put("8" + "7f" * 136, 3, 1), "RouterCounted.counts > RouterCounts.sent", "more than 16 numbers"),
        (COUNTED, put("5" + "00" * 68, 3, 0), "RouterCounted.counts > RouterCounts.routed", "more than 16 numbers"),
        (COUNTED, put("4" + "0x" * 68, 3, 0), "RouterCounted.counts > RouterCounts.routed", "more than 16 numbers"),
        (COUNTED, put("", 3, 0), "RouterCounted.counts > RouterCounts.routed", "more than 16 numbers"),
        (COUNTED, put([], 3, 2), "RouterCounted.counts > RouterCounts.keys", "a dict"),
        (COUNTED, put({"1": [1]}, 3, 2), "RouterCounted.counts > RouterCounts.keys", "a dict"),
        (COUNTED, put({"one": 1}, 3, 3), "RouterCounted.counts > RouterCounts.buckets", "a whole number as a key"),
        (COUNTED, put({"01": 1}, 3, 3), "RouterCounted.counts > RouterCounts.buckets", "a whole number as a key"),
        (COUNTED, put({" 1": 1}, 3, 3), "RouterCounted.counts > RouterCounts.buckets", "a whole number as a key"),
        (COUNTED, put({"-1": 1}, 3, 3), "RouterCounted.counts > RouterCounts.buckets", "a number from 0 to"),
        (PROGRESS, put(-1, 1, 0, 2, 1), "Progress.workers > WorkerCounts.waiting", "a number from 0 to"),
        (Sampled(0, 0, ROWS), put("not base64!", 2), "Sampled.rows", "a record batch"),
        (Sampled(0, 0, ROWS), put("", 2), "Sampled.rows", "a record batch"),
        (Sampled(0, 0, ROWS), put([], 2), "Sampled.rows", "a str"),
    ],
)
def test_a_field_that_cannot_be_is_refused_by_name(
    report: Report, change: Callable[[list[Any]], None], where: str, wanted: str
) -> None:
    with pytest.raises(MessageRefused) as refused:
        decode_reports(altered(report, change))
    assert refused.value.where == f"Reports.reports > {where}"
    assert refused.value.wanted.startswith(wanted)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(
    "report",
    [
        {"kind": "Abort", "fields": ["a", "b"]},  # an order
        {"kind": "Leaving"},
        {"kind": "Leaving", "fields": [], "more": 1},
        {"kind": ["Leaving"], "fields": []},
        {"fields": []},
        ["Leaving", []],
        "Leaving",
        None,
    ],
)
def test_a_kind_that_is_unknown_is_refused(report: Any) -> None:
    message = json.loads(encode_reports(Reports(SENDER, "a", 1, ())))
    message[3].append(report)
    with pytest.raises(MessageRefused, match=r"Reports\.reports must be (one of HostReady, Progress, |a dict)"):
        decode_reports(json.dumps(message).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"{}",
        b"[]",
        b"[1,2,3]",
        b"\xff\xfe\x00",
        b"\x80",
        b"NaN",
        b"1" * 5_000,
        b"[" * 100_000,
        b"[" * 900 + b"]" * 900,
        b'{"kind":"Met","kind":"Refused","fields":["a","b"]}',
    ],
    ids=lambda body: repr(body[:12]),
)
@pytest.mark.parametrize("decode", [decode_reports, decode_poll, decode_orders, decode_answer])
def test_what_is_no_message_is_refused(decode: Callable[[bytes], Any], body: bytes) -> None:
    if (decode, body) == (decode_answer, b"null"):
        assert decode(body) is None
        return
    with pytest.raises(MessageRefused):
        decode(body)


def change_table(change: Callable[[dict[str, Any]], Any]) -> bytes:
    message = json.loads(encode_answer(next(answer for answer in ANSWERS if type(answer).__name__ == "NewestTable")))
    change(message["fields"][0])
    return json.dumps(message).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.update(version=2**32),
        lambda table: table.update(version=True),
        lambda table: table.update(two_choices=1),
        lambda table: table.update(more=1),
        lambda table: table.pop("buckets"),
        lambda table: table.update(owners={}),
        lambda table: table.update(owners=[[0, [[0, 1, 0]]]]),  # one divided by nothing
        lambda table: table.update(owners=[[0, [[0, 1, 2]]]]),  # half of the rows go nowhere
        lambda table: table.update(owners=[[0, [[0, -1, 2], [1, 3, 2]]]]),
        lambda table: table.update(owners=[[0, [[0, 1, 1]]], [0, [[1, 1, 1]]]]),
        lambda table: table.update(owners=[[0, [[65_536, 1, 1]]]]),
        lambda table: table.update(keys=[[2**64, [[0, 1, 1]]]]),
        lambda table: table.update(keys=[[0.5, [[0, 1, 1]]]]),
        lambda table: table.update(keys=[[[], [[0, 1, 1]]]]),
        lambda table: table.update(keys=7),
    ],
)
def test_a_table_that_cannot_be_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    with pytest.raises(MessageRefused, match=r"NewestTable\.table must be a routing table \("):
        decode_answer(change_table(change))
    assert decode_answer(change_table(lambda table: None)) is not None, "without a change it is a table"
    assert TABLE.owners


def test_columns_without_buffers_cannot_claim_any_number_of_rows() -> None:
    nothing = pa.record_batch([pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])], ["n"])
    with pytest.raises(MessageRefused, match=r"Sampled\.rows must be a record batch \(ValueError: 2,147,483,647"):
        decode_reports(encode_reports(Reports(SENDER, "a", 1, (Sampled(0, 0, nothing),))))


def test_texts_of_spark_may_be_no_utf8() -> None:
    texts = pa.array([b"\xffA", None, b"ok"]).view(pa.string())
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 1, 3]), pa.array(["x", "y", "z"]), texts)
    structs = pa.StructArray.from_arrays([texts, maps], ["text", "maps"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 3]), texts)
    wide = texts.view(pa.binary()).cast(pa.large_binary()).view(pa.large_string())
    rows = pa.record_batch([texts, structs, lists, wide], ["a", "b", "c", "d"])
    (came,) = decode_reports(encode_reports(Reports(SENDER, "a", 1, (Sampled(0, 0, rows),)))).reports
    assert isinstance(came, Sampled)
    assert came.rows.schema == rows.schema
    assert came.rows["a"].view(pa.binary()).to_pylist() == [b"\xffA", None, b"ok"]


def test_texts_whose_offsets_are_wrong_are_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 5, 2], np.int32).tobytes())
    wrong = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abcde")])
    for column in (wrong, pa.StructArray.from_arrays([wrong], ["x"])):
        rows = pa.record_batch([column], ["k"])
        with pytest.raises(MessageRefused, match=r"Sampled\.rows must be a record batch \(ArrowInvalid"):
            decode_reports(encode_reports(Reports(SENDER, "a", 1, (Sampled(0, 0, rows),))))


def test_a_stream_without_a_batch_is_refused() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema):
        pass
    text = base64.b64encode(sink.getvalue()).decode()
    with pytest.raises(MessageRefused, match=r"Sampled\.rows must be a record batch \(StopIteration"):
        decode_reports(altered(Sampled(0, 0, ROWS), put(text, 2)))


def test_a_type_that_messages_cannot_hold_is_an_error_of_the_program() -> None:
    with pytest.raises(TypeError, match="messages cannot hold"):
        codec._coder(bytes)
