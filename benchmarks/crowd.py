"""What many hosts cost the driver, with as many sources: CPU seconds a second (budget at 500: 0.3), threads, memory.

Handling: reports as they travel, booked by the driver's service one after the other, and the look of the brain at
them; CPU time of a round of all tasks by how often there is one. Calls: the driver's process in steady state while the
tasks, in processes of their own, send those reports and fetch orders as they do in a flow.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from _crowd import CrowdedDriver, crowd_plan
from _crowd_tasks import run_tasks

SIZES, QUICK_SIZES = (4, 64, 250, 500), (40,)  # with as many sources, more tasks than may wait at the board
ROUNDS, QUICK_ROUNDS = 5, 2
STEADY_S, QUICK_STEADY_S = 20.0, 2.0
BUDGET = 0.3
# Processes of the tasks; many tasks share one, or the machine would be busy with processes.
PROCESSES = 2
LIMIT_S = 300.0


def handling(hosts: int, rounds: int) -> dict[str, Any]:
    """CPU time of booking what all tasks report once, and of one look at it."""
    driver = CrowdedDriver(crowd_plan(hosts))
    driver.start_sources()
    control = driver.execution.control
    booked, looked = [], []
    for number in range(1, rounds + 1):
        bodies = driver.crowd.round_of(number)
        gc.collect()
        began = time.thread_time()
        for body in bodies:
            driver.book(body)
        booked.append(time.thread_time() - began)
        with control._news:
            began = time.thread_time()
            for port in control.ports.values():
                port.tick(control.now)
            looked.append(time.thread_time() - began)
    pause_s = pause_between_reports(driver, 2 * hosts)
    driver.close()
    per_s = (median(booked) + median(looked)) / pause_s
    return {"round_s": booked, "look_s": looked, "report_s": pause_s, "cpu_s_per_s": per_s}


def pause_between_reports(driver: CrowdedDriver, tasks: int) -> float:
    """How long the driver lets each of so many tasks pause, once all have read their orders."""
    for task in range(tasks):
        driver.execution.board.read(f"task-{task}", 0, 0.0)
    return max(driver.crowd.plan.report_s, driver.execution.board.pause_s)


def calls(hosts: int, steady_s: float) -> dict[str, Any]:
    """The driver in this process, its tasks in others: what it takes of the CPU once all are at work."""
    driver = CrowdedDriver(crowd_plan(hosts))
    context = multiprocessing.get_context("spawn")
    over, ready = context.Event(), context.Queue()
    tasks = [f"{kind}{number}" for number in range(hosts) for kind in ("host-", "source-0-")]
    processes = [
        context.Process(
            target=run_tasks, args=(driver.crowd, driver.address, tasks[part::PROCESSES], PROCESSES, over, ready)
        )
        for part in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for _ in processes:
        ready.get(timeout=LIMIT_S)
    time.sleep(2 * driver.execution.board.pause_s)  # until calls are spread evenly
    figures = steady(driver, steady_s)
    over.set()
    for process in processes:
        process.join(LIMIT_S)
    driver.close()
    return figures


def steady(driver: CrowdedDriver, steady_s: float) -> dict[str, Any]:
    """Figures of this process while so much time passes."""
    reports = 0
    book = driver.attempts.reported

    def counted(*arguments: Any) -> Any:
        nonlocal reports
        reports += 1
        return book(*arguments)

    driver.attempts.reported = counted  # type: ignore[method-assign]
    cpu, clock, threads = time.process_time(), time.monotonic(), []
    while time.monotonic() - clock < steady_s:
        time.sleep(steady_s / 20)
        threads.append(len(os.listdir("/proc/self/task")))
    cpu, clock = time.process_time() - cpu, time.monotonic() - clock
    return {
        "cpu_s_per_s": cpu / clock,
        "reports_per_s": reports / clock,
        "threads": max(threads),
        "memory_mb": resident_mb(),
        "pause_s": driver.execution.board.pause_s,
    }


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def shown(name: str, figures: dict[str, Any]) -> str:
    text = f"  {name:9} {figures['cpu_s_per_s']:7.3f} CPU s/s"
    if "threads" in figures:
        text += (
            f", {figures['reports_per_s']:,.0f} reports/s, {figures['threads']} threads, {figures['memory_mb']:.0f} MB"
        )
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few hosts and little time: does it run?")
    parser.add_argument("--hosts", type=int, nargs="+", help="numbers of hosts, instead of the usual ones")
    parser.add_argument("--no-calls", action="store_true", help="handling alone, which needs no other processes")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file as well")
    arguments = parser.parse_args()
    quick: bool = arguments.quick
    results = []
    for hosts in arguments.hosts or (QUICK_SIZES if quick else SIZES):
        print(f"{hosts} hosts with {hosts} sources", flush=True)
        figures: dict[str, Any] = {"hosts": hosts, "handling": handling(hosts, QUICK_ROUNDS if quick else ROUNDS)}
        print(shown("handling", figures["handling"]), flush=True)
        if not arguments.no_calls:
            figures["calls"] = calls(hosts, QUICK_STEADY_S if quick else STEADY_S)
            print(shown("calls", figures["calls"]), flush=True)
        results.append(figures)
    if arguments.json:
        made = {"benchmark": "crowd", "quick": quick, "budget": BUDGET, "results": results}
        Path(arguments.json).write_text(json.dumps(made, indent=2))
    # A quick look is no verdict.
    worst = max(figures.get("calls", figures["handling"])["cpu_s_per_s"] for figures in results)
    return 0 if worst <= BUDGET or quick else 1


if __name__ == "__main__":
    sys.exit(main())
