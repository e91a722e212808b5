"""The body of one brain: turns what the tasks of one operator's input report into events, and commands into orders.

Correctness does not depend on the brain or on the time that anything takes. An input is *drained* when its producers
have ended, every row sent has been processed and no state is on its way; only then do helpers give their scattered
parts to the owners, and only after that does the input end for the operator.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from reshape.control.brain import Brain
from reshape.control.commands import (
    CancelTransfer,
    Command,
    HandOverState,
    MoveBacklog,
    ReplicateState,
    SetRouting,
)
from reshape.control.events import (
    BacklogMoved,
    Drained,
    Event,
    InputEnded,
    MetricsCollected,
    RoutingApplied,
    StateTransferred,
    TransferFailed,
)
from reshape.control.routing import RoutingTable
from reshape.driver.counts import PortCounts
from reshape.driver.hand_overs import HandOvers
from reshape.protocol.tables import pack_table

MakeEvent = Callable[[int, float], Event]


class Post(Protocol):
    """Gives an order to a task or to a group of tasks."""

    def __call__(self, to: str, kind: str, **facts: Any) -> None: ...


class PortControl:
    """One input of one operator. All methods are called under the lock of its :class:`ControlPlane`."""

    def __init__(
        self,
        operator: int,
        port: int,
        brain: Brain,
        hosts: Sequence[int],
        post: Post,
        on_drained: Callable[[], None],
        *,
        delay_s: float = 0.0,
    ) -> None:
        """``hosts`` gives the host of each worker."""
        self.operator = operator
        self.port = port
        self.brain = brain
        self.counts = PortCounts(len(hosts))
        self.opened_at: float | None = None
        self.input_ended = False
        self.drained = False
        self.over = False
        self.log: Callable[[dict[str, Any]], None] = lambda _: None
        self._hosts = tuple(hosts)
        self._post = post
        self._on_drained = on_drained
        self._delay_s = delay_s
        self._now = 0.0
        self._events = 0
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._posted = brain.table
        self._tables: deque[RoutingTable] = deque()  # not yet posted: a hold has to come first
        self._told_version = brain.table.version
        self._hand_overs = HandOvers(self._order, self._is_fenced)
        self._internal = 0
        self._backlogs: dict[int, tuple[int, int]] = {}  # transfer -> (source, target)
        self._busy_before = self.counts.busy_s.copy()
        self._reported_at = 0.0
        self._scattered_hosts: set[int] = set()

    # Reports

    def router_started(self, name: str) -> dict[str, Any]:
        """A router begins with the newest table: it never uses an older one."""
        self.counts.router_started(name, self._posted.version)
        return pack_table(self._posted)

    def router_ended(self, name: str) -> None:
        self.counts.router_ended(name)
        self._routers_moved_on()

    def applied(self, name: str, version: int) -> None:
        router = self.counts.routers.get(name)
        if router is not None:
            router.applied = max(router.applied, version)
            self._routers_moved_on()

    def fenced(self, name: str, version: int) -> None:
        router = self.counts.routers.get(name)
        if router is not None:
            router.fenced = max(router.fenced, version)
            self._routers_moved_on()

    def _routers_moved_on(self) -> None:
        version = self.counts.applied_by_all()
        version = self._posted.version if version is None else min(version, self._posted.version)
        if version > self._told_version:
            self._told_version = version
            self._tell(lambda event, time: RoutingApplied(event, time, version))
        self._advance_hand_overs()

    def end_input(self) -> None:
        """All producers have ended; queues may still hold many rows."""
        self.input_ended = True
        self._post("hosts", "ending", operator=self.operator, port=self.port)
        self._tell(InputEnded)
        self._check_drained()

    def clock(self, now: float) -> None:
        """What time it is: events between two reports have a time of their own."""
        self._now = max(self._now, now)

    def tick(self, now: float) -> None:
        """Let the brain see how things are."""
        self.clock(now)
        while self._later and self._later[0][0] <= now:
            heapq.heappop(self._later)[2]()
        if self.opened_at is None or self.drained:
            return
        self._check_drained()
        if self.drained:
            return
        if not self.counts.routed.any():
            # A brain's time begins with the first row: a warm-up before that would see nothing.
            self.opened_at = now
            return
        if self._events == 0:
            self.log({"kind": "opened", "at": round(self.opened_at, 4)})
        facts = self._facts(now)
        self._tell(lambda event, time: MetricsCollected(event, time, **facts))

    def _facts(self, now: float) -> dict[str, Any]:
        counts = self.counts
        received, processed = counts.received, counts.processed
        elapsed = max(now - self._reported_at, 1e-6)
        busy = ((counts.busy_s - self._busy_before) / elapsed).clip(0.0, 1.0)
        self._busy_before, self._reported_at = counts.busy_s.copy(), now
        facts = {
            "workload": (received - processed).clip(0).tolist(),
            "processed": processed.tolist(),
            "routed": counts.routed.tolist(),
            "received": received.tolist(),
            "state_bytes": counts.state_bytes.tolist(),
            "keys": counts.keys,
            "buckets": counts.buckets,
            "busy": busy.tolist(),
        }
        counts.keys, counts.buckets = {}, {}
        return facts

    # The brain

    def _tell(self, make: MakeEvent) -> None:
        self._after_delay(lambda: self._hear(make))

    def _hear(self, make: MakeEvent) -> None:
        if self.over:
            return
        self._events += 1
        event = make(self._events, self._now - (self.opened_at or 0.0))
        self.log(_told(event))
        commands = self.brain.handle(event)
        if commands:
            self._after_delay(lambda: self._execute(commands))

    def _after_delay(self, action: Callable[[], None]) -> None:
        """At once, or later when control messages are made slow for an experiment (§7.5)."""
        if self._delay_s <= 0:
            action()
            return
        self._internal += 1
        heapq.heappush(self._later, (self._now + self._delay_s, self._internal, action))

    # Commands

    def _execute(self, commands: Sequence[Command]) -> None:
        """Commands of one step belong together: a table comes after the holds of its hand-overs."""
        if self.drained:
            return
        tables = [command.table for command in commands if isinstance(command, SetRouting)]
        for command in commands:
            self.log({"command": type(command).__name__, **_plain(command)})
            match command:
                case ReplicateState():
                    self._replicate(command)
                case HandOverState():
                    self._hand_overs.start(command)
                case MoveBacklog():
                    self._backlogs[command.transfer] = (command.source, command.target)
                    self._order(
                        command.source,
                        "move_backlog",
                        transfer=command.transfer,
                        source=command.source,
                        target=command.target,
                        owner=command.owner,
                        rows=command.rows,
                    )
        for command in commands:
            if isinstance(command, CancelTransfer):
                self._cancel(command.transfer, tables[0].version if tables else None)
        for table in tables:
            if table.version > self._latest_version:
                self._tables.append(table)
        self._post_tables()

    @property
    def _latest_version(self) -> int:
        return self._tables[-1].version if self._tables else self._posted.version

    def _order(self, to: int, kind: str, **facts: Any) -> None:
        """An order for the host of a worker."""
        self._post(f"host-{self._hosts[to]}", kind, operator=self.operator, port=self.port, **facts)

    def _post_tables(self) -> None:
        while self._tables:
            table = self._tables[0]
            if self._hand_overs.wait_for_holds(table.version):
                return
            self._tables.popleft()
            self._posted = table
            fence = self._hand_overs.need_fence(table.version)
            self._post("all", "routing", operator=self.operator, port=self.port, table=pack_table(table), fence=fence)
        self._routers_moved_on()

    # Immutable state

    def _replicate(self, command: ReplicateState) -> None:
        for helper in command.helpers:
            self._order(
                command.skewed,
                "replicate",
                transfer=command.transfer,
                skewed=command.skewed,
                helper=helper,
                keys=None if command.keys is None else _sorted(command.keys),
            )

    def state_done(self, transfer: int, helper: int, size: int, seconds: float) -> None:
        """A helper has the state of a transfer."""
        self._hand_overs.done(transfer)
        self._advance_hand_overs()
        if transfer > 0:
            self._tell(lambda event, time: StateTransferred(event, time, transfer, helper, size, seconds))

    def state_failed(self, transfer: int, helper: int, reason: str) -> None:
        """The state of a transfer stayed where it was."""
        self._hand_overs.failed(transfer)
        self._check_drained()
        if transfer > 0:
            self._tell(lambda event, time: TransferFailed(event, time, transfer, helper, reason))

    # Keys that move

    def holding(self, transfer: int) -> None:
        if self._hand_overs.held(transfer):
            self._post_tables()

    def _advance_hand_overs(self) -> None:
        self._hand_overs.advance()
        self._check_drained()

    def _is_fenced(self, version: int) -> bool:
        """Rows sent before this version are all with their workers."""
        fenced = self.counts.fenced_by_all()
        if fenced is None:  # nobody sends: all is fenced that was ever used, and at the end of the input all
            return self.input_ended or version <= self._posted.version
        return version <= min(fenced, self._posted.version)

    def _cancel(self, transfer: int, version: int | None) -> None:
        if self._hand_overs.cancel(transfer, version, self._latest_version):
            self._advance_hand_overs()
        else:
            self._post("hosts", "forget", operator=self.operator, port=self.port, transfer=transfer)

    def withdrawn(self, transfer: int) -> None:
        """The source's answer: it gives nothing any more."""
        self._hand_overs.done(transfer)
        self._advance_hand_overs()

    # Rows that wait

    def backlog_moved(self, transfer: int, rows: int) -> None:
        pair = self._backlogs.pop(transfer, None)
        if pair is None:
            return
        source, target = pair
        self.counts.moved[source] -= rows
        self.counts.moved[target] += rows
        self._tell(lambda event, time: BacklogMoved(event, time, transfer, rows))

    def backlog_failed(self, transfer: int, target: int, reason: str) -> None:
        self._backlogs.pop(transfer, None)
        self._tell(lambda event, time: TransferFailed(event, time, transfer, target, reason))

    # The end

    def host_reported(self) -> None:
        if self.input_ended:
            self._check_drained()

    def _check_drained(self) -> None:
        if self.drained or not self.input_ended or self.counts.routers or self._backlogs:
            return
        for failed in self._hand_overs.left_to_cancel():
            self._cancel(failed, None)  # the brain did not, and no row will come to make it
        if not self._hand_overs.all_over or not self.counts.all_processed:
            return
        self.drained = True
        self._later.clear()
        drained = Drained(self._events + 1, self._now - (self.opened_at or 0.0))
        self.log(_told(drained))
        self.brain.handle(drained)
        self._post("hosts", "drained", operator=self.operator, port=self.port)

    def scattered_sent(self, host: int) -> None:
        """All parts that a host's workers had of other partitions are with their owners."""
        self._scattered_hosts.add(host)
        if len(self._scattered_hosts) == len(set(self._hosts)) and not self.over:
            self.over = True
            self._on_drained()


def _sorted(keys: Iterable[Any]) -> list[Any]:
    return sorted(keys)


def _told(event: Event) -> dict[str, Any]:
    """What the brain is told, as the event log writes it."""
    if isinstance(event, MetricsCollected):
        names = ("workload", "processed", "routed", "received")
        return {"kind": "report", "id": event.id, **{name: getattr(event, name) for name in names}}
    facts = {name: getattr(event, name) for name in event.__dataclass_fields__ if name != "time"}
    if isinstance(event, StateTransferred):
        facts["took_s"] = facts.pop("seconds")  # a line has its own
    return {"kind": "told", "what": type(event).__name__, **facts}


def _plain(command: Command) -> Mapping[str, Any]:
    """A command's fields as the event log writes them."""
    facts: dict[str, Any] = {}
    for name in command.__dataclass_fields__:
        value = getattr(command, name)
        if isinstance(value, RoutingTable):
            value = pack_table(value)
        elif isinstance(value, frozenset):
            value = sorted(value)
        facts[name] = value
    return facts
