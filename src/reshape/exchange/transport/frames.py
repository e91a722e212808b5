"""Frames: a small head with fields, and a body that is read into one buffer of Arrow's.

Whoever sends frames has shown that it knows the secret. Their lengths are limited all the same.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pyarrow as pa

from reshape.exchange.errors import WireError
from reshape.exchange.transport.pipes import Pipe

_HEADER = struct.Struct("<BxxxIQ")  # kind, bytes of the head, bytes of the body
_ALIGNED = 8
# Names, texts of errors, and envelopes: eight bytes for each slice of a message, of which there are fewer than rows.
MOST_HEAD = 16 * 2**20
# Messages of the control plane have some kilobytes, with samples of rows some megabytes.
MOST_CALL = 2**30
# A batch: Arrow's strings end at 2 GiB a column, and senders cut batches at some ten thousand rows.
MOST_BODY = 2**36
# An error's text.
MESSAGE_CHARS = 2_000


class Kind(IntEnum):
    CALL = 1  # an action and what it needs; answered
    NOTE = 2  # not answered
    NOTES_END = 3  # answered when all notes have been taken
    STREAM = 4  # a stream is opened: its name, its schema
    ROWS = 5  # a message of a stream: an envelope, a batch
    MARKED = 6  # to the sender of a stream: all that came before this mark has been taken
    ANSWER = 7
    FAILED = 8  # the cause, as its first byte says


_KINDS = frozenset(Kind)


class Cause(IntEnum):
    ERROR = 0
    CLOSING = 1  # nobody is here any more
    NOT_ADMITTED = 2


@dataclass(frozen=True, slots=True)
class Frame:
    kind: Kind
    head: bytes = b""
    body: Any = b""


def failed(cause: Cause, text: str) -> Frame:
    return Frame(Kind.FAILED, bytes([cause]) + text[:MESSAGE_CHARS].encode(errors="replace"))


def read_failure(frame: Frame) -> tuple[Cause, str]:
    code, text = frame.head[:1], frame.head[1:].decode(errors="replace")
    return (Cause(code[0]) if code and code[0] in set(Cause) else Cause.ERROR), text


def send_frame(pipe: Pipe, frame: Frame) -> None:
    head, body = frame.head, frame.body
    most = MOST_BODY if frame.kind == Kind.ROWS else MOST_CALL
    if len(head) > MOST_HEAD or len(body) > most:
        raise WireError(
            f"a message of {len(head):,} and {len(body):,} bytes is too long: at most {MOST_HEAD:,} and {most:,} "
            "bytes can be sent"
        )
    padding = bytes(-len(head) % _ALIGNED)
    pipe.send([_HEADER.pack(frame.kind, len(head), len(body)) + head + padding, body])


def read_frame(pipe: Pipe) -> Frame:
    header = bytearray(_HEADER.size)
    pipe.read_into(memoryview(header))
    number, head, body = _HEADER.unpack(header)
    if number not in _KINDS:
        raise WireError(f"a frame of kind {number} is not known here")
    kind = Kind(number)
    most = MOST_BODY if kind == Kind.ROWS else MOST_CALL
    if head > MOST_HEAD or body > most:
        raise WireError(f"a frame of {head:,} and {body:,} bytes is too long: at most {MOST_HEAD:,} and {most:,}")
    start = head + -head % _ALIGNED
    if not start + body:
        return Frame(kind)
    buffer = pa.allocate_buffer(start + body)
    view = memoryview(buffer)
    pipe.read_into(view)
    return Frame(kind, bytes(view[:head]), buffer.slice(start, body))
