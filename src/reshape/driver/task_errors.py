"""Why a Spark task failed: in one line, out of Spark's own books."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reshape.driver.cluster import TaskFate

if TYPE_CHECKING:
    from pyspark import SparkContext

# What Spark writes when a task went down with its process or its machine, or was taken away from it.
_SIGNS_OF_LOSS = ("ExecutorLostFailure", "exited unexpectedly", "TaskKilled", "FetchFailed", "Resubmitted")
_MOST_TASKS = 10_000
# Tries of a stage: Spark gives up after four of them in a row.
_MOST_TRIES = 16


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


def is_unrecovered(error: str) -> bool:
    """Has a job failed because its last stage is a barrier stage, which Spark would have repeated anywhere else?"""
    return "failed barrier ResultStage" in error


def unsuccessful(context: SparkContext, stage: int) -> list[TaskFate]:
    """Tasks of a stage, in all of its tries, that run or have failed, as far as Spark has booked them."""
    jvm: Any = context._jvm
    store: Any = context._jsc.sc().statusStore()
    kinds: Any = jvm.org.apache.spark.status.api.v1
    statuses = jvm.java.util.ArrayList()
    for status in (kinds.TaskStatus.RUNNING, kinds.TaskStatus.FAILED, kinds.TaskStatus.KILLED):
        statuses.add(status)
    fates = []
    for attempt in range(_MOST_TRIES):
        tasks: Any = store.taskList(stage, attempt, 0, _MOST_TASKS, kinds.TaskSorting.ID, statuses)
        for index in range(tasks.size()):
            task, message = tasks.apply(index), tasks.apply(index).errorMessage()
            error = str(message.get()) if message.isDefined() else None
            fates.append(TaskFate(task.taskId(), task.speculative(), error))
    return fates
