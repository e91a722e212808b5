"""Actions whose last stage is the hosts' own: Spark does not start such a stage again, so the driver does.

Nothing of an attempt that was lost has reached the caller, and the lazy DataFrame runs as often as one likes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from reshape.driver.attempts import Attempts
from reshape.driver.task_errors import in_short, is_unrecovered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")

# As often as Spark starts a barrier stage where it can (spark.stage.maxConsecutiveAttempts).
TRIES = 4


def run_action(df: DataFrame, attempts: Attempts, action: Callable[[DataFrame], T]) -> T:
    """What the action gives. It is run again when a part of the cluster was lost, and only then: a job that was
    cancelled stays so, and an error of the flow would only come again."""
    tries = 1
    while True:
        try:
            return action(df)
        except Exception as error:
            lost = is_unrecovered(str(error)) and attempts.hosts_failed(in_short(error))
            if not lost or tries == TRIES:
                raise
            tries += 1
