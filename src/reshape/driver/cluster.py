"""What runs the tasks of a flow: Spark, or threads in tests. An attempt knows no more of it than this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TaskFate:
    """A task that runs or has failed. ``speculative``: started beside another one that runs; ``error``: what it failed
    with."""

    task: int
    speculative: bool
    error: str | None


class Cluster(Protocol):
    """Tasks of one flow. Every method may be called from any thread."""

    def run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        """Send all rows of a source to the hosts at these locations; returns their number when hosts have them all."""

    def cancel_sources(self, attempt: int) -> None:
        """Stop the source tasks of an attempt, as soon as may be."""

    def cancel_hosts(self, stage: int, reason: str) -> None:
        """Let the action that runs the hosts of a stage raise at once, with this reason."""

    def kept_rows(self, stage: int) -> str | None:
        """What is kept of rows that the hosts of a stage have given in an earlier try; None if there is nothing."""

    def task_count(self, stage: int) -> int | None:
        """How many tasks a stage has; None if that is unknown."""

    def unsuccessful(self, stage: int) -> Sequence[TaskFate]:
        """Tasks of all tries of a stage that run or have failed, as far as is known, the oldest first."""
