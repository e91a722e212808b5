"""Whatever bytes come, the codec gives a message or refuses: it raises nothing else, and it does not hang.

Half of the mutants are messages of ours with something wrong inside, which get further than bytes at random.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest

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
from reshape.protocol.orders import Orders
from reshape.protocol.reports import Sender

from .examples import ANSWERS, ORDERS, REPORTS

MUTANTS = 3_000  # of each way, four ways
SENDER = Sender("flow-1", 2, "host-0")

Decode = Callable[[bytes], Any]
DECODERS: tuple[Decode, ...] = (decode_reports, decode_poll, decode_orders, decode_answer)
ENCODERS: dict[Decode, Callable[[Any], bytes]] = dict(
    zip(DECODERS, (encode_reports, encode_poll, encode_orders, encode_answer), strict=True)
)
MESSAGES: list[tuple[Decode, bytes]] = [
    *((decode_reports, encode_reports(Reports(SENDER, "a", 1, (report,)))) for report in REPORTS),
    *((decode_orders, encode_orders(Orders((order,), 3, over=False))) for order in ORDERS),
    *((decode_answer, encode_answer(answer)) for answer in ANSWERS),
    (decode_poll, encode_poll(Poll(SENDER, 5))),
]
STRANGE: list[Any] = [
    *(None, True, False, 0, -1, 1, 0.5, -0.0, 1e308, 2**31, 2**32, 2**53, 2**53 + 1, 2**63, 2**64, -(2**64), 10**4000),
    *(float("nan"), float("inf"), float("-inf")),
    *("", "0", "-1", "host-0", "\ud800", "\0", "é" * 500, "AAAA", "====", base64.b64encode(b"ARROW1").decode()),
    *([], {}, [[]], [{}], {"": 0}, {"1": {"1": 1}}, {"1e3": 1}, [0] * 70),
    *({"kind": "Met"}, {"kind": "Met", "fields": []}),
]
# In the place of this text comes something that is nested too deeply for Python's own encoder.
DEEP = "here it gets deep"


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a message with every key or index in it."""
    if isinstance(value, list | dict):
        for at in range(len(value)) if isinstance(value, list) else list(value):
            yield value, at
            yield from places(value[at])


def mutate_bytes(rng: Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at : at + rng.choice((1, 4, 50))]
            case 2:
                changed[at:at] = rng.randbytes(rng.choice((1, 4)))
            case 3:
                changed[at:at] = changed[at : at + 20]
            case _ if at < len(changed):
                changed[at] = rng.choice(b'[]{},:"\\0-9e.\xff\x00')
    return bytes(changed)


def mutate_values(rng: Random, message: Any) -> Any:
    """Replace a value, or leave it out, double it, swap it with another one, bury it."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        everywhere = list(places(message))
        if not everywhere:
            return deepcopy(rng.choice(STRANGE))
        container, at = rng.choice(everywhere)
        match rng.randrange(6):
            case 0:
                del container[at]
            case 1 if isinstance(container, list):
                container.insert(at, deepcopy(container[at]))
            case 2:
                other, there = rng.choice(everywhere)
                first, second = deepcopy(container[at]), deepcopy(other[there])  # one may hold the other
                container[at] = second
                other[there] = first
            case 3:
                container[at] = DEEP
            case 4 if isinstance(container, dict):
                container[str(rng.choice(STRANGE))[:40]] = container.pop(at)
            case _:
                container[at] = deepcopy(rng.choice(STRANGE))
    return message


def mutate_batch(rng: Random, message: Any) -> Any:
    """Change bytes of the Arrow stream in a message."""
    streams = [
        (container, at)
        for container, at in places(message)
        if isinstance(container[at], str) and container[at].startswith("/////")
    ]
    container, at = rng.choice(streams)
    stream = bytearray(base64.b64decode(container[at]))
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = rng.randrange(len(stream))
        if rng.random() < 0.5:
            stream[place] ^= 1 << rng.randrange(8)
        else:  # a length or an offset that is far out
            stream[place : place + 4] = rng.choice((b"\xff\xff\xff\x7f", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff"))
    if rng.random() < 0.1:
        del stream[rng.randrange(len(stream)) :]
    container[at] = base64.b64encode(stream).decode()
    return message


def text_of(rng: Random, message: Any) -> bytes:
    depth = rng.choice((2, 50, 400, 900, 5_000))
    deep = rng.choice((b"[" * depth + b"]" * depth, b'{"kind":' * depth + b"0" + b"}" * depth, b"[" * depth))
    return json.dumps(message).encode().replace(json.dumps(DEEP).encode(), deep)


def survives(decode: Decode, body: bytes) -> bool:
    """Was it taken for a message? Then it can be sent on as well."""
    try:
        message = decode(body)
    except MessageRefused:
        return False
    ENCODERS[decode](message)
    return True


@pytest.mark.parametrize("way", ["bytes", "values", "batches", "strangers"])
def test_mutants_are_messages_or_refused(way: str) -> None:
    rng = Random(f"mutants {way}")
    with_batches = [(decode, body) for decode, body in MESSAGES if b'"/////' in body]
    for _ in range(MUTANTS):
        decode, body = rng.choice(with_batches if way == "batches" else MESSAGES)
        match way:
            case "bytes":
                mutant = mutate_bytes(rng, body)
            case "values":
                mutant = text_of(rng, mutate_values(rng, json.loads(body)))
            case "batches":
                mutant = text_of(rng, mutate_batch(rng, json.loads(body)))
            case _:  # a message that somebody else was to get
                decode, mutant = rng.choice(DECODERS), text_of(rng, mutate_values(rng, json.loads(body)))
        survives(decode, mutant)


def test_messages_that_are_not_changed_survive() -> None:
    assert all(survives(decode, body) for decode, body in MESSAGES)
