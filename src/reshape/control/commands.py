"""What the brain asks its body to do. Each command names the event that caused it.

Scattered parts of mutable state need no command: a body merges each at its owner before that state is output, when an
input is drained and at a watermark (§5.4, §6.3), whatever the brain has decided.
"""

from __future__ import annotations

from dataclasses import dataclass

from reshape.control.routing import Key, RoutingTable


@dataclass(frozen=True, slots=True)
class Command:
    id: int
    cause: int


@dataclass(frozen=True, slots=True)
class SetRouting(Command):
    """All routers use this table from their next batch on, and acknowledge its version."""

    table: RoutingTable


@dataclass(frozen=True, slots=True)
class ReplicateState(Command):
    """Copy immutable state of the skewed worker to its helpers (§5.2); routing changes after their acks.

    ``keys`` is the part of the partition, None for all of it.
    """

    transfer: int
    skewed: int
    helpers: tuple[int, ...]
    keys: frozenset[Key] | None


@dataclass(frozen=True, slots=True)
class HandOverState(Command):
    """Hand keys, or whole mini-partitions, over behind the markers of a routing version (§5.3).

    The table of that version follows in the same list of commands. The target holds back rows of these keys until the
    source has processed all that were sent to it before, and the state is there: moved if it is mutable, copied if it
    is not. If the hand-over fails, or is cancelled, the state ends at the source, even when it had arrived and only the
    answer was lost; rows held back or sent under this version go to the source, ahead of those sent under the next.
    """

    transfer: int
    source: int
    target: int
    keys: frozenset[Key]
    version: int
    buckets: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MoveBacklog(Command):
    """Move queued rows that belong to ``owner`` from the tail of one worker's queue to another's."""

    transfer: int
    source: int
    target: int
    owner: int
    rows: int


@dataclass(frozen=True, slots=True)
class CancelTransfer(Command):
    """Forget a transfer that failed or is late; what arrives of it later is dropped."""

    transfer: int
    reason: str
