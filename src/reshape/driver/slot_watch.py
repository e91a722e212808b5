"""Watches a session: hosts that Spark has ended without a word, and flows that wait for each other's slots."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from reshape.driver.board import host_task
from reshape.driver.execution import Execution
from reshape.driver.slot_use import Holder, SlotUse, starved
from reshape.driver.slots import FlowSlots

LOG = logging.getLogger(__name__)

LOOK_S = 1.0
# Hosts come for orders every two seconds. Of those that have not come twice, Spark is asked whether it still runs them.
QUIET_S = 5.0
# Who holds all slots and waits for one waits for ever; this only lets Spark's books catch up.
STUCK_S = 15.0
# With slots free, Spark may be slow, or a killed task may still be in one: it is given more time to start something.
IDLE_S = 60.0
# A wait that is worth a line in the log.
LONG_S = 5.0
JOIN_S = 5.0
WHERE = "the task slots"


@dataclass(frozen=True, slots=True)
class Watched:
    """An attempt that runs. ``group``: the job group of its sources."""

    flow: FlowSlots
    execution: Execution
    stage: int
    group: str

    @property
    def holder(self) -> Holder:
        return Holder(self.stage, self.group)


@dataclass(frozen=True, slots=True)
class Expected:
    """A started flow whose hosts may not have come yet. ``group``: the job group of its hosts. ``stop`` ends it, for
    the cause that it is given."""

    flow: FlowSlots
    group: str
    has_begun: Callable[[], bool]
    stop: Callable[[str], None]


class SlotWatch:
    """One thread for all flows of a session, there while one of them runs. ``look`` asks Spark, for the given job
    groups; ``patience_s`` is how long slots that the cluster has lost may take to come back."""

    def __init__(self, look: Callable[[Iterable[str]], SlotUse], patience_s: Callable[[], float]) -> None:
        self._look = look
        self._patience_s = patience_s
        self._news = threading.Condition()
        self._watched: list[Watched] = []  # in the order in which they began
        self._expected: list[Expected] = []
        self._thread: threading.Thread | None = None
        self._most_slots = 0
        self._stuck: tuple[frozenset[str], float] = (frozenset(), 0.0)  # which attempts, and since when
        self._waits: dict[str, tuple[str, float]] = {}  # what a flow waits for, in words, and since when

    def begins(self, watched: Watched) -> None:
        with self._news:
            self._watched.append(watched)
            self._waits.pop(watched.flow.name, None)
            self._start()

    def over(self, execution: Execution) -> None:
        """An attempt has ended. With the last one the thread goes, and is gone when this returns."""
        with self._news:
            self._watched = [each for each in self._watched if each.execution is not execution]
        self._rest()

    def expect(self, expected: Expected) -> None:
        with self._news:
            self._expected.append(expected)
            self._start()

    def expect_no_more(self, expected: Expected) -> None:
        """A started flow has ended; the thread goes as above."""
        with self._news:
            self._expected = [each for each in self._expected if each is not expected]
        self._rest()

    def running(self) -> list[FlowSlots]:
        """Flows whose hosts hold slots."""
        with self._news:
            return [each.flow for each in self._watched if not each.execution.over]

    def waits_for(self, flow: str) -> str | None:
        """What a flow waits for, in words, if it waits for slots."""
        with self._news:
            return self._waits[flow][0] if flow in self._waits else None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="reshape-slots", daemon=True)
            self._thread.start()

    def _rest(self) -> None:
        with self._news:
            thread = None if self._watched or self._expected else self._thread
            self._news.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_S)

    def _run(self) -> None:
        while self._next():
            with self._news:
                watched, missing = list(self._watched), [each for each in self._expected if not each.has_begun()]
            try:
                groups = [each.group for each in watched if each.flow.sources]
                self._check(watched, missing, self._look([*groups, *(each.group for each in missing)]))
            except (Py4JError, OSError, AttributeError) as error:  # the session is being stopped
                LOG.info("slots are not watched any more: %s", error)
                with self._news:
                    self._watched, self._expected = [], []

    def _next(self) -> bool:
        """Wait for the next look; False when nothing is left to look at."""
        with self._news:
            self._news.wait_for(lambda: not (self._watched or self._expected), LOOK_S)
            self._watched = [each for each in self._watched if not each.execution.over]
            if self._watched or self._expected:
                return True
            self._thread = None
            self._waits = {}
            return False

    def _check(self, watched: list[Watched], missing: list[Expected], use: SlotUse) -> None:
        self._most_slots = max(self._most_slots, use.slots)
        for each in watched:
            if each.stage not in use.tasks and self._is_quiet(each):
                each.execution.fail("the hosts", "Spark has ended them before they were done", may_retry=True)
        self._note_waits(watched, missing, use)
        waiting = {holder.group for holder in starved([each.holder for each in watched], use)}
        self._fail_if_stuck([each for each in watched if each.group in waiting], use)

    def _is_quiet(self, each: Watched) -> bool:
        hosts = [host_task(host) for host in range(each.flow.hosts)]
        return all(each.execution.board.silent([host], QUIET_S) for host in hosts)

    def _note_waits(self, watched: list[Watched], missing: list[Expected], use: SlotUse) -> None:
        """Who waits for a slot: a busy cluster is worth a line. Hosts that it has become too small for may hope
        for new executors as long as Spark itself would."""
        now = time.monotonic()
        stages = {each.stage for each in watched}
        hosts = sum(running for stage, running in use.tasks.items() if stage in stages)
        taken = f"{hosts} of {use.slots} are held by hosts of flows, {use.slots - use.free - hosts} by other tasks"
        waits = {
            each.flow.name: f"its sources wait for a task slot; {taken}"
            for each in watched
            if use.jobs.get(each.group) and not use.runs(each.group)
        }
        missing = [each for each in missing if use.free < each.flow.to_start and not use.runs(each.group)]
        for each in missing:
            waits[each.flow.name] = f"its {each.flow.hosts} hosts wait for task slots; {taken}"
        with self._news:
            before = self._waits
            self._waits = {name: (text, before.get(name, (text, now))[1]) for name, text in waits.items()}
        for name, (text, since) in self._waits.items():
            if now - since >= LONG_S > now - since - LOOK_S:
                LOG.warning("flow %s: %s", name, text)
        for each in missing:
            if each.flow.to_start > use.slots and now - self._waits[each.flow.name][1] >= self._patience_s():
                each.stop(f"the session has {use.slots} task slots left, and its hosts need {each.flow.to_start}")

    def _fail_if_stuck(self, waiting: list[Watched], use: SlotUse) -> None:
        """The one that began last fails; the others have its slots then."""
        groups, since = frozenset(each.group for each in waiting), time.monotonic()
        if groups == self._stuck[0]:
            since = self._stuck[1]
        self._stuck = (groups, since)
        limit = STUCK_S if _is_full(waiting, use) else IDLE_S
        if use.slots < self._most_slots:
            limit = self._patience_s()
        if waiting and time.monotonic() - since >= limit:
            waiting[-1].execution.fail(WHERE, stuck_text(waiting, use, self._most_slots))


def _is_full(waiting: list[Watched], use: SlotUse) -> bool:
    """Are there too few free slots for any of these sources? Those of a flow that is read begin with all its hosts."""
    return use.free < min((min((read.to_start for read in each.flow.reads), default=1) for each in waiting), default=0)


def stuck_text(waiting: list[Watched], use: SlotUse, most_slots: int) -> str:
    """Who holds slots, who waits for how many, and what to do."""
    held = ", ".join(f"{each.flow.hosts} by the hosts of flow {each.flow.name}" for each in waiting)
    wanted = ", ".join(f"{max(1, each.flow.beside)} for the sources of {each.flow.name}" for each in waiting)
    gone = f" (it had {most_slots})" if use.slots < most_slots else ""
    enough = sum(each.flow.hosts for each in waiting) + max(max(1, each.flow.beside) for each in waiting)
    return (
        f"of the session's {use.slots} task slots{gone}, {held} are held and {max(0, use.free)} are free; wanted are "
        f"{wanted}, and none will come free while these flows wait for each other. Ask for fewer hosts "
        f"(reshape.flow(df, hosts=1)), write one result before the other is used, or give the session {enough} slots "
        f"or more (local[{enough}]; on a cluster spark.executor.instances, spark.executor.cores)"
    )
