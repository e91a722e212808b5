"""Who uses the task slots of a session, as Spark's own books have it; and who of them waits for the others for ever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class SlotUse:
    """``tasks``: how many tasks run, by stage that has begun. ``jobs``: those of running jobs, by job group."""

    slots: int
    tasks: Mapping[int, int]
    jobs: Mapping[str, frozenset[int]]

    @property
    def free(self) -> int:
        return self.slots - sum(self.tasks.values())

    def runs(self, group: str) -> bool:
        """Does any task of a job group run?"""
        return any(self.tasks[stage] for stage in self.jobs.get(group, ()))


@dataclass(frozen=True, slots=True)
class Holder:
    """An attempt whose hosts hold slots: the stage of its hosts, the job group of its sources."""

    stage: int
    group: str


def look(context: SparkContext, slots: int, groups: Iterable[str]) -> SlotUse:
    """What runs now, a moment late at the most."""
    tracker = context.statusTracker()
    stages = {stage: tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()}
    tasks = {stage: info.numActiveTasks for stage, info in stages.items() if info is not None}
    jobs_of: dict[str, frozenset[int]] = {}
    for group in groups:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        begun = {stage for job in jobs if job is not None and job.status == "RUNNING" for stage in job.stageIds}
        jobs_of[group] = frozenset(begun & tasks.keys())
    return SlotUse(slots, tasks, jobs_of)


def starved(holders: Iterable[Holder], use: SlotUse) -> list[Holder]:
    """Those that wait for slots of each other, so that none of them can end; empty if anything else runs.

    A source job waits if no task of it runs but hosts of other attempts that wait too: those of a flow whose result is
    read. Whatever runs beside all these ends at some time and may leave a slot.
    """
    waiting = [holder for holder in holders if use.jobs.get(holder.group)]
    while True:
        stages = {holder.stage for holder in waiting}
        still = [
            holder
            for holder in waiting
            if all(stage in stages or not use.tasks[stage] for stage in use.jobs[holder.group])
        ]
        if len(still) == len(waiting):
            break
        waiting = still
    elsewhere = [stage for stage, running in use.tasks.items() if running and stage not in stages]
    return [] if elsewhere else waiting
