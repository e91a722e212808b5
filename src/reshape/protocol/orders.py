"""What the driver tells tasks to do. Each is a frozen record; tasks fetch them by polls, in their order."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from reshape.control.routing import RoutingTable
from reshape.exchange.fields import Bucket, Count, Index, KeyHash, Seconds, TransferNumber, Version

# For all tasks


@dataclass(frozen=True, slots=True)
class Abort:
    """The attempt has failed elsewhere: stop."""

    where: str
    cause: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Read nothing, send nothing and process nothing until :class:`Resume`; everything stays as it is."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on."""


@dataclass(frozen=True, slots=True)
class Enough:
    """The result needs no more rows: send none, and drop those that wait as if they had been processed."""


@dataclass(frozen=True, slots=True)
class UseTable:
    """Routers that feed this input use the table from their next batch on and say so.

    ``fence``: they also mark their streams and say when receivers have taken all that came before.
    """

    operator: Index
    port: Index
    table: RoutingTable
    fence: bool


@dataclass(frozen=True, slots=True)
class UseBounds:
    """The ranges of a sort, or of each heavy key of a window: one row of the columns of its order for each bound."""

    operator: Index
    port: Index
    rows: pa.RecordBatch


# For hosts alone


@dataclass(frozen=True, slots=True)
class ReadSource:
    """Read splits of a source, as long as there are any."""

    source: Index


@dataclass(frozen=True, slots=True)
class InputOrder:
    """Anything that is about one input of an operator and for hosts alone."""

    operator: Index
    port: Index


@dataclass(frozen=True, slots=True)
class InputEnding(InputOrder):
    """All rows of an input have been sent: say at once when those that wait are processed."""


@dataclass(frozen=True, slots=True)
class GatherScattered(InputOrder):
    """Every row has been processed: helpers give their scattered parts to the owners (§5.4)."""


@dataclass(frozen=True, slots=True)
class EndInput(InputOrder):
    """Every row of an input has been processed and its state is where it belongs."""


@dataclass(frozen=True, slots=True)
class MeetRanges(InputOrder):
    """All ranges of a partition are sorted: so many rows are in those before a worker's, and in all; these are next to
    it."""

    worker: Index
    partition: Count
    start: Count
    total: Count
    ahead: pa.RecordBatch
    behind: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class GoOn(InputOrder):
    """This is what the range before a worker's has left."""

    worker: Index
    partition: Count
    carried: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class TransferOrder(InputOrder):
    transfer: TransferNumber


@dataclass(frozen=True, slots=True)
class Replicate(TransferOrder):
    """Copy immutable state of the skewed worker to a helper (§5.2); ``keys`` None: all of it."""

    skewed: Index
    helper: Index
    keys: tuple[KeyHash, ...] | None


@dataclass(frozen=True, slots=True)
class Hold(TransferOrder):
    """The target of a hand-over holds back rows of these keys that come under this version or a later one."""

    worker: Index
    keys: tuple[KeyHash, ...]
    buckets: tuple[Bucket, ...]
    version: Version


@dataclass(frozen=True, slots=True)
class Give(TransferOrder):
    """The source gives the state of these keys to the target, behind the rows that are queued by now (§5.3).

    ``returns`` are cancelled hand-overs whose rows, held back at the source, it takes along; rows that wait at the
    target for the hand-overs in ``adopts`` go on with this one.
    """

    source: Index
    target: Index
    keys: tuple[KeyHash, ...]
    buckets: tuple[Bucket, ...]
    returns: tuple[TransferNumber, ...]
    adopts: tuple[TransferNumber, ...]


@dataclass(frozen=True, slots=True)
class Withdraw(TransferOrder):
    """The source gives nothing any more; it says when that is certain."""


@dataclass(frozen=True, slots=True)
class Forget(TransferOrder):
    """A copy that was given up is not taken in any more."""


@dataclass(frozen=True, slots=True)
class SendBacklog(TransferOrder):
    """Queued rows of an owner, the newest first, go from one worker to another."""

    source: Index
    target: Index
    owner: Index
    rows: Count


# What moves state and rows of workers.
MoveOrder = Replicate | Hold | Give | Withdraw | Forget | SendBacklog | GatherScattered | MeetRanges | GoOn
Order = Abort | Pause | Resume | Enough | UseTable | UseBounds | ReadSource | InputEnding | EndInput | MoveOrder


@dataclass(frozen=True, slots=True)
class Orders:
    """The answer to a poll: orders beyond the one that a task knows, the number of the last of them, and whether
    there will be no more.

    ``may_wait``: the task calls again at once, the driver answers when there is something to say, and counts go up a
    line of their own; else it calls again after ``pause_s`` and brings its counts along. In both cases nobody looks at
    counts that come more often than every ``pause_s``.
    """

    orders: tuple[Order, ...]
    last: Count
    over: bool
    may_wait: bool = True
    pause_s: Seconds = 0.0
