"""Why a Spark task failed: in one line, out of Spark's own books."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

# What Spark writes when a task went down with its process or its machine, or was taken away from it.
_SIGNS_OF_LOSS = ("ExecutorLostFailure", "exited unexpectedly", "TaskKilled", "FetchFailed", "Resubmitted")
_MOST_TASKS = 100_000


def in_short(error: object) -> str:
    """The line of an error from Spark that says what happened: the end of a Python traceback, else the beginning."""
    text = str(error).split("\n\tat ")[0].split("\nJVM stacktrace")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("SQLSTATE", "An error occurred while calling"))]
    if not lines:
        return ""
    if any(line.endswith("Traceback (most recent call last):") for line in lines):
        return lines[-1]
    return lines[0].removeprefix(": ")


def is_loss(error: str) -> bool:
    return any(sign in error for sign in _SIGNS_OF_LOSS)


def first_error(context: SparkContext, stage: int) -> str | None:
    """What the first failed task of a stage's first attempt failed with, as far as Spark has booked it."""
    store: Any = context._jsc.sc().statusStore()
    tasks: Any = store.taskList(stage, 0, _MOST_TASKS)
    for index in range(tasks.size()):
        message = tasks.apply(index).errorMessage()
        if message.isDefined():
            return str(message.get())
    return None
