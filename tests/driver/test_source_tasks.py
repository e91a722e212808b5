"""A partition of a source is sent by one task, whatever Spark runs again."""

from __future__ import annotations

import threading

import pytest

from reshape.driver import source_tasks
from reshape.driver.cluster import TaskFate
from reshape.driver.source_tasks import RunAgain, SourceTasks
from reshape.protocol.reports import MayBegin, SourceBegins

FIRST = SourceBegins(0, 3, stage=7, task=40)
AGAIN = SourceBegins(0, 3, stage=7, task=52)
FETCH = "FetchFailed(BlockManagerId(1, host, 7337, None), shuffleId=0, mapId=3, reduceId=1, message=\ngone"
CRASH = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat org.apache"
DIVISION = "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.\n\tat org.apache"


class Books:
    """What Spark knows of the tasks of a stage, and what becomes of the attempt."""

    def __init__(self, *fates: TaskFate) -> None:
        self.fates = list(fates)
        self.again: list[tuple[str, RunAgain]] = []
        self.tasks = SourceTasks(self._unsuccessful, lambda name, why: self.again.append((name, why)))

    def _unsuccessful(self, stage: int) -> list[TaskFate]:
        assert stage == 7
        return self.fates

    def begins(self, task: SourceBegins) -> MayBegin | None:
        return self.tasks.begins(f"source-{task.source}-{task.partition}", task)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_tasks, "POLL_S", 0.0)
    monkeypatch.setattr(source_tasks, "BOOKED_S", 0.0)


def test_each_partition_has_one_sender() -> None:
    books = Books()
    for source, partition in ((0, 3), (0, 4), (1, 3)):
        assert books.begins(SourceBegins(source, partition, 7, 10 * source + partition)) == MayBegin(True)
    assert books.begins(SourceBegins(0, 3, 7, 3)) == MayBegin(True), "a question that is asked twice"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (FETCH, RunAgain(FETCH.split("\n", maxsplit=1)[0], True)),
        (CRASH, RunAgain(CRASH.split("\n", maxsplit=1)[0], True)),
        (DIVISION, RunAgain(DIVISION.split("\n", maxsplit=1)[0], False)),
    ],
)
def test_a_second_run_ends_the_attempt(error: str, why: RunAgain) -> None:
    books = Books(TaskFate(40, False, error), TaskFate(52, False, None))
    assert books.begins(FIRST) == MayBegin(True)
    assert books.begins(AGAIN) is None
    assert books.again == [("source-0-3", why)]


def test_shuffle_files_that_another_task_has_missed_explain_a_second_run() -> None:
    books = Books(TaskFate(40, False, None), TaskFate(41, False, FETCH), TaskFate(52, False, None))
    books.begins(FIRST)
    assert books.begins(AGAIN) is None
    assert books.again == [("source-0-3", RunAgain(FETCH.split("\n", maxsplit=1)[0], True))]


@pytest.mark.parametrize(
    "fates", [[], [TaskFate(40, False, None), TaskFate(52, False, None)], [TaskFate(52, False, None)]]
)
def test_a_second_run_that_spark_does_not_explain_is_a_loss(fates: list[TaskFate]) -> None:
    """Books that are late or lost, or a stage that is run again while the first task is still at work."""
    books = Books(*fates)
    books.begins(FIRST)
    assert books.begins(AGAIN) is None
    assert books.again == [("source-0-3", RunAgain("Spark runs it again and does not say why", True))]


def test_a_speculative_copy_waits_and_sends_nothing() -> None:
    books = Books(TaskFate(40, False, None), TaskFate(52, True, None))
    books.begins(FIRST)
    assert books.begins(AGAIN) == MayBegin(False)
    del books.fates[0]  # it has ended well, and Spark is about to end the copy
    assert books.begins(AGAIN) == MayBegin(False)
    books.tasks.close()
    assert books.begins(AGAIN) is None
    assert books.again == []


def test_a_copy_may_ask_before_the_slow_task_itself() -> None:
    books = Books(TaskFate(52, False, None), TaskFate(40, True, None))
    assert books.begins(FIRST) == MayBegin(True)
    assert books.begins(AGAIN) == MayBegin(False)
    books.tasks.ended("source-0-3")
    del books.fates[1]  # the copy has ended well, and Spark is about to end the task itself
    assert books.begins(AGAIN) == MayBegin(False)
    assert books.again == []


def test_a_copy_that_is_lost_is_not_replaced_by_the_task_itself() -> None:
    books = Books(TaskFate(52, False, None), TaskFate(40, True, CRASH))
    books.begins(FIRST)
    assert books.begins(AGAIN) is None
    assert [why.lost for _, why in books.again] == [True]


def test_a_speculative_copy_of_a_task_that_is_lost_does_not_take_its_place() -> None:
    books = Books(TaskFate(40, False, None), TaskFate(52, True, None))
    books.begins(FIRST)
    assert books.begins(AGAIN) == MayBegin(False)
    books.fates[0] = TaskFate(40, False, CRASH)
    assert books.begins(AGAIN) is None
    assert [why.lost for _, why in books.again] == [True]


def test_the_end_of_an_attempt_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_tasks, "POLL_S", 60.0)
    books = Books(TaskFate(40, False, None), TaskFate(52, True, None))
    books.begins(FIRST)
    answers: list[MayBegin | None] = []
    copy = threading.Thread(target=lambda: answers.append(books.begins(AGAIN)))
    copy.start()
    books.tasks.close()
    copy.join(30)
    assert answers == [None]
