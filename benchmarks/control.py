"""What control takes and costs.

Reaction: from the report that first shows a skew to the moment when all routers use a table that relieves the worker;
for a join (state is copied first) and a median per key (it is not). Operators have an emulated cost.
Metric collection: its part of the CPU time of an exchange at full speed without Spark; hosts, sources and driver are
threads of one process here, so that every call is counted. Nobody watches the flow: showing a running result costs
extra. What it takes of a flow on Spark is measured by even.py.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from _live import LiveRun, main, paced, run_flow, say, verdict
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import reshape
from reshape.control.balancing import Balancing
from reshape.driver.port_control import PortControl
from reshape.driver.service import DriverService
from reshape.flows import Flow
from reshape.host.host import HostSettings
from reshape.host.loop import HostLoop
from reshape.operators.relay import RelaySpec
from reshape.plan.nodes import OperatorNode, SourceNode
from reshape.plan.planner import Planner
from reshape.protocol.link import ControlLink
from reshape.sender.source import SourceTask
from reshape.sim.metrics import percentile
from reshape.testing import Cut
from reshape.testing import run_flow as run_threads

REACTION_RUNS, QUICK_REACTION_RUNS = 12, 1
PASSES, QUICK_PASSES = 9, 2


# Reaction


def reactions(run: LiveRun) -> list[float]:
    """Seconds from report to use, for each mitigation that came to change the routing."""
    found = []
    for port in run.ports.values():
        for decision in port.decisions:
            if decision["what"] != "started":
                continue
            at = decision["seconds"]
            reported = max(seconds for seconds in port.times if seconds <= at)
            version = next(
                (
                    command["table"]["version"]
                    for command in port.commands
                    if command["command"] == "SetRouting"
                    and command["seconds"] >= reported
                    and decision["skewed"] in [owner for owner, _ in command["table"]["owners"]]
                ),
                None,
            )
            applied = [
                event["seconds"]
                for event in port.told
                if event["what"] == "RoutingApplied" and version is not None and event["version"] >= version
            ]
            if applied:
                found.append(min(applied) - reported)
    return found


def skewed_flows(spark: SparkSession) -> dict[str, Flow]:
    rows, seconds = 6_000, 2.0
    keys = spark.range(0, rows, 1, 2).selectExpr("CAST(sqrt(id * 2654435761 % 10000) AS INT) % 25 AS k", "id AS v")
    source = paced(keys, rows / 2, seconds)
    read = reshape.flow(source, name="reaction", hosts=2, workers=8, cost_s_per_row=0.003, joins="all")
    build = spark.range(0, 2_500, 1, 1).selectExpr("CAST(id % 25 AS INT) AS k", "id AS w")
    return {"join": read.join(build, "k"), "median": read.groupBy("k").agg(F.median("v"))}


def measure_reaction(spark: SparkSession, quick: bool) -> dict[str, Any]:
    times: dict[str, list[float]] = {"join": [], "median": []}
    for _ in range(QUICK_REACTION_RUNS if quick else REACTION_RUNS):
        for name, flow in skewed_flows(spark).items():
            times[name] += reactions(run_flow(flow, "reshape"))
    everything = [seconds for found in times.values() for seconds in found]
    say(f"reaction, {len(everything)} mitigations, operators with an emulated cost")
    verdicts = []
    for percent, limit in ((50, 0.150), (99, 0.500)):
        got = percentile(everything, percent) if everything else None
        verdicts.append(verdict(f"reaction in seconds, p{percent}", got, limit, at_least=False))
    return {"seconds": times, "verdicts": verdicts}


# Metric collection


@contextmanager
def clocked() -> Iterator[dict[str, list[float]]]:
    """CPU seconds of every piece of metric collection, in whichever thread it runs: counting, sending, booking.

    A piece that another one calls is counted with that one.
    """
    pieces: list[tuple[Any, str]] = [
        (HostLoop, "_progress_now"),
        (ControlLink, "note"),  # sources and hosts send their counts there
        (SourceTask, "_report_counts"),
        (DriverService, "_book"),  # the driver's end of notes and of reports
        (PortControl, "tick"),
    ]
    before = [getattr(owner, name) for owner, name in pieces]
    spent: dict[str, list[float]] = {f"{owner.__name__}.{name}": [] for owner, name in pieces}

    here = threading.local()

    def timed(function: Any) -> Any:
        seconds = spent[function.__qualname__]

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if getattr(here, "inside", False):
                return function(*args, **kwargs)
            here.inside = True
            begun = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                seconds.append(time.thread_time() - begun)
                here.inside = False

        return wrapper

    for (owner, name), function in zip(pieces, before, strict=True):
        setattr(owner, name, timed(function))
    try:
        yield spent
    finally:
        for (owner, name), function in zip(pieces, before, strict=True):
            setattr(owner, name, function)


def measure_metrics(quick: bool) -> dict[str, Any]:
    rows = 500_000 if quick else 8_000_000
    numbers = np.arange(rows)
    table = pa.table({"k": pa.array(numbers * 7 % 1_000_003), "v": pa.array(numbers)})
    node = OperatorNode((SourceNode(0, table.schema),), RelaySpec(table.schema, (0,)))
    plan = Planner(lambda *_: (Balancing("none"), 0.0)).plan(node, "metrics", 2, 16)
    runs = []
    for _ in range(QUICK_PASSES if quick else PASSES):
        with clocked() as spent:
            cpu = time.process_time()
            run_threads(plan, [table], Cut(0, 4, 20_000), settings=HostSettings(previews=False))
            cpu_s = time.process_time() - cpu
        pieces = {piece: {"cpu_s": sum(seconds), "calls": len(seconds)} for piece, seconds in spent.items()}
        runs.append({"metrics_cpu_s": sum(map(sum, spent.values())), "cpu_s": cpu_s, "pieces": pieces})
    say(f"metric collection, {rows:,} rows through 16 workers of 2 hosts, all in one process")
    part = median(run["metrics_cpu_s"] / run["cpu_s"] for run in runs)
    say(f"  {part:.2%} of the CPU time of the exchange alone")
    return {"rows": rows, "runs": runs, "part": part}


def measure(spark: SparkSession, quick: bool, rounds: int) -> dict[str, Any]:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")  # a paced source sends as little at once
    for flow in skewed_flows(spark).values():
        run_flow(flow, "reshape")  # JIT, Python workers
    reaction = measure_reaction(spark, quick)
    return {"reaction": reaction, "metric collection": measure_metrics(quick)}


if __name__ == "__main__":
    sys.exit(main("control", __doc__ or "", measure))
