"""The body of one brain: turns what the tasks of one operator's input report into events, and commands into orders.

Correctness does not depend on the brain or on the time that anything takes. An input is *drained* when its producers
have ended, every row sent has been processed and no state is on its way; only then do helpers give their scattered
parts to the owners, and only after that does the input end for the operator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, assert_never

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
    InputEnded,
    MetricsCollected,
    RoutingApplied,
    StateTransferred,
    TransferFailed,
)
from reshape.control.routing import RoutingTable, Shares
from reshape.driver.board import Recipient
from reshape.driver.brain_line import BrainLine, WriteLog
from reshape.driver.counts import PortCounts
from reshape.driver.hand_overs import HandOvers
from reshape.protocol.orders import (
    Forget,
    GatherScattered,
    InputEnding,
    Order,
    Replicate,
    SendBacklog,
    UseTable,
)
from reshape.protocol.reports import (
    Answer,
    BacklogSent,
    BacklogStayed,
    Fenced,
    Holding,
    NewestTable,
    PortReport,
    RouterCounted,
    RouterEnded,
    RouterStarted,
    ScatteredSent,
    StateArrived,
    StateStayed,
    TableApplied,
    Withdrawn,
)


class Post(Protocol):
    """Gives an order to tasks."""

    def __call__(self, to: Recipient, order: Order) -> None: ...


class _Tables:
    """Routing tables on their way to the routers."""

    def __init__(self, first: RoutingTable) -> None:
        self.posted = first
        self.waiting: deque[RoutingTable] = deque()  # not yet posted: a hold has to come first
        self.applied_version = first.version  # by all routers, as the brain knows it

    @property
    def latest(self) -> RoutingTable:
        return self.waiting[-1] if self.waiting else self.posted

    @property
    def latest_version(self) -> int:
        return self.latest.version


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
        log: WriteLog = lambda _: None,
    ) -> None:
        """``hosts`` gives the host of each worker; ``on_drained`` is called when the input is over."""
        self.operator = operator
        self.port = port
        self.line = BrainLine(brain, len(hosts), self._execute, log, delay_s)
        self.counts = PortCounts(len(hosts))
        self.input_ended = False
        self.drained = False
        self.over = False
        self._hosts = tuple(hosts)
        self._post = post
        self._on_drained = on_drained
        self._tables = _Tables(brain.table)
        self._hand_overs = HandOvers((operator, port), self._order, self._is_fenced)
        self._backlogs: dict[int, tuple[int, int]] = {}  # transfer -> (source, target)
        self._scattered_hosts: set[int] = set()

    @property
    def brain(self) -> Brain:
        return self.line.brain

    # Reports

    def reported(self, report: PortReport) -> Answer | None:  # noqa: PLR0912 - one case a report
        match report:
            case RouterStarted():
                return self._router_started(report.router)
            case RouterCounted():
                self.counts.router_report(report.router, report.counts)
            case RouterEnded():
                self.counts.router_report(report.router, report.counts)
                self.router_ended(report.router)
            case TableApplied():
                self.counts.applied(report.router, report.version)
                self._routers_moved_on()
            case Fenced():
                self.counts.fenced(report.router, report.version)
                self._routers_moved_on()
            case Holding():
                if self._hand_overs.held(report.transfer):
                    self._post_tables()
            case StateArrived():
                self._state_arrived(report)
            case StateStayed():
                self._state_stayed(report)
            case Withdrawn():
                self._hand_overs.done(report.transfer)
                self._advance_hand_overs()
            case BacklogSent():
                self._backlog_sent(report)
            case BacklogStayed():
                self._backlogs.pop(report.transfer, None)
                self.line.tell(
                    lambda event, time: TransferFailed(event, time, report.transfer, report.target, report.reason)
                )
            case ScatteredSent():
                self._scattered_sent(report.host)
            case _:
                assert_never(report)
        return None

    def _router_started(self, name: str) -> NewestTable:
        """A router begins with the newest table: it never uses an older one."""
        self.counts.router_started(name, self._tables.posted.version)
        return NewestTable(self._tables.posted)

    def router_ended(self, name: str) -> None:
        self.counts.router_ended(name)
        self._routers_moved_on()

    def _routers_moved_on(self) -> None:
        tables = self._tables
        version = self.counts.applied_by_all()
        version = tables.posted.version if version is None else min(version, tables.posted.version)
        if version > tables.applied_version:
            tables.applied_version = version
            self.line.tell(lambda event, time: RoutingApplied(event, time, version))
        self._advance_hand_overs()

    def end_input(self) -> None:
        """All producers have ended; queues may still hold many rows."""
        self.input_ended = True
        self._post("hosts", InputEnding(self.operator, self.port))
        self.line.tell(InputEnded)
        self._check_drained()

    def tick(self, now: float) -> None:
        """Let the brain see how things are."""
        line = self.line
        line.clock(now)
        line.run_due()
        self._undo_failed()
        if line.opened_at is None or self.drained:
            return
        self._check_drained()
        if self.drained:
            return
        if not self.counts.routed.any():
            # A brain's time begins with the first row: a warm-up before that would see nothing.
            line.opened_at = now
            return
        facts = self.counts.facts(now)
        line.tell(lambda event, time: MetricsCollected(event, time, **facts))

    # Commands

    def _execute(self, commands: Sequence[Command]) -> None:
        """Commands of one step belong together: a table comes after the holds of its hand-overs."""
        if self.drained:
            return
        new_tables = [command.table for command in commands if isinstance(command, SetRouting)]
        for command in commands:
            self.line.log_command(command)
            match command:
                case ReplicateState():
                    self._replicate(command)
                case HandOverState():
                    self._hand_overs.start(command)
                case MoveBacklog():
                    self._send_backlog(command)
        for command in commands:
            if isinstance(command, CancelTransfer):
                self._cancel(command.transfer, new_tables[0].version if new_tables else None)
        for table in new_tables:
            if table.version > self._tables.latest_version:
                self._tables.waiting.append(table)
        self._post_tables()

    def _order(self, worker: int, order: Order) -> None:
        """An order for the host of a worker."""
        self._post(self._hosts[worker], order)

    def _post_tables(self) -> None:
        tables = self._tables
        while tables.waiting:
            table = tables.waiting[0]
            if self._hand_overs.wait_for_holds(table.version):
                return
            tables.posted = tables.waiting.popleft()
            fence = self._hand_overs.need_fence(table.version)
            self._post("all", UseTable(self.operator, self.port, table, fence))
        self._routers_moved_on()

    # Immutable state

    def _replicate(self, command: ReplicateState) -> None:
        keys = None if command.keys is None else tuple(sorted(command.keys))  # type: ignore[type-var]
        for helper in command.helpers:
            order = Replicate(self.operator, self.port, command.transfer, command.skewed, helper, keys)  # type: ignore[arg-type]
            self._order(command.skewed, order)

    def _state_arrived(self, report: StateArrived) -> None:
        """The brain hears of it before the input may be over, for then it hears nothing any more."""
        self._hand_overs.done(report.transfer)
        if report.transfer > 0:
            facts = (report.transfer, report.helper, report.size, report.seconds)
            self.line.tell(lambda event, time: StateTransferred(event, time, *facts))
        self._advance_hand_overs()

    def _state_stayed(self, report: StateStayed) -> None:
        self._hand_overs.failed(report.transfer)
        if report.transfer > 0:
            self.line.tell(
                lambda event, time: TransferFailed(event, time, report.transfer, report.helper, report.reason)
            )
        self._undo_failed()
        self._check_drained()

    # Keys that move

    def _advance_hand_overs(self) -> None:
        self._hand_overs.advance()
        self._check_drained()

    def _is_fenced(self, version: int) -> bool:
        """Rows sent before this version are all with their workers."""
        posted = self._tables.posted.version
        fenced = self.counts.fenced_by_all()
        if fenced is None:  # nobody sends: all is fenced that was ever used, and at the end of the input all
            return self.input_ended or version <= posted
        return version <= min(fenced, posted)

    def _undo_failed(self) -> None:
        """Send rows of a hand-over that failed back to where its keys are, as a brain does, where there is none."""
        failed = self._hand_overs.left_to_cancel()
        if self.line.gave_up is None or self.input_ended or not failed:
            return
        latest = self._tables.latest
        keys, buckets = dict(latest.keys), dict(latest.buckets)
        for over in failed:
            keys |= dict.fromkeys(over.keys, Shares.whole(over.source))
            buckets |= dict.fromkeys(over.buckets, Shares.whole(over.source))
        back = replace(latest, version=latest.version + 1, keys=keys, buckets=buckets)
        for over in failed:
            self._cancel(over.id, back.version)
        self._tables.waiting.append(back)
        self._post_tables()

    def _cancel(self, transfer: int, version: int | None) -> None:
        if self._hand_overs.cancel(transfer, version, self._tables.latest_version):
            self._advance_hand_overs()
        else:
            self._post("hosts", Forget(self.operator, self.port, transfer))

    # Rows that wait

    def _send_backlog(self, command: MoveBacklog) -> None:
        self._backlogs[command.transfer] = (command.source, command.target)
        who = (command.source, command.target, command.owner, command.rows)
        self._order(command.source, SendBacklog(self.operator, self.port, command.transfer, *who))

    def _backlog_sent(self, report: BacklogSent) -> None:
        pair = self._backlogs.pop(report.transfer, None)
        if pair is None:
            return
        source, target = pair
        self.counts.moved[source] -= report.rows
        self.counts.moved[target] += report.rows
        self.line.tell(lambda event, time: BacklogMoved(event, time, report.transfer, report.rows))

    # The end

    def host_reported(self) -> None:
        if self.input_ended:
            self._check_drained()

    def _check_drained(self) -> None:
        if self.drained or not self.input_ended or self.counts.routers or self._backlogs:
            return
        # The brain did not cancel them, and no row will come to make it. All of them, before anything goes on: one that
        # returns may wait for another that has failed too.
        for failed in self._hand_overs.left_to_cancel():
            self._hand_overs.cancel(failed.id, None, self._tables.latest_version)
        self._hand_overs.advance()
        if not self._hand_overs.all_over or not self.counts.all_processed:
            return
        self.drained = True
        self.line.tell_last()
        self._post("hosts", GatherScattered(self.operator, self.port))

    def waits_for(self) -> list[str]:
        """What keeps the input from being over: the first things to know about a flow that does not end."""
        if self.over:
            return []
        if self.drained:
            return [f"scattered parts of all hosts but {sorted(self._scattered_hosts)}"]
        causes = [] if self.input_ended else ["the end of its producers"]
        causes += [f"router {name}" for name in self.counts.routers]
        causes += [
            f"backlog {transfer} of {source} for {target}" for transfer, (source, target) in self._backlogs.items()
        ]
        causes += map(str, self._hand_overs.under_way())
        if not self.counts.all_processed:
            causes.append(f"rows: {self.counts.received} received, {self.counts.processed} processed")
        tables = self._tables
        return [*causes, f"table {tables.posted.version} was posted, {len(tables.waiting)} wait to be"]

    def _scattered_sent(self, host: int) -> None:
        """All parts that a host's workers had of other partitions are with their owners."""
        self._scattered_hosts.add(host)
        if len(self._scattered_hosts) == len(set(self._hosts)) and not self.over:
            self.over = True
            self._on_drained()
