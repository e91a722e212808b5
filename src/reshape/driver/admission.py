"""Does a report fit the flow that it is about? What is told of a worker, host or input that does not exist is refused
before anything is booked, so that it can neither raise halfway nor end an input too early."""

from __future__ import annotations

from typing import assert_never

from reshape.exchange.tally import RouterCounts
from reshape.operators.heavy_keys import most_heavy_keys
from reshape.plan.physical import PhysicalPlan, Port
from reshape.protocol.errors import MessageRefused
from reshape.protocol.reports import (
    BacklogSent,
    BacklogStayed,
    Failed,
    Fenced,
    Holding,
    HostReady,
    Leaving,
    OperatorDone,
    Progress,
    RangeComputed,
    RangeSorted,
    Report,
    RouterCounted,
    RouterEnded,
    RouterStarted,
    Sampled,
    ScatteredSent,
    SourceBegins,
    SourceRead,
    SplitWanted,
    StateArrived,
    StateStayed,
    TableApplied,
    Withdrawn,
    WorkerCounts,
)


def check_report(plan: PhysicalPlan, report: Report) -> None:  # noqa: PLR0912 - one case a report
    """Raises :class:`MessageRefused`, which names the record, the field and what it must be."""
    check = _Check(plan, type(report).__name__)
    match report:
        case HostReady():
            check.host(report.host)
        case Progress():
            check.progress(report)
        case OperatorDone():
            check.operator(report.operator)
            check.host(report.host)
            if report.counts is not None:
                check.counts(report.counts)
        case RangeSorted() | RangeComputed():
            check.operator(report.operator)
            check.below("worker", report.worker, plan.workers)
            if plan.operators[report.operator].logic.looks_beyond is None:
                check.refuse("operator", "one whose workers have ranges that know of each other", report.operator)
            keyed = check.port(report.operator, 0).keys
            check.below("partition", report.partition, most_heavy_keys(plan.workers) if keyed else 1)
        case Sampled():
            if check.port(report.operator, report.port).ordering is None:
                check.refuse("port", "an input with an order", report.port)
        case RouterCounted() | RouterEnded():
            check.port(report.operator, report.port)
            check.counts(report.counts)
        case StateArrived() | StateStayed():
            check.port(report.operator, report.port)
            check.below("helper", report.helper, plan.workers)
        case BacklogStayed():
            check.port(report.operator, report.port)
            check.below("target", report.target, plan.workers)
        case ScatteredSent():
            check.port(report.operator, report.port)
            check.host(report.host)
        case RouterStarted() | TableApplied() | Fenced() | Holding() | Withdrawn() | BacklogSent():
            check.port(report.operator, report.port)
        case SourceRead():
            check.host(report.host)
        case SourceBegins():
            check.source(report.source)
        case Failed() | Leaving() | SplitWanted():
            pass  # about the task that says it
        case _:
            assert_never(report)


class _Check:
    """Compares numbers of one report with those that a plan has."""

    def __init__(self, plan: PhysicalPlan, record: str) -> None:
        self._plan = plan
        self._record = record

    def refuse(self, field: str, wanted: str, got: object) -> None:
        raise MessageRefused(f"{self._record}.{field}", wanted, repr(got))

    def below(self, field: str, number: int, limit: int) -> None:
        if number >= limit:
            self.refuse(field, f"below {limit}", number)

    def operator(self, number: int) -> None:
        self.below("operator", number, len(self._plan.operators))

    def port(self, operator: int, port: int) -> Port:
        self.operator(operator)
        ports = self._plan.operators[operator].ports
        self.below("port", port, len(ports))
        return ports[port]

    def source(self, number: int) -> None:
        sources = [source for operator in self._plan.operators for port in operator.ports for source in port.sources]
        if number not in sources:
            self.refuse("source", f"one of {sorted(sources)}", number)

    def host(self, number: int) -> None:
        self.below("host", number, self._plan.hosts)

    def counts(self, counts: RouterCounts) -> None:
        """A router that waits for the bounds of a sort has counted nothing yet."""
        plan = self._plan
        for field in ("routed", "sent"):
            workers = len(getattr(counts, field))
            if workers not in (0, plan.workers) or workers != len(counts.routed):
                self.refuse(f"counts.{field}", f"of {plan.workers} workers", workers)
        for owner in counts.keys:
            self.below("counts.keys", owner, plan.workers)
        for bucket in counts.buckets:
            self.below("counts.buckets", bucket, plan.workers * plan.buckets_per_worker)

    def progress(self, report: Progress) -> None:
        self.host(report.host)
        there = self._plan.workers_of(report.host)
        for worker in report.workers:
            self._worker(worker.operator, worker.worker, there)
            self._worker_counts(worker)
        for shown in report.previews or ():
            self._worker(shown.operator, shown.worker, there)
            for owner in shown.of_owner:
                self.below("previews.of_owner", owner, self._plan.workers)
        for sender, counts in report.routers.items():
            self.below("routers", sender, len(self._plan.operators))
            self.counts(counts)

    def _worker(self, operator: int, number: int, there: range) -> None:
        self.operator(operator)
        if number not in there:
            self.refuse("worker", f"one of the host's, {there.start} to {there.stop - 1}", number)

    def _worker_counts(self, worker: WorkerCounts) -> None:
        ports = len(self._plan.operators[worker.operator].ports)
        for field in ("waiting", "processed", "of_owner"):
            if len(getattr(worker, field)) != ports:
                self.refuse(f"workers.{field}", f"of {ports} inputs", getattr(worker, field))
        for by_owner in worker.of_owner:
            for owner in by_owner:
                self.below("workers.of_owner", owner, self._plan.workers)
