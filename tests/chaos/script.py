"""A brain that works through a script, each step when what it needs is there; sources wait until it is through.

So whatever the machine's speed, each kind of transfer happens in each run, and where the script says so while another
one is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

from reshape.control.events import (
    BacklogMoved,
    Drained,
    Event,
    InputEnded,
    MetricsCollected,
    RoutingApplied,
    TransferFailed,
)
from reshape.control.profile import OperatorProfile, Partitioning

from .brain import strategy
from .transfers import Doings, Moving, Scope, TransferBrain
from .valves import Gate, Valves

STRATEGY = "scripted"
MOST_ROWS = 1_000
# Of a share; the rest stays with the owner.
HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


@dataclass(frozen=True, slots=True)
class Until:
    """What a script waits for; looked at when something has happened, never in the step that began to wait."""

    what: str
    is_so: Callable[[], bool]


Script = Callable[["ScriptedBrain"], Iterator[Until]]


class ScriptedBrain(TransferBrain):
    def __init__(self, profile: OperatorProfile, doings: Doings, valves: Valves, script: Script) -> None:
        super().__init__(profile, doings)
        self.valves = valves
        self.gate = valves.gates.setdefault(profile.name, Gate())
        self.moved_rows: dict[int, int] = {}  # by transfer of waiting rows; none where it failed
        self.applied = 0  # the version that all routers use
        self._received = [0] * profile.workers
        self._script = script(self)
        self._until: Until | None = Until("the first report", lambda: any(self._received))

    @property
    def through(self) -> bool:
        return self._until is None

    def step(self, event: Event) -> None:
        match event:
            case MetricsCollected():
                self._received = list(event.received)
            case RoutingApplied():
                self.applied = event.version
            case BacklogMoved():
                self.moved_rows[event.transfer] = event.rows
            case TransferFailed():
                self.moved_rows[event.transfer] = 0
            case InputEnded() | Drained():
                assert self.through, f"the input has ended while the script waits for {self.gate.waits_for}"
        if self._until is None or not self._until.is_so():
            return
        self._until = next(self._script, None)
        self.gate.waits_for = self._until.what if self._until is not None else "nothing"
        if self._until is None:
            self.gate.open()

    # What scripts wait for

    def used(self) -> Until:
        """All routers use the newest table, this step's included."""
        version = self.out.routing.next_version
        return Until(f"routing table {version}", lambda: self.applied >= version)

    def answered(self, moves: Iterable[Moving]) -> Until:
        numbers = [moving.id for moving in moves]
        return Until(f"hand-overs {numbers}", lambda: not any(number in self.moves for number in numbers))

    def copied(self, owner: int, helpers: Iterable[int]) -> Until:
        wanted = {(owner, helper) for helper in helpers}
        return Until(f"copies of worker {owner}'s state", lambda: wanted <= self.replicas)

    def rows_for(self, worker: int) -> Until:
        """Rows for a worker beyond those that are known of; the sources send one more batch each."""
        before = self._received[worker]
        self.gate.more()
        return Until(f"rows for worker {worker}", lambda: self._received[worker] > before)

    def next_event(self) -> Until:
        return Until("anything", lambda: True)

    # What scripts look for

    def scopes_of(self, is_bucket: bool) -> list[Scope]:
        """Keys or mini-partitions of the owner that has most of them, all at home."""
        at_home = [s for s, at in self.at.items() if s.is_bucket is is_bucket and at == s.owner]
        by_owner = {owner: [s for s in at_home if s.owner == owner] for owner in {s.owner for s in at_home}}
        return max(by_owner.values(), key=len, default=[])

    def beyond(self, worker: int, steps: int = 1) -> int:
        """A worker on another host: hosts have two neighbouring workers at the most."""
        return (worker + 2 * steps) % self.profile.workers


def everything(brain: ScriptedBrain) -> Iterator[Until]:
    """Each kind of action, alone and on top of one that is under way."""
    kinds = [False] if brain.profile.partitioning is Partitioning.RANGE else [False, True]
    for is_bucket in kinds:
        yield Until("keys to move", lambda is_bucket=is_bucket: bool(brain.scopes_of(is_bucket)))  # type: ignore[misc]
    if not brain.profile.order_matters:
        if brain.immutable:
            yield from replicate_all(brain)
        yield from share_records(brain)
        yield from help_with_waiting_rows(brain)
    for is_bucket in kinds:
        yield from move_and_return(brain, is_bucket)
        yield from move_on(brain, is_bucket)
        yield from cancel(brain, is_bucket)
        yield from cancel_a_chain(brain, is_bucket)
        yield from cancel_what_returns(brain, is_bucket)
    if not brain.profile.order_matters:
        yield from end_scattered(brain)


def replicate_all(brain: ScriptedBrain) -> Iterator[Until]:
    for owner in range(brain.profile.workers):
        helpers = (brain.beyond(owner), brain.beyond(owner, 2))
        brain.replicate(owner, helpers)
        yield brain.copied(owner, helpers)


def share_records(brain: ScriptedBrain) -> Iterator[Until]:
    for owner in range(brain.profile.workers):
        brain.share(owner, {brain.beyond(owner): HALF})
    yield brain.used()
    yield brain.rows_for(0)
    for owner in range(brain.profile.workers):
        brain.share(owner, {brain.beyond(owner): THIRD, brain.beyond(owner, 2): THIRD})
    yield brain.used()
    yield brain.rows_for(0)
    for owner in range(brain.profile.workers):
        brain.unshare(owner)
    yield brain.used()


def help_with_waiting_rows(brain: ScriptedBrain) -> Iterator[Until]:
    owner = brain.scopes_of(False)[0].owner
    yield from move_waiting_rows(brain, owner, owner, brain.beyond(owner))


def move_waiting_rows(brain: ScriptedBrain, owner: int, source: int, target: int) -> Iterator[Until]:
    """Rows wait because workers take none; perhaps they are still in flight at the first try."""
    brain.valves.stall()
    yield brain.rows_for(source)
    while not any(brain.moved_rows.values()):
        transfer = brain.move_backlog(source, target, owner, MOST_ROWS)
        yield Until("an answer about rows", lambda transfer=transfer: transfer in brain.moved_rows)  # type: ignore[misc]
    brain.valves.go_on()


def move_and_return(brain: ScriptedBrain, is_bucket: bool) -> Iterator[Until]:
    scopes = brain.scopes_of(is_bucket)
    owner = scopes[0].owner
    there = brain.hand_over(owner, brain.beyond(owner), scopes)
    yield brain.answered([there])
    yield brain.rows_for(there.target)
    back = brain.hand_over(there.target, owner, scopes)
    yield brain.answered([back])


def move_on(brain: ScriptedBrain, is_bucket: bool) -> Iterator[Until]:
    """While its keys are on their way to the second worker they are sent on to a third one."""
    scopes = brain.scopes_of(is_bucket)
    brain.valves.hold()
    first = brain.hand_over(scopes[0].owner, brain.beyond(scopes[0].owner), scopes)
    yield brain.next_event()
    second = brain.hand_over(first.target, _third(brain, first), scopes)
    yield brain.used()
    brain.valves.release()
    yield brain.answered([first, second])
    if second.target != scopes[0].owner:
        third = brain.hand_over(second.target, scopes[0].owner, scopes)
        yield brain.answered([third])


def _third(brain: ScriptedBrain, first: Moving) -> int:
    """A worker that got immutable state from its owner has it to use, not to pass on."""
    other = brain.beyond(first.source, 2)
    return other if brain.may_help(first.source, other) else first.source


def cancel(brain: ScriptedBrain, is_bucket: bool) -> Iterator[Until]:
    """Rows are held back at the target when its hand-over is cancelled: they return with the keys."""
    scopes = brain.scopes_of(is_bucket)
    brain.valves.hold()
    moving = brain.hand_over(scopes[0].owner, brain.beyond(scopes[0].owner), scopes)
    yield brain.used()
    yield brain.rows_for(moving.target)
    brain.undo(brain.built_upon(moving), "the script says so")
    yield brain.used()
    brain.valves.release()


def cancel_a_chain(brain: ScriptedBrain, is_bucket: bool) -> Iterator[Until]:
    scopes = brain.scopes_of(is_bucket)
    brain.valves.hold()
    first = brain.hand_over(scopes[0].owner, brain.beyond(scopes[0].owner), scopes)
    yield brain.used()
    yield brain.rows_for(first.target)
    second = brain.hand_over(first.target, _third(brain, first), scopes)
    yield brain.used()
    yield brain.rows_for(second.target)
    chain = brain.built_upon(first)
    assert chain == [first, second]
    brain.undo(chain, "the script says so")
    yield brain.used()
    brain.valves.release()


def cancel_what_returns(brain: ScriptedBrain, is_bucket: bool) -> Iterator[Until]:
    scopes = brain.scopes_of(is_bucket)
    brain.valves.hold()
    there = brain.hand_over(scopes[0].owner, brain.beyond(scopes[0].owner), scopes)
    yield brain.used()
    yield brain.rows_for(there.target)
    back = brain.hand_over(there.target, there.source, scopes)
    yield brain.used()
    assert brain.is_reverse(there, back)
    brain.cancel_what_returns(there)
    brain.valves.release()
    yield brain.answered([back])


def end_scattered(brain: ScriptedBrain) -> Iterator[Until]:
    """At the end of the input workers hold parts of other partitions."""
    for owner in range(brain.profile.workers):
        if brain.may_help(owner, brain.beyond(owner)):
            brain.share(owner, {brain.beyond(owner): HALF})
    yield brain.used()


def each_transfer(brain: ScriptedBrain) -> Iterator[Until]:
    """Each kind of transfer once, and once more where it failed."""
    yield Until("keys to move", lambda: bool(brain.scopes_of(False)))
    scopes = brain.scopes_of(False)
    owner, helper = scopes[0].owner, brain.beyond(scopes[0].owner)
    if brain.immutable:
        while not brain.may_help(owner, helper):
            brain.replicate(owner, (helper,))
            tried = _copies(brain.doings)
            yield Until("an answer about a copy", lambda tried=tried: _copies(brain.doings) > tried)  # type: ignore[misc]
    yield from help_with_waiting_rows(brain)
    while any(brain.at[scope] == owner for scope in scopes):
        moving = brain.hand_over(owner, helper, scopes)
        yield brain.answered([moving])
        yield brain.next_event()  # what failed is routed back in the step that told so
    back = brain.hand_over(helper, owner, scopes)
    yield brain.answered([back])
    yield from cancel(brain, False)
    yield from end_scattered(brain)


def _copies(doings: Doings) -> int:
    return doings.done["replicate"] + doings.failed["replicate"]


def rows_go_home_alone(brain: ScriptedBrain) -> Iterator[Until]:
    """Rows of keys that were handed over wait at the helper, and move to the owner, which has their state no more.

    For inputs of which each batch has each key: rows of those that have moved are sure to come.
    """
    yield Until("keys to move", lambda: bool(brain.scopes_of(False)))
    scopes = brain.scopes_of(False)
    owner, helper = scopes[0].owner, brain.beyond(scopes[0].owner)
    moving = brain.hand_over(owner, helper, scopes)
    yield brain.answered([moving])
    yield from move_waiting_rows(brain, owner, helper, owner)
    back = brain.hand_over(helper, owner, scopes)
    yield brain.answered([back])


def late_answer(brain: ScriptedBrain) -> Iterator[Until]:
    """The target has the keys when their hand-over is cancelled, because nobody has heard so: they return."""
    yield Until("keys to move", lambda: bool(brain.scopes_of(False)))
    scopes = brain.scopes_of(False)
    brain.valves.mute()
    moving = brain.hand_over(scopes[0].owner, brain.beyond(scopes[0].owner), scopes)
    yield Until("state that arrives", lambda: brain.valves.unheard > 0)
    yield brain.rows_for(moving.target)
    brain.undo(brain.built_upon(moving), "its answer is late")
    yield brain.used()
    brain.valves.unmute()


@contextmanager
def scripted(doings: Doings, valves: Valves, script: Script) -> Iterator[list[ScriptedBrain]]:
    """While this is open there is a strategy "scripted": its brains, as they are made."""
    brains: list[ScriptedBrain] = []

    def build(profile: OperatorProfile, _: object) -> ScriptedBrain:
        brains.append(ScriptedBrain(profile, doings, valves, script))
        return brains[-1]

    with strategy(STRATEGY, build), valves.built_in():
        yield brains
