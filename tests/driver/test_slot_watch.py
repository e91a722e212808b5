"""Slots that are gone with a part of the cluster: flows wait for them as long as Spark would, then say so. No JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pytest

from reshape.driver import slot_watch
from reshape.driver.slot_use import SlotUse
from reshape.driver.slot_watch import Expected, SlotWatch
from reshape.driver.slots import FlowSlots

WAIT_S = 60.0


class Session:
    """A session whose slots go, and a flow whose hosts have not come."""

    def __init__(self, patience_s: float, slots: int, hosts: int = 2, spare: int = 0) -> None:
        self.looks = threading.Semaphore(0)
        self.cause: str | None = None
        self.stopped = threading.Event()
        self._slots = slots
        self.watch = SlotWatch(self._look, lambda: patience_s)
        flow = FlowSlots("late", hosts, sources=True, spare=spare)
        self._expected = Expected(flow, "its group", lambda: False, self._stop)
        self.watch.expect(self._expected)

    def _look(self, groups: Iterable[str]) -> SlotUse:
        self.looks.release()
        return SlotUse(self._slots, {}, dict.fromkeys(groups, frozenset()))

    def _stop(self, cause: str) -> None:
        self.cause = cause
        self.stopped.set()

    def looked(self, times: int) -> None:
        for _ in range(times):
            assert self.looks.acquire(timeout=WAIT_S)

    def end(self) -> None:
        self.watch.expect_no_more(self._expected)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(slot_watch, "LOOK_S", 0.01)
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "reshape-slots"]


@pytest.mark.parametrize(("slots", "hosts", "spare"), [(1, 2, 0), (2, 2, 1)])
def test_a_flow_whose_slots_do_not_come_back_is_stopped(slots: int, hosts: int, spare: int) -> None:
    session = Session(0.0, slots, hosts, spare)
    try:
        assert session.stopped.wait(WAIT_S)
        assert session.cause == f"the session has {slots} task slots left, and its hosts need {hosts + spare}"
    finally:
        session.end()


@pytest.mark.parametrize(("patience_s", "slots"), [(WAIT_S, 1), (0.0, 2)], ids=["they may", "there are enough"])
def test_a_flow_whose_slots_may_come_is_let_wait(patience_s: float, slots: int) -> None:
    session = Session(patience_s, slots)
    try:
        session.looked(5)
        assert session.cause is None
        assert (session.watch.waits_for("late") is None) == (slots == 2)
    finally:
        session.end()
