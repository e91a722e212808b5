"""Flows that run on Spark while load moves, and what their event logs say about them afterwards.

Where operators have an emulated cost, a worker waits for so long per row; the machine is then idle, and 48 workers on
two cores behave as on 48 cores. Sources are paced by waiting too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from _cpu import Neighbours
from pyspark.sql import DataFrame, SparkSession

from reshape.flows import Flow
from reshape.machine.java import ensure_java
from reshape.sim import metrics

# A running result moves four times a second; this misses none of its states.
LOOK_S = 0.1
LIMIT_S = 300.0

# A function behind another one is started with it, and is ready for rows after about so long.
LEAD_S = 2.5
# A batch that is late by less than this does not make the next ones late: what a scheduler does, not a delay.
LATE_S = 0.02

Measure = Callable[[SparkSession, bool, int], dict[str, Any]]  # (session, quick, rounds) -> figures


@dataclass(slots=True)
class PortLog:
    """What the log of a run says about one input of one operator. Times are seconds since the hosts were ready."""

    began_s: float = 0.0  # a report period before the first row was seen, at most
    times: list[float] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    workload: list[list[int]] = field(default_factory=list)
    processed: list[list[int]] = field(default_factory=list)
    routed: list[list[int]] = field(default_factory=list)
    received: list[list[int]] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    commands: list[dict[str, Any]] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)

    @property
    def total_s(self) -> float:
        """From the first row until all have been processed."""
        return self._told_at("Drained") - self.began_s

    @property
    def input_s(self) -> float:
        """From the first row until the last was sent."""
        return self._told_at("InputEnded") - self.began_s

    def helpers_of(self, worker: int) -> tuple[int, ...]:
        """Those whom the brain chose first. Where it chose nobody, the worker with the least input of its own, so that
        strategies that move nothing can be compared too."""
        for decision in self.decisions:
            if decision["what"] == "started" and decision["skewed"] == worker:
                return tuple(decision["helpers"])
        rows = self.routed[-1]
        return (min((w for w in range(len(rows)) if w != worker), key=rows.__getitem__),)

    def skewed(self) -> list[int]:
        """Workers that a mitigation was started for, in order."""
        return list(dict.fromkeys(d["skewed"] for d in self.decisions if d["what"] == "started"))

    def load_balancing(self, worker: int) -> float | None:
        """The average load balancing ratio over the execution (§7.4)."""
        return metrics.load_balancing(self.received, worker, self.helpers_of(worker))

    def _told_at(self, what: str) -> float:
        return float(next(event["seconds"] for event in self.told if event["what"] == what))


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that is over. ``shown`` are the states of the running result, with their times."""

    strategy: str
    wall_s: float
    ports: Mapping[tuple[int, int], PortLog]
    shown: Sequence[tuple[float, pa.Table]]
    story: Sequence[str]

    def port(self, operator: int, port: int = 0) -> PortLog:
        return self.ports[operator, port]


def run_flow(flow: Flow, strategy: str, *, watch: bool = False, **options: Any) -> LiveRun:
    """Run a flow to its end, in the background as a user would."""
    with tempfile.TemporaryDirectory(prefix="reshape-benchmark-") as folder:
        begun = time.perf_counter()
        query = flow.options(strategy=strategy, event_log=folder, **options).start()
        shown: list[tuple[float, pa.Table]] = []
        while watch and not query.awaitTermination(LOOK_S):
            state = query.shown()
            if state is not None:
                shown.append((state.seconds, state.table))
        query.result(LIMIT_S)
        wall_s = time.perf_counter() - begun
        story = query.story()
        query.release()
        (log,) = Path(folder).glob("*.jsonl")
        return LiveRun(strategy, wall_s, _read(log), shown, story)


def _read(log: Path) -> dict[tuple[int, int], PortLog]:
    ports: dict[tuple[int, int], PortLog] = {}
    for line in log.read_text().splitlines():
        facts = json.loads(line)
        if "operator" not in facts:  # of the flow as a whole
            continue
        port = ports.setdefault((facts["operator"], facts["port"]), PortLog())
        match facts["event"]:
            case "report":
                port.times.append(facts["seconds"])
                port.ids.append(facts["id"])
                for name in ("workload", "processed", "routed", "received"):
                    getattr(port, name).append(facts[name])
            case "opened":
                port.began_s = facts["at"]
            case "decision":
                port.decisions.append(facts)
            case "command":
                port.commands.append(facts)
            case "told":
                port.told.append(facts)
    return ports


def paced(df: DataFrame, rows_per_partition: float, seconds: float) -> DataFrame:
    """The same rows, each partition's sent evenly over this time. Partitions are to run side by side.

    They begin a moment late, so that whoever takes the rows is there, and make up for no delay: a burst would not be
    the pace.
    """
    rate = rows_per_partition / seconds

    def pace(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        clock = threading.Event()  # never set: a wait on it is a wait for the time
        due = time.monotonic() + LEAD_S
        for batch in batches:
            clock.wait(max(0.0, due - time.monotonic()))
            due = max(due, time.monotonic() - LATE_S) + batch.num_rows / rate
            yield batch

    return df.mapInArrow(pace, df.schema)


def rounded(value: Any, digits: int = 3) -> Any:
    """Figures for people and files."""
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, dict):
        return {key: rounded(each, digits) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each, digits) for each in value]
    return value


def say(text: str) -> None:
    print(text, flush=True)


def verdict(name: str, got: float | None, wanted: float, *, at_least: bool) -> dict[str, Any]:
    """A figure beside the one that is wanted."""
    met = got is not None and (got >= wanted if at_least else got <= wanted)
    sign = ">=" if at_least else "<="
    shown = "nothing" if got is None else f"{got:.3f}"
    say(f"  {'met   ' if met else 'MISSED'} {name}: {shown} (wanted {sign} {wanted:g})")
    return {"figure": name, "got": got, "wanted": f"{sign} {wanted:g}", "met": met}


def main(benchmark: str, description: str, measure: Measure, *, batch_rows: int = 10_000, slots: int = 4) -> int:
    """The command line of a benchmark."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small and short: does it run at all?")
    parser.add_argument("--rounds", type=int, default=1, help="so often each strategy runs, in turn")
    parser.add_argument("--json", type=Path, help="write every figure with the runs behind it to this file")
    args = parser.parse_args()
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master(f"local[{slots}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "2g")
        # The JVM makes and passes on few rows here: a quick start matters more than its best code.
        .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch_rows))
        # Between JVM and Python, rows of a few bytes would wait until this is full, and a paced source would be none.
        .config("spark.buffer.size", "1024")
        .getOrCreate()
    )
    neighbours = Neighbours()
    try:
        results = measure(spark, args.quick, args.rounds)
    finally:
        spark.stop()
    say(str(neighbours))
    if args.json:
        args.json.write_text(json.dumps({"benchmark": benchmark, "quick": args.quick, **rounded(results, 5)}, indent=2))
    return 0
