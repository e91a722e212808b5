"""How far a run is, as records that stay as they are: what a query keeps, and what listeners get."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    """Which flow runs. ``id`` is the same whenever the same flow is started; ``runId`` belongs to this start alone."""

    id: str
    runId: str  # noqa: N815 - as in PySpark
    name: str


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One DataFrame that a flow reads. Rows are those read, before any filter where hosts read them by themselves.

    ``part_read`` is between 0 and 1; None where nobody knows how much there is.
    """

    description: str
    numInputRows: int  # noqa: N815
    inputRowsPerSecond: float  # noqa: N815
    part_read: float | None


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """One worker of one operator. Lists have a place for each input of the operator; ``rows_of_owner`` are its
    processed rows by the worker whose partition they belong to: those of others it has processed as a helper."""

    operator: int
    label: str
    worker: int
    host: int
    rows_waiting: tuple[int, ...]
    rows_processed: tuple[int, ...]
    rows_of_owner: tuple[Mapping[int, int], ...]
    rows_emitted: int
    state_bytes: int
    busy_s: float
    done: bool


@dataclass(frozen=True, slots=True)
class HostProgress:
    """Bytes of rows that wait on one host, in memory and on disk."""

    host: int
    queue_bytes: int
    spilled_bytes: int


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """A run at one moment. Names that PySpark's `StreamingQueryProgress` has mean the same here.

    ``seconds`` count from when the hosts of this attempt were ready, without pauses; ``seconds_left`` is about how long
    it will take at the pace of the last seconds, None while that is unknown. ``representativeness`` says how far the
    running result has the proportions of the input so far.

    >>> query = reshape.start(by_shop, name="shops")
    >>> query.awaitTermination()
    True
    >>> query.lastProgress.name, query.lastProgress.numInputRows, query.lastProgress.part_read
    ('shops', 1000, 1.0)
    """

    id: str
    runId: str  # noqa: N815
    name: str
    timestamp: str
    attempt: int
    seconds: float
    numInputRows: int  # noqa: N815
    inputRowsPerSecond: float  # noqa: N815
    processedRowsPerSecond: float  # noqa: N815
    part_read: float | None
    seconds_left: float | None
    rows_waiting: int
    representativeness: float
    paused: bool = False
    sources: tuple[SourceProgress, ...] = ()
    workers: tuple[WorkerProgress, ...] = field(default=(), repr=False)
    hosts: tuple[HostProgress, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain lists, numbers and texts."""
        return asdict(self)

    @property
    def json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.as_dict())
