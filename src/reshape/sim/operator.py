"""One simulated operator: workers behind a router, and the brain that is told about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import nlargest

from reshape.control.brain import Brain
from reshape.control.events import Drained, Event, InputEnded, MetricsCollected, Watermark
from reshape.sim.agenda import Agenda
from reshape.sim.moves import Luck, SimulatedMoves
from reshape.sim.recorder import LOADS_KEPT_FOR, OperatorRun, Record
from reshape.sim.router import SimulatedRouter
from reshape.sim.scenario import Scenario, Stage
from reshape.sim.source import Group, KeyedInput
from reshape.sim.worker import Chunk, Worker

# Virtual seconds without a single row processed after which a run is given up: far above any time limit
# of a transfer.
STALL_S = 3600.0


class SimulationStalled(RuntimeError):
    """Rows are left and nothing moves: says where they wait."""


class SimulatedOperator:
    """The body of one brain. Rows come by :meth:`offer`; the brain sees reports and acknowledgements only."""

    def __init__(self, stage: Stage, brain: Brain, rows: KeyedInput, scenario: Scenario, agenda: Agenda) -> None:
        self.stage = stage
        self.brain = brain
        self.total = rows.total
        self.workers = [Worker(speed) for speed in stage.speeds]
        self.router = SimulatedRouter(len(self.workers), stage.settings.buckets_per_worker, brain.table)
        self.record = Record(stage.displayed, keep_loads=len(self.workers) <= LOADS_KEPT_FOR)
        self.ended = False
        self.drained = False
        self._agenda = agenda
        self._network = scenario.network
        self._report_s = scenario.report_s
        self._luck = Luck(scenario.failures, scenario.seed)
        self._transfers = SimulatedMoves(
            stage, rows.keys, self.workers, self.router, agenda, scenario.network, self._luck, self._tell
        )
        self._events = 0
        self._sent = 0
        self._input_s = 0.0
        self._waiting: dict[int, Chunk] = {}  # rows that found a full queue
        self._before = [0] * len(self.workers)  # processed at the last report
        self._moved_at = (0.0, 0)  # when the number of processed rows last grew, and to what
        agenda.every(scenario.report_s, self._report)
        agenda.every(scenario.display_s, self._display)
        if scenario.watermark_s is not None:
            agenda.every(scenario.watermark_s, self._pass_watermark)

    def advance(self) -> int:
        """Bring all workers up to now; the rows that they have processed so far."""
        now = self._agenda.now
        for worker in self.workers:
            if worker.queue:
                worker.advance(now)
        return sum(worker.processed for worker in self.workers)

    # Input

    def offer(self, group: Group) -> float | None:
        """Route a group. None when all of it is on its way, else the moment to call :meth:`retry`."""
        bound = self.router.route(group)
        if self.stage.queue_rows is not None:
            self._waiting = bound
            return self.retry()
        self._send(bound)
        return None

    def retry(self) -> float | None:
        """Send what found a full queue, as far as there is room now."""
        moments = [self._send_what_fits(index, chunk) for index, chunk in list(self._waiting.items())]
        return min((moment for moment in moments if moment is not None), default=None)

    def _send_what_fits(self, index: int, chunk: Chunk) -> float | None:
        """Send all of the chunk, or a full queue's worth, once there is room; when to try again, if ever."""
        limit = self.stage.queue_rows
        assert limit is not None
        worker = self.workers[index]
        worker.advance(self._agenda.now)
        room = limit - (self.router.received[index] - worker.processed - chunk.rows)
        wanted = min(chunk.rows, limit)
        if room >= wanted:
            rest, first = chunk.split(chunk.rows - wanted, lambda _: True)
            self._send({index: Chunk(first)})
            del self._waiting[index]
            if not rest:
                return None
            room -= wanted
            self._waiting[index] = Chunk(rest)
            wanted = min(chunk.rows - wanted, limit)
        return self._room_at(worker, wanted - room)

    def end_input(self) -> None:
        """All rows have been sent."""
        self.ended = True
        self._input_s = self._agenda.now
        self._tell(InputEnded)

    def _room_at(self, worker: Worker, rows: int) -> float:
        """When the worker will have processed so many more rows, be they in its queue or on their way."""
        now = self._agenda.now
        if worker.queued >= rows:
            return worker.finish_time(rows)
        return now + self._network.link_latency_s + rows / worker.speed

    def _send(self, bound: dict[int, Chunk]) -> None:
        if bound:
            self._sent += sum(chunk.rows for chunk in bound.values())
            self._agenda.after(self._network.link_latency_s, partial(self._deliver, bound))

    def _deliver(self, bound: dict[int, Chunk]) -> None:
        now = self._agenda.now
        for index, chunk in bound.items():
            self.workers[index].arrive(now, chunk)

    # The brain

    def _tell(self, make: Callable[[int, float], Event]) -> None:
        self._agenda.after(self._network.control_latency_s, partial(self._hear, make))

    def _hear(self, make: Callable[[int, float], Event]) -> None:
        self._events += 1
        for command in self.brain.handle(make(self._events, self._agenda.now)):
            self._agenda.after(self._network.control_latency_s, partial(self._transfers.execute, command))

    def _report(self) -> bool:
        done = self.advance()
        processed = [worker.processed for worker in self.workers]
        received = list(self.router.received)
        busy = [
            (now - before) / (worker.speed * self._report_s)
            for now, before, worker in zip(processed, self._before, self.workers, strict=True)
        ]
        self._before = processed
        facts = {
            "workload": [r - p for r, p in zip(received, processed, strict=True)],
            "processed": processed,
            "routed": list(self.router.routed),
            "received": received,
            "state_bytes": [self.stage.state_bytes] * len(processed),
            "remaining": self.total - sum(self.router.routed),
            "keys": self._heavy_keys(),
            "buckets": self._buckets(),
            "busy": busy,
        }
        self.router.since_report.clear()
        self._tell(lambda event, time: MetricsCollected(event, time, **facts))  # type: ignore[arg-type]
        if self.ended and done == self.total:
            self.drained = True
            self._tell(Drained)
            return False
        self._check_progress(done)
        return True

    def _pass_watermark(self) -> bool:
        if not self.drained:
            self._tell(Watermark)
        return not self.drained

    def _heavy_keys(self) -> dict[int, dict[int, int]]:
        """Per owner its most frequent keys since the last report, at most as many as the brain wants."""
        count, limit = len(self.workers), self.stage.settings.heavy_keys
        owners: dict[int, dict[int, int]] = {}
        for key, rows in self.router.since_report.items():
            owners.setdefault(key % count, {})[key] = rows
        for owner, keys in owners.items():
            if len(keys) > limit:
                owners[owner] = dict(nlargest(limit, keys.items(), key=lambda item: item[1]))
        return owners

    def _buckets(self) -> dict[int, int]:
        buckets: dict[int, int] = {}
        for key, rows in self.router.since_report.items():
            bucket = self.router.bucket_of(key)
            buckets[bucket] = buckets.get(bucket, 0) + rows
        return buckets

    def _check_progress(self, done: int) -> None:
        since, before = self._moved_at
        if done != before or not self._sent:
            self._moved_at = (self._agenda.now, done)
        elif self._agenda.now - since > STALL_S:
            held = {index: worker.held for index, worker in enumerate(self.workers) if worker.held}
            raise SimulationStalled(
                f"{self.stage.profile.name}: {self.total - done} rows left, idle for {STALL_S:.0f} s; "
                f"waiting at senders: {sorted(self._waiting)}, held for state: {sorted(held)}"
            )

    # The record

    def _display(self) -> bool:
        done = self.advance()
        received = self.router.received
        workload = [r - w.processed for r, w in zip(received, self.workers, strict=True)]
        self.record.add(self._agenda.now, self._shown(), workload, received, self.router.routed)
        return not (self.ended and done == self.total)

    def _shown(self) -> tuple[int, ...]:
        return tuple(sum(w.counts.get(key, 0) for w in self.workers) for key in self.stage.displayed)

    def result(self) -> OperatorRun:
        """The totals, after a check that every row has been processed exactly once."""
        by_key: dict[int, int] = {}
        for worker in self.workers:
            for key, rows in worker.counts.items():
                by_key[key] = by_key.get(key, 0) + rows
        processed = tuple(worker.processed for worker in self.workers)
        assert sum(processed) == self.total == sum(by_key.values()), "rows were lost or doubled"
        assert processed == tuple(self.router.received), "a worker processed other rows than it was sent"
        done = self._transfers
        finished = max(worker.drained_at for worker in self.workers)
        return OperatorRun(
            name=self.stage.profile.name,
            brain=self.brain,
            record=self.record,
            total_s=finished + done.merge_s,
            input_s=self._input_s,
            processed=processed,
            received=tuple(self.router.received),
            routed=tuple(self.router.routed),
            by_key=by_key,
            scattered={index: dict(worker.counts) for index, worker in enumerate(self.workers)},
            state_transfers=done.state_transfers,
            state_bytes=done.state_bytes,
            backlog_rows=done.backlog_rows,
            merges=done.merges,
            merge_s=done.merge_s,
        )
