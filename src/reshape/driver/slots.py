"""How many task slots flows need, and how many hosts leave room for what else must run. Arithmetic only.

The hosts of a flow hold their slots until it ends, and sources that Spark reads need a slot beside them. So flows that
hold all slots of a session between them, each of which waits for one more, wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations


@dataclass(frozen=True, slots=True)
class FlowSlots:
    """What a flow takes while it runs. ``sources``: whether Spark reads any. ``reads``: flows whose results it reads,
    so that their hosts run inside its source jobs. ``spare``: tasks that start with the hosts and leave at once."""

    name: str
    hosts: int
    sources: bool
    reads: tuple[FlowSlots, ...] = ()
    spare: int = 0

    @property
    def to_start(self) -> int:
        """Slots that must be free for its hosts to start."""
        return self.hosts + self.spare

    @property
    def beside(self) -> int:
        """Slots that its sources need at least while its hosts hold theirs."""
        return max((flow.least for flow in self.reads), default=int(self.sources))

    @property
    def least(self) -> int:
        """Slots without which it never ends."""
        return max(self.to_start, self.hosts + self.beside)


def can_end(flows: Iterable[FlowSlots], slots: int) -> bool:
    """Do flows of one Spark job all end with these slots, whichever of them Spark begins with?

    They do when there is room for all of them at once, or for no two: Spark starts all hosts of a flow or none, so the
    second one waits for the first. Flows that read everything by themselves wait for nobody.
    """
    flows = list(flows)
    needy = [flow for flow in flows if flow.beside]
    if any(flow.least > slots for flow in flows):
        return False
    at_once = sum(flow.hosts for flow in needy) + max((max(flow.beside, flow.spare) for flow in needy), default=0)
    return at_once <= slots or all(one.hosts + other.to_start > slots for one, other in permutations(needy, 2))


def most_hosts(slots: int, reads: Sequence[FlowSlots]) -> int:
    """The most hosts of a flow that reads these flows' results with which it ends; 0 if there is no such number."""
    return next((hosts for hosts in range(slots - 1, 0, -1) if can_end(reads, slots - hosts)), 0)


def hosts_beside_sources(slots: int, reads: Sequence[FlowSlots] = ()) -> tuple[int, int]:
    """Hosts of a flow with sources that Spark reads, unless asked for otherwise; and tasks to spare.

    More than half of the slots must be free for it to start: what it leaves would not do for a second such flow, so
    results that meet in one Spark job (a join or union of two) take turns by themselves. Nearly half is left to
    sources. With four slots three hosts would leave too little to them, and to a flow that reads the result. There two
    start with a third task, which leaves at once: neither does a second such flow find three slots free beside two
    hosts. Three slots are enough for two hosts of two flows.
    """
    few, even = 3, 4
    hosts, spare = (1, 0) if slots <= few else (2, 1) if slots == even else (slots // 2 + 1, 0)
    return (max(1, min(hosts, most_hosts(slots, reads))), 0) if reads else (hosts, spare)
