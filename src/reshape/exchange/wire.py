"""What travels beside the rows: small fixed headers, no pickles.

A message is one Arrow record batch with an envelope. Its rows are ordered by destination; the envelope says how many of
them belong to which worker and to whose partition (the owner), so one message serves all workers of a host.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum, StrEnum
from typing import Any

from reshape.exchange.errors import WireError

_HEADER = struct.Struct("<BBIIQ")  # kind, flags, slices, routing version, sequence number
_SLICE = struct.Struct("<HHI")  # worker, owner, rows
_COMBINED = 1


class Kind(IntEnum):
    ROWS = 0
    MARKER = 1  # the router uses a new routing version from here on
    END = 2  # nothing follows; a stream that stops without it was broken off


_KINDS = frozenset(Kind)


@dataclass(frozen=True, slots=True)
class Slice:
    """So many of the batch's next rows are for this worker; they belong to the partition of ``owner``."""

    worker: int
    owner: int
    rows: int


@dataclass(frozen=True, slots=True)
class Envelope:
    """``sequence`` is how many messages with rows the stream had before, which receivers check; ``combined`` rows are
    partial aggregates."""

    kind: Kind
    version: int
    sequence: int
    slices: tuple[Slice, ...] = ()
    combined: bool = False

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.slices)

    def pack(self) -> bytes:
        flags = _COMBINED if self.combined else 0
        try:
            head = _HEADER.pack(self.kind, flags, len(self.slices), self.version, self.sequence)
            return head + b"".join(_SLICE.pack(part.worker, part.owner, part.rows) for part in self.slices)
        except struct.error as error:
            raise WireError(
                f"version {self.version}, sequence number {self.sequence} or one of {len(self.slices)} slices does not "
                f"fit an envelope: {error}"
            ) from error

    @classmethod
    def unpack(cls, data: bytes) -> Envelope:
        if len(data) < _HEADER.size:
            raise WireError(f"an envelope of {len(data)} bytes is too short")
        kind, flags, count, version, sequence = _HEADER.unpack_from(data)
        if len(data) != _HEADER.size + count * _SLICE.size:
            raise WireError(f"an envelope with {count} slices cannot have {len(data)} bytes")
        if kind not in _KINDS or flags & ~_COMBINED:
            raise WireError(f"an envelope of kind {kind} with flags {flags:#x} is not known here")
        slices = tuple(Slice(*fields) for fields in _SLICE.iter_unpack(data[_HEADER.size :]))
        return cls(Kind(kind), version, sequence, slices, bool(flags & _COMBINED))


class Purpose(StrEnum):
    """What a stream brings: rows of a router, or what one load transfer moves between two workers."""

    ROWS = "rows"
    REPLICA = "replica"  # a copy of immutable state
    HAND_OVER = "hand over"  # state of keys that have moved
    HELD = "held"  # rows that were held back for state that stays where it is
    BACKLOG = "backlog"  # rows that waited at another worker
    SCATTERED = "scattered"  # a helper's part of its owner's state
    RECALL = "recall"  # nothing: asks whether what could not be sent was taken all the same


@dataclass(frozen=True, slots=True)
class StreamName:
    """Which stream this is: who sends, to which input of which operator, in which attempt of which run."""

    run: str
    attempt: int
    router: str
    operator: int
    port: int
    purpose: str = Purpose.ROWS
    transfer: int = 0
    worker: int = -1  # whom a transfer is for
    part: int = 0  # numbers what a host sends for transfers, each try anew

    def pack(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def unpack(cls, data: bytes | None) -> StreamName:
        try:
            fields: dict[str, Any] = json.loads(data or b"")
            name = cls(**fields)
        except (ValueError, TypeError, RecursionError) as error:
            raise WireError(f"not the name of a stream: {(data or b'')[:200]!r}") from error
        texts = (name.run, name.router)
        numbers = (name.attempt, name.operator, name.port, name.transfer, name.worker, name.part)
        if not (all(type(text) is str for text in texts) and all(type(number) is int for number in numbers)):
            raise WireError(f"not the name of a stream: {(data or b'')[:200]!r}")
        if name.purpose not in list(Purpose):
            raise WireError(f"a stream for {name.purpose!r} is not known here")
        return name


def offsets(slices: Sequence[Slice]) -> list[int]:
    """Where each slice starts in its batch."""
    starts, at = [], 0
    for part in slices:
        starts.append(at)
        at += part.rows
    return starts
