"""A query's progress, written down twice a second while it runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from reshape.driver.attempts import Attempts
from reshape.driver.execution import Execution
from reshape.driver.facts import progress_facts
from reshape.observe.listeners import LISTENERS, QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent
from reshape.observe.progress import HostProgress, QueryIdentity, QueryProgress, SourceProgress, WorkerProgress

# Workers show something new four times a second; every other look is written down.
LOOK_S = 0.25
# As many as PySpark keeps of a stream, by default.
MOST_RECORDS = 100
# Rates are those of the last five seconds: long enough for a steady figure, short enough to follow.
WINDOW = 10
JOIN_S = 5.0


class Journal:
    """Of one query. Its thread is there between ``start`` and ``close``."""

    def __init__(self, identity: QueryIdentity, attempts: Attempts) -> None:
        self.identity = identity
        self._attempts = attempts
        self._lock = threading.Lock()
        self._records: deque[QueryProgress] = deque(maxlen=MOST_RECORDS)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reshape-progress-{attempts.name}", daemon=True)

    def start(self) -> None:
        who = self.identity
        LISTENERS.post(QueryStartedEvent(who.id, who.runId, who.name, _now()))
        self._thread.start()

    def close(self, failure: Callable[[], BaseException | None]) -> None:
        """The run has ended: one last record, and listeners hear of it."""
        self._closed.set()
        self._thread.join(JOIN_S)
        self._write()
        error = failure()
        words = None if error is None else f"{type(error).__name__}: {error}"
        LISTENERS.post(QueryTerminatedEvent(self.identity.id, self.identity.runId, words))

    def recent(self) -> list[QueryProgress]:
        with self._lock:
            return list(self._records)

    def _run(self) -> None:
        looks = 0
        while not self._closed.wait(LOOK_S):
            looks += 1
            if looks % 2 == 0:
                self._write()
            elif (newest := self._attempts.newest) is not None:
                newest.look()

    def _write(self) -> None:
        execution = self._attempts.newest
        if execution is None:
            return
        with self._lock:
            before = [record for record in self._records if record.attempt == execution.attempt][-WINDOW:]
        record = _record(self.identity, execution, before[0] if before else None)
        execution.control.note("progress", **progress_facts(record))
        with self._lock:
            self._records.append(record)
        LISTENERS.post(QueryProgressEvent(record))


def _record(who: QueryIdentity, execution: Execution, before: QueryProgress | None) -> QueryProgress:
    execution.look()
    seconds = execution.control.now
    elapsed = seconds - before.seconds if before is not None else seconds
    rows, parts = execution.sources.rows(), execution.sources.parts()
    part = execution.sources.part_of_all(parts)
    rows_before = [source.numInputRows for source in before.sources] if before is not None else [0] * len(rows)
    sources = tuple(
        SourceProgress(f"source {number}", count, _rate(count - earlier, elapsed), parts[number])
        for (number, count), earlier in zip(rows.items(), rows_before, strict=True)
    )
    workers = execution.workers()
    processed = _processed(workers)
    pace = _rate(processed - (_processed(before.workers) if before is not None else 0), elapsed)
    waiting = sum(sum(worker.rows_waiting) for worker in workers)
    part_pace = None
    if part is not None:
        part_pace = _rate(part - ((before.part_read or 0.0) if before is not None else 0.0), elapsed)
    return QueryProgress(
        who.id,
        who.runId,
        who.name,
        _now(),
        execution.attempt,
        seconds,
        sum(rows.values()),
        sum(source.inputRowsPerSecond for source in sources),
        pace,
        part,
        0.0 if execution.over else _left(part, part_pace, waiting, pace),
        waiting,
        execution.control.representativeness().overall,
        paused=execution.control.paused,
        sources=sources,
        workers=workers,
        hosts=tuple(HostProgress(*host) for host in execution.result.memory()),
    )


def _left(part: float | None, part_pace: float | None, waiting: int, pace: float) -> float | None:
    """Seconds until the rest is read and what waits is processed, whichever takes longer."""
    if part is None or (part < 1 and not part_pace) or (waiting and not pace):
        return None
    to_read = (1 - part) / part_pace if part < 1 and part_pace else 0.0
    return max(to_read, waiting / pace if waiting else 0.0)


def _processed(workers: tuple[WorkerProgress, ...]) -> int:
    return sum(sum(worker.rows_processed) for worker in workers)


def _rate(count: float, seconds: float) -> float:
    return max(0.0, count / seconds) if seconds > 0 else 0.0


def _now() -> str:
    """As PySpark writes it: ISO 8601, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
