"""How much of each source has been read: by hosts, of splits whose rows are known, or by tasks of Spark."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reshape.plan.physical import PhysicalPlan
from reshape.scan.scan import Scan

_TASK = re.compile(r"source-(\d+)-.+")


@dataclass(slots=True)
class _Source:
    """``total``: its rows, if they are known; ``weight``: its size beside that of the others."""

    total: int | None
    weight: float
    rows: dict[str, int] = field(default_factory=dict)  # by task
    ended_tasks: set[str] = field(default_factory=set)
    stage: int | None = None  # of Spark's tasks
    tasks: int | None = None
    ended: bool = False


class SourceCounts:
    """Of one attempt; takes reports from any thread. ``task_count`` asks Spark how many tasks a stage has."""

    def __init__(self, plan: PhysicalPlan, scans: Mapping[int, Scan], task_count: Callable[[int], int | None]) -> None:
        self._lock = threading.Lock()
        self._task_count = task_count
        sources = sorted(source for operator in plan.operators for port in operator.ports for source in port.sources)
        by_size = all(source in scans for source in sources)
        self._sources = {
            source: _Source(_rows(scans.get(source)), _bytes(scans[source]) if by_size else 1.0) for source in sources
        }

    def book(self, task: str, rows: int, *, ended: bool) -> None:
        """So many rows were read by a task, and are with the hosts or on their way."""
        named = _TASK.fullmatch(task)
        with self._lock:
            source = self._sources.get(int(named[1])) if named else None
            if source is not None:
                source.rows[task] = max(rows, source.rows.get(task, 0))
                if ended:
                    source.ended_tasks.add(task)

    def begins(self, source: int, stage: int) -> None:
        """A task of Spark's begins to send a source."""
        with self._lock:
            self._sources[source].stage = stage

    def ended(self, source: int) -> None:
        """All of it is with the hosts."""
        with self._lock:
            self._sources[source].ended = True

    def rows(self) -> dict[int, int]:
        """Rows read of each source."""
        with self._lock:
            return {number: sum(source.rows.values()) for number, source in self._sources.items()}

    def totals(self) -> dict[int, int | None]:
        """The rows that each source has, where that is known."""
        with self._lock:
            return {number: source.total for number, source in self._sources.items()}

    def tasks(self, number: int) -> int | None:
        """How many tasks of Spark's read a source, if it knows."""
        source = self._sources[number]
        if source.stage is not None and not source.tasks:  # without the lock: Spark is asked
            source.tasks = self._task_count(source.stage)
        return source.tasks

    def parts(self) -> dict[int, float | None]:
        """The part of each source that has been read, 0 to 1; None where it is unknown."""
        for number in self._sources:
            self.tasks(number)
        with self._lock:
            return {number: _part(source) for number, source in self._sources.items()}

    def part_of_all(self, parts: Mapping[int, float | None]) -> float | None:
        """Of all sources together, by their sizes where those are known."""
        known = [part for part in parts.values() if part is not None]
        if len(known) < len(parts) or not known:
            return None
        weights = [source.weight for source in self._sources.values()]
        total = sum(weights)
        return sum(part * weight for part, weight in zip(known, weights, strict=True)) / total if total else 1.0


def _part(source: _Source) -> float | None:
    if source.ended:
        return 1.0
    if source.total is not None:
        return min(1.0, sum(source.rows.values()) / source.total) if source.total else 1.0
    if source.tasks:
        return min(1.0, len(source.ended_tasks) / source.tasks)
    return 0.0 if source.stage is None and not source.rows else None


def _rows(scan: Scan | None) -> int | None:
    if scan is None:
        return None
    rows = [split.rows for split in scan.splits]
    return None if None in rows else sum(count for count in rows if count is not None)


def _bytes(scan: Scan) -> float:
    return float(sum(split.length for split in scan.splits))
