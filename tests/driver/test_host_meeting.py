"""Hosts meet at the driver: nobody is left out, and a stage that Spark starts again meets again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from reshape.driver.host_meeting import STALE, HostMeeting
from reshape.protocol.reports import Answer, HostReady, Met

WAIT_S = 60.0


class Driver:
    def __init__(self) -> None:
        self.met: list[tuple[str, ...]] = []
        self.lost = 0

    def ready(self, locations: tuple[str, ...]) -> Met:
        self.met.append(locations)
        return Met(len(self.met), locations)

    def again(self) -> None:
        self.lost += 1


def meeting_of(hosts: int, driver: Driver) -> HostMeeting:
    return HostMeeting(hosts, driver.ready, driver.again)


def arrive(meeting: HostMeeting, host: int, task: int, location: str, wait_s: float = WAIT_S) -> Answer | None:
    return meeting.arrive(HostReady(host, 0, task, location), wait_s)


def test_all_hear_the_same_once_the_last_one_is_here() -> None:
    driver = Driver()
    meeting = meeting_of(3, driver)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(arrive, meeting, host, 10 + host, f"at-{host}") for host in (2, 0, 1)]
        answers = [call.result() for call in calls]
    assert answers == [Met(1, ("at-0", "at-1", "at-2"))] * 3
    assert meeting.over


def test_one_that_does_not_ask_again_is_not_counted() -> None:
    driver = Driver()
    meeting = meeting_of(2, driver)
    assert arrive(meeting, 0, 1, "dead", 0.0) is None
    assert arrive(meeting, 1, 4, "b", 0.0) is None
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(arrive, meeting, host, task, at) for host, task, at in ((0, 3, "a"), (1, 4, "b"))]
        assert [call.result() for call in calls] == [Met(1, ("a", "b"))] * 2


def test_a_stage_that_is_started_again_meets_again() -> None:
    driver = Driver()
    meeting = meeting_of(2, driver)
    with ThreadPoolExecutor(2) as pool:
        for first in (0, 7):
            calls = [pool.submit(arrive, meeting, host, first + host, f"{first}-{host}") for host in range(2)]
            assert all(call.result() is not None for call in calls)
    assert driver.met == [("0-0", "0-1"), ("7-0", "7-1")]
    assert driver.lost == 1
    assert arrive(meeting, 1, 1, "0-1") == STALE


def test_a_host_that_waits_hears_that_a_later_try_has_begun() -> None:
    meeting = meeting_of(2, Driver())
    with ThreadPoolExecutor(2) as pool:
        old = pool.submit(arrive, meeting, 0, 1, "old")
        with meeting._news:
            assert meeting._news.wait_for(lambda: 0 in meeting._there, WAIT_S)
        new = pool.submit(arrive, meeting, 0, 5, "new")
        assert old.result() == STALE
        assert arrive(meeting, 1, 6, "other") == Met(1, ("new", "other"))
        assert new.result() == Met(1, ("new", "other"))
