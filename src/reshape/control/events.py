"""What the brain is told. Time is a field of the event: the brain has no clock.

Every event has an id, unique within a run; commands name the event that caused them.
Counts are cumulative where they say so, so that a lost or late report costs accuracy, never correctness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reshape.control.routing import Key


@dataclass(frozen=True, slots=True)
class Event:
    id: int
    time: float


@dataclass(frozen=True, slots=True)
class MetricsCollected(Event):
    """The periodic report about all workers of the operator; sequences are indexed by worker.

    workload:   phi (§2.1): rows sent to the worker and not yet processed, wherever they wait now
    processed:  cumulative rows processed by the worker
    routed:     cumulative rows bound for the worker as owner, counted before redirection
    received:   cumulative rows that routers sent to the worker, after redirection
    state_bytes: size of the worker's own keyed state
    remaining:  rows that the sources have still to send, None if unknown or unbounded
    keys:       per owner, rows per heavy key since the report before (a bounded summary, not a histogram)
    buckets:    rows per mini-partition since the report before, when the strategy asks for them
    busy:       share of the time since the report before that the worker was busy
    """

    workload: Sequence[int]
    processed: Sequence[int]
    routed: Sequence[int]
    received: Sequence[int]
    state_bytes: Sequence[int]
    remaining: int | None = None
    keys: Mapping[int, Mapping[Key, int]] = field(default_factory=dict)
    buckets: Mapping[int, int] = field(default_factory=dict)
    busy: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class StateTransferred(Event):
    """A helper has the state of a transfer and can process its rows. ``seconds`` counts from the command's arrival."""

    transfer: int
    helper: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TransferFailed(Event):
    """The state of a transfer did not reach a helper, or the backlog could not be moved."""

    transfer: int
    helper: int
    reason: str


@dataclass(frozen=True, slots=True)
class RoutingApplied(Event):
    """All routers use this version or a later one."""

    version: int


@dataclass(frozen=True, slots=True)
class BacklogMoved(Event):
    """Queued rows have left the source worker for the target; fewer than asked for when the queue held fewer."""

    transfer: int
    rows: int


@dataclass(frozen=True, slots=True)
class InputEnded(Event):
    """Routers will send no more rows; queues may still hold many."""


@dataclass(frozen=True, slots=True)
class Drained(Event):
    """Input has ended and every row has been processed."""
