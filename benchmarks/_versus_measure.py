"""Runs work in several ways, in turn, and measures it: seconds, CPU time, memory, first partial result, neighbours."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from _cpu import tree_cpu_s
from _versus_work import SINKS, WHOLE, Line, Side, Tables
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType

from reshape.flows import Flow

LIMIT_S = 1800.0  # only bounds the wait for a flow that is stuck
LOOK_S = 0.01  # how exact the time of a first partial result is
MEMORY_S = 0.1  # between two looks at memory; in a round that is not timed, for a look costs milliseconds a process

SPARK, NO_BROADCAST, FLOW, NONE, NO_EXCHANGE, START = WAYS = (
    "Spark",
    "no broadcast",
    "reshape",
    "none",
    "no exchange",
    "start",
)
SPARKS = (SPARK, NO_BROADCAST)
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"


class Differs(AssertionError):
    """The flow's result is not Spark's."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run. ``others``: the share of the machine's time that was spent by processes that are not ours."""

    seconds: float
    cpu_s: float
    others: float
    first_partial_s: float | None = None


class Machine:
    """What this process tree and the others spent of the machine's CPU time since this was made."""

    def __init__(self) -> None:
        self._busy, self._all = self._read()
        self._own = tree_cpu_s()

    def since(self) -> tuple[float, float]:
        """CPU seconds of our own, and the share of others."""
        busy, everything = self._read()
        own = tree_cpu_s() - self._own
        return own, max(0.0, (busy - self._busy) - own) / max(everything - self._all, 1e-9)

    @staticmethod
    def _read() -> tuple[float, float]:
        """Seconds of all cores that were used (stolen by the hypervisor included), and all that passed."""
        user, nice, system, idle, waiting, *rest = map(
            int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        )
        ticks = os.sysconf("SC_CLK_TCK")
        busy = user + nice + system + sum(rest)
        return busy / ticks, (busy + idle + waiting) / ticks


class PeakMemory:
    """The most that the processes below this one had in memory while this was open, in MiB: JVM, Python tasks, both.

    Pages that forked tasks share count once (proportional set size). A JVM keeps what it once took, so its part
    also says what ran in the session before.
    """

    def __init__(self) -> None:
        self.peaks = {"jvm": 0.0, "python": 0.0, "both": 0.0}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(MEMORY_S):
            now = {"jvm": 0.0, "python": 0.0}
            for folder in _descendants():
                with contextlib.suppress(OSError):  # it is gone
                    kind = "jvm" if (folder / "comm").read_text().strip() == "java" else "python"
                    pss = (folder / "smaps_rollup").read_text().split("\nPss:", 1)[1]
                    now[kind] += int(pss.split(None, 1)[0]) / 1024
            now["both"] = sum(now.values())
            self.peaks = {kind: max(peak, now[kind]) for kind, peak in self.peaks.items()}


def _descendants() -> list[Path]:
    """Folders in /proc of all processes below this one."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    below, waiting = [], [os.getpid()]
    while waiting:
        born = children.get(waiting.pop(), [])
        below += born
        waiting += born
    return [Path("/proc") / str(pid) for pid in below]


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs a line in one way or another, in one session."""

    spark: SparkSession
    scratch: Path
    options: Mapping[str, Any]  # of every flow

    def flow(self, line: Line, tables: Tables, way: str) -> Flow:
        strategy = "none" if way == NONE else "reshape"
        made = line.work.query(Side({"name": line.label, "strategy": strategy, **self.options}), tables)
        assert isinstance(made, Flow)
        return made

    def frame(self, line: Line, tables: Tables, way: str) -> DataFrame | Flow:
        """The result, lazily; a flow whose own actions are used is one. Made anew for each run: a DataFrame that ran
        before would reuse its shuffle files."""
        if way in SPARKS:
            df: DataFrame = line.work.query(Side(), tables)
            return df
        flow = self.flow(line, tables, way)
        return flow if way == NO_EXCHANGE else flow.toDF()

    def once(self, line: Line, tables: Tables, way: str) -> Sample:
        """From the building of the query until its result is consumed."""
        gc.collect()
        self.spark._jvm.System.gc()  # type: ignore[union-attr]  # nobody pays for the garbage of the way before
        sink = SINKS[line.sink]
        with self._broadcast(way):
            machine = Machine()
            begun = time.perf_counter()
            first = None
            if way == START:
                query = self.flow(line, tables, way).start()
                while query.first_partial is None and not query.awaitTermination(LOOK_S):
                    pass
                first = time.perf_counter() - begun
                sink(query.result(LIMIT_S), self.scratch)
                query.release()
            else:
                sink(self.frame(line, tables, way), self.scratch)
            seconds = time.perf_counter() - begun
        return Sample(seconds, *machine.since(), first)

    @contextlib.contextmanager
    def _broadcast(self, way: str) -> Iterator[None]:
        if way != NO_BROADCAST:
            yield
            return
        self.spark.conf.set(BROADCAST, "-1")
        try:
            yield
        finally:
            self.spark.conf.unset(BROADCAST)

    def check(self, line: Line, tables: Tables) -> None:
        """The flow's result equals Spark's, in whichever way it runs. Raises `Differs`."""
        want = fingerprint(self.frame(line, tables, SPARK))
        for way in (FLOW, NONE):
            got = fingerprint(self.frame(line, tables, way))
            if got != want:
                raise Differs(f"{line.name}, {way}: (rows, hashes) are {got}, Spark has {want}")
        if line.work.ordered_by:
            _check_order(line, self.frame(line, tables, FLOW), line.work.ordered_by)


def ways_of(line: Line, wanted: Sequence[str]) -> list[str]:
    """Those that make a difference to a line."""
    pointless = {
        NO_BROADCAST: not line.work.joins,
        NO_EXCHANGE: line.sink not in WHOLE,
        START: not line.work.started or line.sink != "noop",
    }
    return [way for way in wanted if not pointless.get(way)]


def measure(
    runner: Runner, line: Line, tables: Tables, ways: Sequence[str], rounds: int
) -> tuple[dict[str, list[Sample]], dict[str, dict[str, float]]]:
    """Samples and peak memory of each way. The round for memory comes first and warms up."""
    memory = {}
    for way in ways:
        with PeakMemory() as peak:
            runner.once(line, tables, way)
        memory[way] = peak.peaks
    samples: dict[str, list[Sample]] = {way: [] for way in ways}
    for number in range(rounds):
        # Each round begins with another way: none has always the same one before it.
        turn = number % len(ways)
        for way in [*ways][turn:] + [*ways][:turn]:
            samples[way].append(runner.once(line, tables, way))
    return samples, memory


def summary(samples: Mapping[str, Sequence[Sample]]) -> dict[str, Any]:
    """Medians and quartiles of each way, and how each flow compares with the faster of Spark's ways, round by round."""
    seconds = {way: [sample.seconds for sample in runs] for way, runs in samples.items()}
    figures: dict[str, Any] = {
        way: {
            "seconds": spread(seconds[way]),
            "cpu_s": spread([sample.cpu_s for sample in runs]),
            "others": median(sample.others for sample in runs),
            "first_partial_s": spread([s.first_partial_s for s in runs if s.first_partial_s is not None]),
        }
        for way, runs in samples.items()
    }
    present = [way for way in SPARKS if way in samples]
    if not present:
        return {"ways": figures, "faster": None, "ratios": {}, "cpu_ratios": {}}
    faster = min(present, key=lambda way: median(seconds[way]))
    ratios, cpu_ratios = {}, {}
    for way in samples:
        if way not in SPARKS:
            pairs = list(zip(samples[faster], samples[way], strict=True))
            ratios[way] = spread([spark.seconds / ours.seconds for spark, ours in pairs])
            cpu_ratios[way] = spread([spark.cpu_s / max(ours.cpu_s, 1e-9) for spark, ours in pairs])
    return {"ways": figures, "faster": faster, "ratios": ratios, "cpu_ratios": cpu_ratios}


def spread(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Median, first and third quartile."""
    if not values:
        return None
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return middle, low, high


def fingerprint(df: DataFrame) -> tuple[int, int, int]:
    """Rows, and the sums of two hashes of each row: the same for the same rows, however they lie."""
    parts = []
    for field in df.schema:
        column = df[f"`{field.name}`"]
        # A list's order is not determined. A hash passes over nulls, so where they are is hashed too.
        parts += [F.sort_array(column) if isinstance(field.dataType, ArrayType) else column, column.isNull()]
    (row,) = (
        df.select(F.xxhash64(*parts).alias("a"), F.hash(*parts).alias("b"))
        .selectExpr(
            "count(*)", "coalesce(sum(cast(a AS decimal(38, 0))), 0)", "coalesce(sum(cast(b AS decimal(38, 0))), 0)"
        )
        .collect()
    )
    return int(row[0]), int(row[1]), int(row[2])


def _check_order(line: Line, df: DataFrame, column: str) -> None:
    """Partitions are in order, and so are the rows of each; nulls come first, as in Spark."""

    def bounds(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = [batch for batch in batches if batch.num_rows]
        if not kept:
            return
        values = pa.Table.from_batches(kept).column(0).combine_chunks()
        nulls = values.null_count
        rest = values[nulls:]
        rising = rest.null_count == 0 and pc.all(pc.less_equal(rest[:-1], rest[1:]), min_count=0).as_py()
        edges = [values[:1], values[-1:], pa.array([rising])]
        yield pa.RecordBatch.from_arrays(edges, names=["first", "last", "rising"])

    kind = df.schema[column].dataType.simpleString()
    parts = df.select(column).mapInArrow(bounds, f"first {kind}, last {kind}, rising boolean").toArrow().to_pylist()
    edges = [value for part in parts for value in (part["first"], part["last"])]
    filled = [value for value in edges if value is not None]
    in_order = filled == sorted(filled) and edges[: len(edges) - len(filled)].count(None) == len(edges) - len(filled)
    if not in_order or not all(part["rising"] for part in parts):
        raise Differs(f"{line.name}: the rows are not in the order of {column}")
