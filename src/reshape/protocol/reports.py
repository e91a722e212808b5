"""What tasks tell the driver. Each is a frozen record; the codec knows all of them by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from reshape.control.routing import RoutingTable
from reshape.exchange.fields import Count, Index, Seconds, TransferNumber, Version
from reshape.exchange.tally import RouterCounts


@dataclass(frozen=True, slots=True)
class Sender:
    """Who speaks: a task of one attempt of one run. ``task`` is "host-0", or "source-0-3" for partition 3."""

    run: str
    attempt: Count
    task: str

    @property
    def is_host(self) -> bool:
        return self.task.startswith("host")


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """How a worker of one operator is doing. ``of_owner``: processed rows, by whose they were."""

    operator: Index
    worker: Index
    waiting: tuple[Count, ...]  # per port, as the next two
    processed: tuple[Count, ...]
    of_owner: tuple[Mapping[Index, Count], ...]
    state_bytes: Count
    emitted: Count
    busy_s: Seconds
    done: bool


@dataclass(frozen=True, slots=True)
class Preview:
    """What a worker of the last operator can show so far. ``left_out``: how many rows of its own partition it does not
    show; None when it does not show all that has been processed. ``of_owner``: rows of its first input that it stands
    for, by whose they were."""

    operator: Index
    worker: Index
    rows: pa.RecordBatch
    left_out: Count | None = 0
    of_owner: Mapping[Index, Count] = field(default_factory=dict)


# The life of a host


@dataclass(frozen=True, slots=True)
class HostReady:
    """A host listens. Answered by :class:`Met` when all are there, by :class:`Refused`, by :class:`AskAgain`, or by
    nothing: ask again at once."""

    host: Index
    stage: Count
    task: Count
    location: str


@dataclass(frozen=True, slots=True)
class Progress:
    """A host's counts; the newest replace all others. ``previews`` None: those of the report before still hold."""

    host: Index
    workers: tuple[WorkerCounts, ...]
    previews: tuple[Preview, ...] | None
    routers: Mapping[Index, RouterCounts]  # by the operator that sends
    queue_bytes: Count = 0  # rows that wait, in memory and on disk
    spilled_bytes: Count = 0
    unsent: Mapping[Index, Count] = field(default_factory=dict)  # rows that `routers` do not account for yet


@dataclass(frozen=True, slots=True)
class OperatorDone:
    """All workers of an operator on one host have finished, and receivers have taken everything that they sent."""

    operator: Index
    host: Index
    counts: RouterCounts | None


@dataclass(frozen=True, slots=True)
class Failed:
    """What ended a task. ``lost``: a part of the cluster, not the flow, is to blame."""

    where: str
    cause: str
    lost: bool


@dataclass(frozen=True, slots=True)
class Leaving:
    """A task reads no more orders."""


# Sources that Spark reads


@dataclass(frozen=True, slots=True)
class SourceBegins:
    """A source task is about to send a partition. ``task`` is Spark's number for this run of it, which no other run
    has. Answered by :class:`MayBegin`, or by nothing when the attempt is over."""

    source: Index
    partition: Count
    stage: Count
    task: Count


# Sources that hosts read by themselves


@dataclass(frozen=True, slots=True)
class SplitWanted:
    """A host has room for more of a source. Answered by :class:`SplitGiven`."""

    source: Index


@dataclass(frozen=True, slots=True)
class SourceRead:
    """Receivers have taken everything that a host has read of a source."""

    source: Index
    host: Index
    rows: Count


# Routers


@dataclass(frozen=True, slots=True)
class RouterStarted:
    """A router is about to send. Answered by the newest table."""

    operator: Index
    port: Index
    router: str


@dataclass(frozen=True, slots=True)
class RouterCounted:
    """``read``: rows of its source that these counts account for, as they are stored."""

    operator: Index
    port: Index
    router: str
    counts: RouterCounts
    read: Count = 0


@dataclass(frozen=True, slots=True)
class RouterEnded:
    """Receivers have taken everything that it sent. ``read``: rows of its source, as they are stored."""

    operator: Index
    port: Index
    router: str
    counts: RouterCounts
    read: Count = 0


@dataclass(frozen=True, slots=True)
class TableApplied:
    """A router uses the table of this version."""

    operator: Index
    port: Index
    router: str
    version: Version


@dataclass(frozen=True, slots=True)
class Fenced:
    """Receivers have taken everything that a router sent before this version."""

    operator: Index
    port: Index
    router: str
    version: Version


@dataclass(frozen=True, slots=True)
class Sampled:
    """Keys of rows that a router has, or will have, for an input with an order."""

    operator: Index
    port: Index
    rows: pa.RecordBatch


# Load transfers


@dataclass(frozen=True, slots=True)
class Holding:
    """The target of a hand-over holds back rows of its keys from now on."""

    operator: Index
    port: Index
    transfer: TransferNumber


@dataclass(frozen=True, slots=True)
class StateArrived:
    """A helper, or the target of a hand-over, has taken state in."""

    operator: Index
    port: Index
    transfer: TransferNumber
    helper: Index
    size: Count
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class StateStayed:
    """State did not leave its worker, or did not arrive."""

    operator: Index
    port: Index
    transfer: TransferNumber
    helper: Index
    reason: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The source of a hand-over gives nothing any more; what had left before is with the target."""

    operator: Index
    port: Index
    transfer: TransferNumber


@dataclass(frozen=True, slots=True)
class BacklogSent:
    """So many queued rows are with the target now."""

    operator: Index
    port: Index
    transfer: TransferNumber
    rows: Count


@dataclass(frozen=True, slots=True)
class BacklogStayed:
    """No queued row has moved."""

    operator: Index
    port: Index
    transfer: TransferNumber
    target: Index
    reason: str


@dataclass(frozen=True, slots=True)
class ScatteredSent:
    """All parts that a host's workers had of other partitions are with their owners."""

    operator: Index
    port: Index
    host: Index


# Ranges of one order


@dataclass(frozen=True, slots=True)
class RangeSorted:
    """A worker has all rows of its range of a partition, in order: so many, and these are the first and the last of
    them. Partitions are counted as the bounds have them."""

    operator: Index
    worker: Index
    partition: Count
    rows: Count
    first: pa.RecordBatch
    last: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class RangeComputed:
    """What a worker's range leaves to the next one, which goes on from there."""

    operator: Index
    worker: Index
    partition: Count
    carried: pa.RecordBatch


PortReport = (
    RouterStarted
    | RouterCounted
    | RouterEnded
    | TableApplied
    | Fenced
    | Holding
    | StateArrived
    | StateStayed
    | Withdrawn
    | BacklogSent
    | BacklogStayed
    | ScatteredSent
)
AttemptReport = (
    Progress
    | OperatorDone
    | RangeSorted
    | RangeComputed
    | Failed
    | Leaving
    | Sampled
    | SourceBegins
    | SplitWanted
    | SourceRead
    | PortReport
)
Report = HostReady | AttemptReport

# Questions are reports that the driver answers with more than that it has heard them.


@dataclass(frozen=True, slots=True)
class Met:
    """All hosts are there: this attempt begins."""

    attempt: Count
    locations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """This host is not wanted: its stage has failed for good, or it belongs to a try that is over."""

    where: str
    cause: str


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Others are still to come, and too many wait already: ask once more after so long."""

    pause_s: Seconds


@dataclass(frozen=True, slots=True)
class NewestTable:
    """``paused``: the router sends nothing before it is told to go on. ``enough``: it sends nothing at all."""

    table: RoutingTable
    paused: bool = False
    enough: bool = False


@dataclass(frozen=True, slots=True)
class MayBegin:
    """Whether a task may send its partition ``now``; if not, another one does: send nothing, and ask again."""

    now: bool


@dataclass(frozen=True, slots=True)
class SplitGiven:
    """The number of a split in its source's list; None when all have been given."""

    split: Count | None


Answer = Met | Refused | AskAgain | NewestTable | MayBegin | SplitGiven
