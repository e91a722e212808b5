"""How long one step of the brain takes, by number of workers (budget: 20 ms at 10,000, no faster growth than n log n).

A step is one report: the brain takes it in, looks at all mitigations and at all free workers. Reports come from a join
in which one worker of twenty is skewed; everything that the brain asks for is acknowledged before the next report.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import time
from itertools import count
from pathlib import Path
from statistics import median

from reshape.control.brain import Brain
from reshape.control.commands import Command, HandOverState, MoveBacklog, ReplicateState, SetRouting
from reshape.control.events import BacklogMoved, Event, MetricsCollected, RoutingApplied, StateTransferred
from reshape.control.profile import OperatorProfile
from reshape.control.strategies import build

SIZES = (100, 300, 1_000, 3_000, 10_000)
REPORTS = 60
WARM_UP = 10
BUDGET_S = 0.020
PERIOD_S = 0.5
RATE = 1_000  # rows per report of a worker that is not skewed; it processes twice that
SKEW = 10
ONE_IN = 20


class Body:
    """Rows by arithmetic: what is routed follows the table's owner rules in whole, as far as a report needs it."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.routed = [0] * workers
        self.received = [0] * workers
        self.processed = [0] * workers
        self.rates = [RATE * (SKEW if worker % ONE_IN == 0 else 1) for worker in range(workers)]
        self.given: dict[int, dict[int, float]] = {}
        self.ids = count(1)

    def report(self, number: int) -> MetricsCollected:
        # A little unrest, so that samples have an error; a fixed pattern keeps runs comparable.
        rows = [rate + (worker * 7 + number * 13) % 101 for worker, rate in enumerate(self.rates)]
        for worker, sent in enumerate(rows):
            self.routed[worker] += sent
            away = 0
            for helper, share in self.given.get(worker, {}).items():
                part = int(sent * share)
                self.received[helper] += part
                away += part
            self.received[worker] += sent - away
        self.processed = [min(r, p + 2 * RATE) for r, p in zip(self.received, self.processed, strict=True)]
        keys = {
            worker: {worker: sent // 2, worker + self.workers: sent - sent // 2} for worker, sent in enumerate(rows)
        }
        return MetricsCollected(
            next(self.ids),
            number * PERIOD_S,
            workload=[r - p for r, p in zip(self.received, self.processed, strict=True)],
            processed=list(self.processed),
            routed=list(self.routed),
            received=list(self.received),
            state_bytes=[1_000] * self.workers,
            remaining=10**12,
            keys=keys,
        )

    def answers(self, command: Command, now: float) -> list[Event]:
        match command:
            case SetRouting(table=table):
                self.given = {
                    owner: {worker: float(share) for worker, share in rule.parts if worker != owner}
                    for owner, rule in table.owners.items()
                }
                return [RoutingApplied(next(self.ids), now, table.version)]
            case ReplicateState(transfer=transfer, helpers=helpers):
                return [StateTransferred(next(self.ids), now, transfer, helper, 1_000, 0.001) for helper in helpers]
            case HandOverState(transfer=transfer, target=target):
                return [StateTransferred(next(self.ids), now, transfer, target, 1_000, 0.001)]
            case MoveBacklog(transfer=transfer, source=source, target=target, rows=rows):
                moved = min(rows, self.received[source] - self.processed[source])
                self.received[source] -= moved
                self.received[target] += moved
                return [BacklogMoved(next(self.ids), now, transfer, moved)]
        return []


def step_times(brain: Brain, workers: int, reports: int) -> list[float]:
    """Seconds of each report's step after the first ones."""
    body = Body(workers)
    times = []
    gc.collect()
    gc.disable()
    try:
        for number in range(1, reports + 1):
            event: Event = body.report(number)
            began = time.perf_counter()
            commands = brain.handle(event)
            times.append(time.perf_counter() - began)
            while commands:
                answers = [answer for command in commands for answer in body.answers(command, event.time + 0.01)]
                commands = [command for answer in answers for command in brain.handle(answer)]
            gc.collect()
    finally:
        gc.enable()
    return times[WARM_UP:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer reports")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file as well")
    arguments = parser.parse_args()
    reports = REPORTS // 3 if arguments.quick else REPORTS
    results = []
    ok = True
    for strategy in ("reshape-paper", "reshape"):
        rows = []
        for workers in SIZES:
            times = step_times(build(strategy, OperatorProfile("join", workers)), workers, reports)
            rows.append({"workers": workers, "median_s": median(times), "max_s": max(times)})
            print(
                f"{strategy:14} {workers:>6,} workers: {median(times) * 1e3:8.3f} ms median, "
                f"{max(times) * 1e3:8.3f} ms worst",
                flush=True,
            )
        growth = exponent(rows[0]["workers"], rows[0]["median_s"], rows[-1]["workers"], rows[-1]["median_s"])
        allowed = exponent(SIZES[0], SIZES[0] * math.log(SIZES[0]), SIZES[-1], SIZES[-1] * math.log(SIZES[-1]))
        ok = ok and rows[-1]["median_s"] < BUDGET_S and growth <= allowed
        print(f"{strategy:14} grows as n^{growth:.2f}; n log n would be n^{allowed:.2f} over this range")
        results.append({"strategy": strategy, "growth_exponent": growth, "n_log_n_exponent": allowed, "steps": rows})
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"benchmark": "controller_step", "results": results}, indent=2))
    # A quick look is no verdict: other work on the machine decides too much.
    return 0 if ok or arguments.quick else 1


def exponent(n_first: float, t_first: float, n_last: float, t_last: float) -> float:
    return math.log(t_last / t_first) / math.log(n_last / n_first)


if __name__ == "__main__":
    sys.exit(main())
