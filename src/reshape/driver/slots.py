"""How many task slots flows need, and how many hosts leave room for what else must run. Arithmetic only.

The hosts of a flow hold their slots until it ends, and sources that Spark reads need a slot beside them. So flows that
hold all slots of a session between them, each of which waits for one more, wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True, slots=True)
class FlowSlots:
    """What a flow takes while it runs. ``sources``: whether Spark reads any. ``reads``: flows whose results it reads,
    so that their hosts run inside its source jobs."""

    name: str
    hosts: int
    sources: bool
    reads: tuple[FlowSlots, ...] = ()

    @property
    def beside(self) -> int:
        """Slots that its sources need at least while its hosts hold theirs."""
        return max((flow.least for flow in self.reads), default=int(self.sources))

    @property
    def least(self) -> int:
        """Slots without which it never ends."""
        return self.hosts + self.beside


def can_end(flows: Iterable[FlowSlots], slots: int) -> bool:
    """Do flows of one Spark job all end with these slots, whichever of them Spark begins with?

    They do when there is room for all of them at once, or for no two: Spark starts all hosts of a flow or none, so the
    second one waits for the first. Flows that read everything by themselves wait for nobody.
    """
    flows = list(flows)
    needy = [flow for flow in flows if flow.beside]
    if any(flow.least > slots for flow in flows):
        return False
    at_once = sum(flow.hosts for flow in needy) + max((flow.beside for flow in needy), default=0)
    return at_once <= slots or all(one.hosts + other.hosts > slots for one, other in combinations(needy, 2))


def most_hosts(slots: int, reads: Sequence[FlowSlots]) -> int:
    """The most hosts of a flow that reads these flows' results with which it ends; 0 if there is no such number."""
    return next((hosts for hosts in range(slots - 1, 0, -1) if can_end(reads, slots - hosts)), 0)


def hosts_beside_sources(slots: int, reads: Sequence[FlowSlots] = (), *, alone: bool = True) -> int:
    """Hosts of a flow with sources that Spark reads, unless asked for otherwise.

    One more than half of the slots: what is left would not do for the hosts of a second such flow, so results that
    meet in one Spark job (a join or union of two) take turns by themselves, and nearly half is left to sources. With
    four slots that leaves no room for a flow that reads the result, so there it is half, unless the flow is not
    ``alone``: another one is there that may run beside it. Three slots are enough for two hosts of two flows.
    """
    few, even = 3, 4
    hosts = 1 if slots <= few else slots // 2 if slots == even and alone else slots // 2 + 1
    return max(1, min(hosts, most_hosts(slots, reads))) if reads else hosts
