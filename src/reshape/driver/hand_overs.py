"""Keys on their way from one worker to another: what has to come before what, also when one of them is cancelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from reshape.control.commands import HandOverState
from reshape.protocol.orders import Give, Hold, Order, Withdraw


@dataclass(slots=True)
class HandOver:
    """Keys on their way from one worker to another. ``after`` are transfers that brought them to the source.

    ``returns`` are cancelled ones whose rows, held back at what is the source now, it takes along. If it is cancelled
    itself, those rows wait where its keys return to: whoever brings them ``adopts`` the rows.
    """

    id: int
    source: int
    target: int
    keys: frozenset[Any]
    buckets: frozenset[int]
    hold_version: int  # rows sent under this version or later wait at the target
    fence_version: int  # the state leaves when no router can send rows of an earlier version any more
    after: set[int] = field(default_factory=set)
    returns: set[int] = field(default_factory=set)
    adopts: set[int] = field(default_factory=set)
    held: bool = False
    asked: bool = False  # the source was told to give
    cancelled: bool = False  # or failed: the state stays at the source
    over: bool = False

    def touches(self, other: HandOver) -> bool:
        """May both be about the same keys?"""
        mixed = bool(self.keys and other.buckets) or bool(self.buckets and other.keys)
        return mixed or not (self.keys.isdisjoint(other.keys) and self.buckets.isdisjoint(other.buckets))

    def undoes(self, other: HandOver) -> bool:
        """Does it bring all keys of another one back to where they were?

        One that undoes a third one, which was cancelled, comes too early for that.
        """
        if self.id < 0 or self.cancelled:
            return other.id in self.returns
        there = self.target == other.source and self.keys >= other.keys and self.buckets >= other.buckets
        return there and other.id in self.after


class HandOvers:
    """All of one input, an (operator, port). ``give_order`` takes a worker and an order for its host; ``is_fenced``
    tells whether rows sent before a version are all with their workers."""

    def __init__(
        self, port: tuple[int, int], give_order: Callable[[int, Order], None], is_fenced: Callable[[int], bool]
    ) -> None:
        self._port = port
        self._give_order = give_order
        self._is_fenced = is_fenced
        self._known: dict[int, HandOver] = {}
        self._returning = 0

    def start(self, command: HandOverState) -> None:
        version = command.version
        self._start(
            HandOver(command.transfer, command.source, command.target, command.keys, command.buckets, version, version)
        )

    def _start(self, over: HandOver) -> None:
        for known in self._known.values():
            if not known.over and known.target == over.source and known.touches(over):
                over.after.add(known.id)
        self._known[over.id] = over
        keys, buckets = tuple(sorted(over.keys)), tuple(sorted(over.buckets))
        self._give_order(over.target, Hold(*self._port, over.id, over.target, keys, buckets, over.hold_version))

    def held(self, transfer: int) -> bool:
        """The target holds back rows of the keys now; False if nobody knows of the transfer."""
        over = self._known.get(transfer)
        if over is not None:
            over.held = True
        return over is not None

    def wait_for_holds(self, version: int) -> bool:
        """Must a table of this version wait, for its rows would not be held back yet?"""
        return any(over.hold_version <= version and not over.held for over in self._known.values())

    def need_fence(self, version: int) -> bool:
        return any(over.fence_version == version and not over.over for over in self._known.values())

    def advance(self) -> None:
        """Tell sources to give what no router can send rows for any more."""
        for over in list(self._known.values()):
            ready = over.held and not over.asked and not over.cancelled and self._is_fenced(over.fence_version)
            if ready and all(self._known[earlier].over for earlier in over.after):
                over.asked = True
                self._give_order(over.source, self._give(over))

    def _give(self, over: HandOver) -> Give:
        return Give(
            *self._port,
            over.id,
            over.source,
            over.target,
            tuple(sorted(over.keys)),
            tuple(sorted(over.buckets)),
            tuple(sorted(over.returns)),
            tuple(sorted(over.adopts)),
        )

    def done(self, transfer: int) -> None:
        """The state has arrived, or the source has said that it gives nothing any more: if the state had left before,
        it returns from the target."""
        over = self._known.get(transfer)
        if over is not None:
            over.over = True

    def failed(self, transfer: int) -> None:
        """Not given: what is held back returns when the brain cancels, or at the end."""
        over = self._known.get(transfer)
        if over is not None:
            over.asked = False
            over.cancelled = True

    def cancel(self, transfer: int, version: int | None, latest: int) -> bool:
        """The state has to end at its source. What was held back for it goes there too, in order.

        ``version`` is that of the table that sends its rows to the source again, None if there is none; ``latest`` is
        the newest one. False if it is no hand-over.
        """
        over = self._known.get(transfer)
        if over is None:
            return False
        back = next((known for known in self._known.values() if known.undoes(over)), None)
        if back is None:
            self._returning += 1
            back = HandOver(
                -self._returning,
                over.target,
                over.source,
                over.keys,
                over.buckets,
                latest + 1 if version is None else version,
                latest if version is None else version,
            )
            self._start(back)
            back.after.add(over.id)
        back.returns |= {over.id, *over.adopts}
        back.adopts |= over.returns
        if not over.over:
            over.cancelled = True
            if over.asked:
                self._give_order(over.source, Withdraw(*self._port, transfer))
            else:
                over.over = True
        return True

    def left_to_cancel(self) -> list[HandOver]:
        """Those that failed and that nobody has cancelled, each behind the ones that were to move its keys on: these
        would give what never came."""
        failed = [over for over in self._known.values() if over.cancelled and not over.asked and not over.over]
        ordered: dict[int, HandOver] = {}
        for over in failed:
            for each in (*self._built_upon(over), over):
                ordered.setdefault(each.id, each)
        return list(ordered.values())

    def _built_upon(self, over: HandOver) -> Iterator[HandOver]:
        """Hand-overs that wait for this one, the last of a chain first; none where one of them brings its keys back."""
        if any(known.undoes(over) for known in self._known.values()):
            return
        for later in self._known.values():
            if over.id in later.after and not later.over and not later.cancelled:
                yield from self._built_upon(later)
                yield later

    @property
    def all_over(self) -> bool:
        return not self.under_way()

    def under_way(self) -> list[HandOver]:
        return [over for over in self._known.values() if not over.over]
