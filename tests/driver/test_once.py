"""A call that is made again is booked once; a task that runs again under the same name is heard."""

from __future__ import annotations

import threading

from reshape.driver.once import Once
from reshape.protocol.reports import Sender, SplitGiven

SENDER = Sender("run", 1, "host-0")


class Desk:
    """Deals out splits: asked twice, it gives two."""

    def __init__(self) -> None:
        self.given = 0

    def next(self) -> SplitGiven:
        self.given += 1
        return SplitGiven(self.given)


def test_a_call_that_is_made_again_gets_the_same_answer() -> None:
    once, desk = Once(), Desk()
    assert [once.book(SENDER, "a", 1, 1, desk.next) for _ in range(3)] == [SplitGiven(1)] * 3
    assert once.book(SENDER, "a", 2, 1, desk.next) == SplitGiven(2)
    assert once.book(SENDER, "a", 1, 1, desk.next) == SplitGiven(1)
    assert desk.given == 2


def test_one_that_comes_long_after_its_answer_is_not_booked() -> None:
    once, desk = Once(), Desk()
    for number in range(1, 30):
        once.book(SENDER, "a", number, number, desk.next)
    assert once.book(SENDER, "a", 3, 3, desk.next) is None
    assert desk.given == 29


def test_a_call_that_many_others_overtake_is_booked() -> None:
    once, desk = Once(), Desk()
    for number in (*range(2, 1_000), 1):
        once.book(SENDER, "a", number, 1, desk.next)
    assert desk.given == 999


def test_calls_whose_answers_have_come_are_not_kept() -> None:
    once, desk = Once(), Desk()
    for number in range(1, 1_000):
        once.book(SENDER, "a", number, number, desk.next)
    assert [list(line.calls) for line in once._lines.values()] == [[999]]


def test_another_line_of_the_same_task_begins_anew() -> None:
    once, desk = Once(), Desk()
    once.book(SENDER, "a", 1, 1, desk.next)
    assert once.book(SENDER, "b", 1, 1, desk.next) == SplitGiven(2)


def test_a_repeated_call_waits_for_the_first_to_be_booked() -> None:
    once, desk = Once(), Desk()
    begun, may_end = threading.Event(), threading.Event()
    answers: list[object] = []

    def slow() -> SplitGiven:
        begun.set()
        may_end.wait(60)
        return desk.next()

    threads = [threading.Thread(target=lambda: answers.append(once.book(SENDER, "a", 1, 1, slow))) for _ in range(2)]
    threads[0].start()
    begun.wait(60)
    threads[1].start()
    may_end.set()
    for thread in threads:
        thread.join(60)
    assert answers == [SplitGiven(1)] * 2


def test_calls_of_a_flow_that_is_gone_are_forgotten() -> None:
    once, desk = Once(), Desk()
    once.book(SENDER, "a", 1, 1, desk.next)
    once.forget("run")
    assert once.book(SENDER, "a", 1, 1, desk.next) == SplitGiven(2)
