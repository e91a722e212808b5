"""What the live page costs: CPU time of a report that is recorded, of an update that is made of it, and of one that a
browser draws; memory of the record and of the page; CPU time of the server beside a flow on Spark.

Budgets: with 500 workers after an hour of events an update takes less than 50 ms in the driver, and in the browser too;
the server takes less than 2 % of a flow's CPU time. Chromium is used where there is one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import tracemalloc
from pathlib import Path
from statistics import median
from typing import Any

from _page_watched import beside_flow, in_browser

from reshape.observe.record import RunRecord
from reshape.page import feed as feeds
from reshape.page.feed import Feed, Heard
from reshape.page.runs import Runs

SIZES = (4, 64, 500)
INPUTS = 3  # a join with two sides, and a group-by
REPORTS_PER_S = 10  # beyond 64 tasks they come less often
UPDATES = 50
BUDGET_S = 0.050
BUDGET_PART = 0.02
WATCHED_S, QUICK_WATCHED_S = 10.0, 2.0


class Told:
    """A run that is told by this benchmark."""

    name, status, active, actions = "benchmark", "running", True, ("pause", "stop")

    def __init__(self) -> None:
        self.record = RunRecord()

    def look(self) -> None:
        """Nothing to do: what is shown is told."""

    def act(self, action: str, value: float | None = None) -> None:
        """Nobody asks."""


def begin(record: RunRecord, workers: int) -> None:
    ports = [{"label": f"input {number}", "role": "", "keys": ["k"]} for number in range(INPUTS)]
    operator = {"id": 0, "label": "join", "strategy": "reshape", "emulated_s": 0.0, "target": None, "ports": ports}
    facts = {"name": "benchmark", "attempt": 1, "hosts": 8, "workers": workers, "host_of": [0] * workers}
    record.write("flow", 0.0, **facts, columns=[], operators=[operator], sources=[])


def report(record: RunRecord, workers: int, seconds: float) -> None:
    """All inputs report, one worker in twenty is skewed, and somebody decides something every second."""
    number = int(seconds * REPORTS_PER_S)
    for port in range(INPUTS):
        waiting = [(worker * 7 + number * 13) % 10_007 for worker in range(workers)]
        processed = [number * 1_000 + worker for worker in range(workers)]
        columns = {"workload": waiting, "processed": processed, "routed": processed, "received": processed}
        busy = [0.37] * workers
        record.write("report", seconds, operator=0, port=port, state_bytes=waiting, busy=busy, keys={}, **columns)
        if number % REPORTS_PER_S == 0:
            skewed = number // REPORTS_PER_S % max(1, workers // 20) * 20
            who = {"skewed": skewed, "helpers": (skewed + 1,)}
            record.write("decision", seconds, operator=0, port=port, what="started", text="why " * 40, **who)
    rows = [[f"key {row}", row * number] for row in range(200)]
    columns = {"columns": [{"name": "k", "type": "string"}, {"name": "n", "type": "int64"}], "rows": rows}
    record.write("shown", seconds, trust=0.9, completeness=[1.0] * 200, final=False, **columns)


def measure(workers: int, seconds: int, watched_s: float) -> dict[str, Any]:
    often, feeds.UPDATE_S = feeds.UPDATE_S, 0.0
    runs, run = Runs(), Told()
    number = runs.add(run)
    begin(run.record, workers)
    tracemalloc.start()
    for step in range(seconds):
        report(run.record, workers, float(step))
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    feed, heard = Feed(runs), Heard()
    feed.update([number], heard)
    recording, updating, sizes = [], [], []
    for step in range(UPDATES):
        began = time.process_time()
        report(run.record, workers, seconds + step / REPORTS_PER_S)
        recorded = time.process_time()
        message = feed.update([number], heard)
        updating.append(time.process_time() - recorded)
        recording.append(recorded - began)
        sizes.append(len(message or ""))
    part = median(updating) * 5 + median(recording) * REPORTS_PER_S
    feeds.UPDATE_S = often
    clock = itertools.count(seconds + UPDATES)
    drawn = in_browser(runs, number, lambda: report(run.record, workers, float(next(clock))), watched_s)
    return {
        "workers": workers,
        "update_ms": round(1000 * median(updating), 2),
        "longest_update_ms": round(1000 * max(updating), 2),
        "record_ms": round(1000 * median(recording), 2),
        "update_bytes": int(median(sizes)),
        "memory_mb": round(memory / 1e6, 1),
        "part_of_a_core": round(part, 4),
        **(drawn or {}),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute of events instead of an hour")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    seconds, watched_s = (60, QUICK_WATCHED_S) if arguments.quick else (3_600, WATCHED_S)
    figures = [measure(workers, seconds, watched_s) for workers in SIZES]
    for each in figures:
        print(", ".join(f"{name} {value}" for name, value in each.items()))
    beside = beside_flow(arguments.quick)
    print("beside a flow on Spark:", ", ".join(f"{name} {value}" for name, value in beside.items()))
    if arguments.json is not None:
        written = {"benchmark": "page", "quick": arguments.quick, "sizes": figures, "beside a flow": beside}
        arguments.json.write_text(json.dumps(written, indent=2))
    slowest = max(figures[-1]["update_ms"], figures[-1].get("browser_ms", 0.0))
    return 0 if slowest < 1000 * BUDGET_S and beside["part"] < BUDGET_PART else 1


if __name__ == "__main__":
    sys.exit(main())
