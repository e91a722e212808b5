"""What goes wrong in a run, as data: a fault of one kind, at one message or at one write to disk, drawn by a seed.

Each flow has certain *places*: messages of a kind that come at least so often in every run of it, however fast the
machine is. A fault is only ever put at such a place, so no run waits for one that has no chance, and a run in which it
did not strike is an error of this table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random


class Channel(StrEnum):
    REPORT = "report"  # a call that the driver answers
    NOTE = "note"  # counts, on a line that stays open
    ORDER = "order"  # the answer to a poll
    STREAM = "stream"  # a message with rows or state, by the stream's purpose
    SPILL = "spill"  # waiting rows on their way to disk


class Kind(StrEnum):
    LOST = "lost"  # it does not arrive; who waits for an answer hears that the connection broke
    UNANSWERED = "unanswered"  # it arrives, but its answer does not
    DOUBLED = "doubled"  # it arrives twice
    ECHOED = "echoed"  # it arrives once more, when others have come in between
    LATE = "late"  # others overtake it
    CUT = "cut"  # all connections to whom it is for are reset
    GONE = "gone"  # the process that sends it, or that obeys it, is killed at this moment
    DRIVER_GONE = "driver gone"  # the driver's process is
    DISK_FULL = "disk full"


@dataclass(frozen=True, slots=True)
class Place:
    channel: Channel
    what: str

    def __str__(self) -> str:
        return f"{self.channel} {self.what}"


@dataclass(frozen=True, slots=True)
class Fault:
    """It strikes once: at the ``nth`` occasion, from 1 on, that a run has at this place."""

    kind: Kind
    place: Place
    nth: int

    def __str__(self) -> str:
        return f"{self.kind} at {self.place} {self.nth}"

    @property
    def error(self) -> str | None:
        """What the flow's error says, as a pattern; None where the result has to be exact."""
        match self.kind:
            case Kind.DRIVER_GONE:
                # Hosts give up one after the other, and the last may see another one go first.
                return r"no answer from the driver|the driver did not listen|^host \d is gone"
            case Kind.DISK_FULL:
                return r"cannot keep waiting rows in .*No space left on device; free some disk space"
            case Kind.LOST | Kind.DOUBLED if self.place == ROWS:
                return r"message \d+ of a stream (is missing|came twice)"
        return None


@dataclass(frozen=True, slots=True)
class Case:
    """One run: a flow by its name, and what goes wrong in it."""

    seed: int
    flow: str
    fault: Fault

    def __str__(self) -> str:
        return f"{self.seed}, {self.flow}: {self.fault}"


ROWS = Place(Channel.STREAM, "rows")

# What can happen to what. Connections to the driver are cut by its reports, those to a host by streams.
_REPORT_KINDS = (Kind.LOST, Kind.UNANSWERED, Kind.DOUBLED, Kind.LATE, Kind.CUT, Kind.GONE, Kind.DRIVER_GONE)
KINDS: dict[Channel, tuple[Kind, ...]] = {
    Channel.REPORT: (*_REPORT_KINDS, Kind.ECHOED),
    Channel.NOTE: (Kind.LOST, Kind.DOUBLED, Kind.ECHOED, Kind.LATE, Kind.GONE),
    Channel.ORDER: (Kind.LOST, Kind.DOUBLED, Kind.LATE, Kind.GONE, Kind.DRIVER_GONE),
    Channel.STREAM: (Kind.LOST, Kind.DOUBLED, Kind.LATE, Kind.CUT, Kind.GONE),
    Channel.SPILL: (Kind.DISK_FULL, Kind.GONE),
}
# Of the last words of a task nothing is certain to come later, and nobody waits for an answer to a farewell.
_LAST_WORDS = ("OperatorDone", "Leaving")


def _places(channel: Channel, **counts: int) -> dict[Place, int]:
    return {Place(channel, what.replace("_", " ")): count for what, count in counts.items()}


# Of all flows but those whose hosts read: two hosts, one source or two of two partitions each.
_EVERYWHERE = {
    **_places(Channel.REPORT, HostReady=2, RouterStarted=2, RouterEnded=2, ScatteredSent=2, OperatorDone=2),
    **_places(Channel.NOTE, Progress=3, RouterCounted=3),
    **_places(Channel.ORDER, InputEnding=2, GatherScattered=2, EndInput=2),
    ROWS: 4,
}
_HAND_OVERS = {
    **_places(Channel.REPORT, TableApplied=4, Fenced=4, Holding=2, StateArrived=2),
    **_places(Channel.ORDER, UseTable=4, Hold=2, Give=2),
}
_KEYS_BY_STREAM = _places(Channel.STREAM, hand_over=2)
_SHARES = {
    **_places(Channel.REPORT, BacklogSent=1),
    **_places(Channel.ORDER, SendBacklog=1),
    **_places(Channel.STREAM, backlog=1, scattered=1),
}
# How often what happens for certain in each run of a flow of :mod:`.flows`.
CERTAIN: dict[str, dict[Place, int]] = {
    "group": {**_EVERYWHERE, **_HAND_OVERS, **_KEYS_BY_STREAM, **_SHARES},
    "join": {  # keys that move to where a copy of their state is need no stream
        **_EVERYWHERE,
        **_HAND_OVERS,
        **_places(Channel.ORDER, Replicate=1),
        **_places(Channel.STREAM, replica=1),
    },
    "sort": {
        **_EVERYWHERE,
        **_places(Channel.REPORT, Sampled=2),
        **_places(Channel.ORDER, UseBounds=2),
    },
    "window": {  # ranges of one partition; all else is as in a sort
        **_places(Channel.REPORT, RangeSorted=2, RangeComputed=2),
        **_places(Channel.ORDER, MeetRanges=2, GoOn=2),
    },
    "chain": {
        **_EVERYWHERE,
        **_HAND_OVERS,
        **_KEYS_BY_STREAM,
        **_places(Channel.REPORT, OperatorDone=4, ScatteredSent=4),
    },
    "files": {
        **_places(Channel.REPORT, HostReady=2, RouterStarted=2, SplitWanted=4, SourceRead=2, RouterEnded=2),
        **_places(Channel.ORDER, ReadSource=2, InputEnding=2, EndInput=2),
        **_places(Channel.STREAM, rows=1),
    },
    "spilled": _places(Channel.SPILL, write=4),
}


def _candidates() -> list[tuple[str, Kind, Place]]:
    return [
        (flow, kind, place)
        for flow, places in CERTAIN.items()
        for place in places
        for kind in KINDS[place.channel]
        if not (kind is Kind.ECHOED and place.what in _LAST_WORDS)
    ]


def cases(count: int) -> list[Case]:
    """So many runs, the same ones for the same numbers: all combinations of flow, place and kind come in turn, in a
    shuffled order, and each time with another occasion. Each kind comes early at each channel, for the others to wait
    for the long form; a disk that is full has one place only, so all its occasions do."""
    chosen: list[Case] = []
    while len(chosen) < count:
        rng = Random(f"faults {len(chosen)}")
        candidates = _candidates()
        rng.shuffle(candidates)
        early = {(kind, place.channel): (flow, kind, place) for flow, kind, place in candidates}
        later = [candidate for candidate in candidates if candidate not in early.values()]
        faults = [
            (flow, Fault(kind, place, rng.randint(1, CERTAIN[flow][place])))
            for flow, kind, place in (*early.values(), *later)
        ]
        full = [(flow, fault) for flow, fault in faults if fault.kind is Kind.DISK_FULL]
        every = [
            (flow, replace(fault, nth=nth + 1)) for flow, fault in full for nth in range(CERTAIN[flow][fault.place])
        ]
        for flow, fault in [*every, *faults][: count - len(chosen)]:
            chosen.append(Case(len(chosen), flow, fault))
    return chosen
