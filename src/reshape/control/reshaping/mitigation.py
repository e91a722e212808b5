"""The state of one mitigation: a skewed worker, its helpers, and where they are between detection and balance."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from reshape.control.routing import Key


class Phase(Enum):
    MIGRATING = "state is on its way"
    CATCHING_UP = "phase one: the helper catches up"
    RETURNING = "phase one, reversed: the skewed worker catches up"
    SHARING = "phase two: future load is shared"
    HANDING_OVER = "input has ended: queued rows move"
    ENDING = "keys return to their owner"


class TransferKind(Enum):
    REPLICA = "replica"
    HAND_OVER = "hand-over"
    BACKLOG = "backlog"


@dataclass(slots=True)
class Transfer:
    """Something under way between workers. ``waiting`` are the helpers that have not answered yet."""

    id: int
    kind: TransferKind
    skewed: int
    waiting: set[int]
    started: float
    deadline: float
    size: int = 0
    answered: int = 0
    keys: frozenset[Key] | None = None
    to_helper: bool = True
    owner: int = 0  # whose state or rows these are
    rows: int = 0  # queued rows that were asked for


@dataclass(slots=True)
class Mitigation:
    """``part`` is what is shared: None for the whole partition, else keys. ``version`` is the routing version that
    its last rule change went out with; until all routers use it, nothing new is decided for this group. ``lender`` is
    the owner of the rows that move, where those are not the skewed worker's own: it has got them as a helper."""

    skewed: int
    helpers: tuple[int, ...]
    since: float
    phase: Phase = Phase.MIGRATING
    part: frozenset[Key] | None = None
    version: int = 0
    transfers: set[int] = field(default_factory=set)
    last_gap: float | None = None
    last_time: float = 0.0
    gap_accepted: float = 0.0
    calm_reports: int = 0
    calm_from: tuple[float, int] = (0.0, 0)  # time and rows routed at the first of them
    queue_was_dry: bool = False
    lender: int | None = None

    @property
    def owner(self) -> int:
        return self.skewed if self.lender is None else self.lender

    @property
    def group(self) -> tuple[int, ...]:
        return (self.skewed, *self.helpers)

    def settled(self, applied_version: int) -> bool:
        """Nothing is under way: the workloads seen now are the result of what was decided last."""
        return self.version <= applied_version and not self.transfers
