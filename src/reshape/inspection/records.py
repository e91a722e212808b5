"""What an inspection finds. Frozen records; `reshape.inspection.report` writes them for people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

# A key is hot when it alone has at least this part of what an even worker gets: less than that, and it fits in beside
# the others whatever worker it meets them on.
HOT_PART = 0.5


class Remedy(StrEnum):
    """What Spark does about a hot key of an operation."""

    BROADCAST = "broadcast"
    SKEW_JOIN = "skew join"
    PARTIAL_AGGREGATION = "partial aggregation"
    NOTHING = "nothing"

    @property
    def helps(self) -> bool:
        return self is not Remedy.NOTHING


@dataclass(frozen=True, slots=True)
class KeyShare:
    """The part of an input's rows that have one key, with its 95 % interval.

    ``values``: one for each key column, as JSON knows them; None is null.
    """

    values: tuple[Any, ...]
    rows: int
    share: float
    low: float
    high: float

    @property
    def has_null(self) -> bool:
        return any(value is None for value in self.values)


@dataclass(frozen=True, slots=True)
class Looked:
    """How much of an input was looked at.

    ``rows``: those that keys were counted of. ``whole``: they are all there are. ``how``: which rows, in words.
    """

    rows: int
    whole: bool
    how: str


@dataclass(frozen=True, slots=True)
class Times:
    """Estimates, as multiples of the time that evenly loaded workers would take: by the simulator, nothing measured.

    ``unmitigated``: rows stay where their keys' hashes send them. ``spark``: with what Spark does about it.
    """

    workers: int
    unmitigated: float
    spark: float
    reshape: float


@dataclass(frozen=True, slots=True)
class Finding:
    """One input of one operation: its keys, and what becomes of those that are hot.

    ``reason``: why nothing could be looked at; then there are neither keys nor times.
    """

    operation: str
    keys: tuple[str, ...]
    looked: Looked | None
    top: tuple[KeyShare, ...]
    hot: tuple[KeyShare, ...]
    remedy: Remedy
    spark: str
    reshape: str
    times: Times | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What `reshape.inspect` returns. Prints as a table; in a notebook it is one.

    >>> ranked = orders.selectExpr("rank() OVER (PARTITION BY IF(id < 900, 0, id) ORDER BY price) AS place")
    >>> [(finding.operation, finding.hot[0].values) for finding in reshape.inspect(ranked, workers=4).hot]
    [('window', (0,))]
    """

    findings: tuple[Finding, ...]
    workers: int
    seconds: float

    @property
    def hot(self) -> tuple[Finding, ...]:
        """Those with a hot key that Spark does nothing about, worst first."""
        bare = [finding for finding in self.findings if finding.hot and not finding.remedy.helps]
        return tuple(sorted(bare, key=lambda finding: -finding.hot[0].share))

    def as_json(self) -> dict[str, Any]:
        """All of it, as JSON knows it."""
        return {**asdict(self), "conclusion": self.conclusion}

    @property
    def conclusion(self) -> str:
        from reshape.inspection.report import conclusion

        return conclusion(self)

    def __str__(self) -> str:
        from reshape.inspection.report import plain

        return plain(self)

    def _repr_html_(self) -> str:
        from reshape.inspection.report import html

        return html(self)
