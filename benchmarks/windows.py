"""Windows with one heavy key, which has 60 % of the rows: the case that Spark's adaptive execution leaves alone.

Emulated: four workers, an emulated cost of a row; a rank, a running sum and the row before. Workers share the partition
of the heavy key. With a function that is computed as a whole beside them it has one owner: without load transfer and
with it. Finishing: what is left when the last row has come, as CPU time of four workers: of the owner that has the
whole partition, its helpers' sorted rows included, and of workers that share it. Real: the same functions over Parquet
files beside plain Spark, on as many cores as there are, spent in turn; and over one partition of all rows.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from _live import main, run_flow, say, verdict
from pyspark.sql import DataFrame, SparkSession

import reshape
from reshape.flows import Flow
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.ranged import Edges, beside_each
from reshape.operators.sorted_runs import RUN_ROWS
from reshape.operators.window import Window, WindowSpec
from reshape.operators.windows.frame import SO_FAR
from reshape.operators.windows.ranks import Rank
from reshape.operators.windows.sums import Sum
from reshape.operators.windows.values import Shifted

WORKERS = 4
AT_LEAST = 1.7
ROWS, QUICK_ROWS = 24_000, 2_000
COST_S = 0.001
REAL_ROWS, REAL_QUICK_ROWS = 3_000_000, 20_000
FINISHING_ROUNDS, FINISHING_QUICK_ROWS = 3, 200_000
# Spark's and ours in turn, the first round to warm up.
REAL_ROUNDS = 4

FACTS = pa.schema([("k", pa.int64()), ("id", pa.int64()), ("o", pa.int64()), ("v", pa.float64())])
SPEC = WindowSpec(
    FACTS, (0,), Ordering((SortKey(2), SortKey(1))), (Rank("r"), Sum("s", 3, SO_FAR), Shifted("b", 3, -1))
)
HEAVY = pa.record_batch({"k": pa.array([0], pa.int64())})

BY_KEY = "OVER (PARTITION BY k ORDER BY o, id)"
OF_ALL = "OVER (ORDER BY o, id)"
# The last row of a partition answers for the first.
AS_A_WHOLE = "last_value(v) OVER (PARTITION BY k ORDER BY o, id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS l"


def rows_of(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(0, rows, 1, 2).selectExpr(
        "IF(id % 10 < 6, 0, id % 40) AS k", "id", "hash(id) AS o", "id / 8 AS v"
    )


def windows(df: DataFrame, window: str = BY_KEY, *others: str) -> DataFrame:
    df.createOrReplaceTempView("facts")
    columns = ", ".join(["*", f"rank() {window} AS r", f"sum(v) {window} AS s", f"lag(v) {window} AS b", *others])
    return df.sparkSession.sql(f"SELECT {columns} FROM facts")


def flow(spark: SparkSession, rows: int, *others: str) -> Flow:
    return reshape.flow(windows(rows_of(spark, rows), BY_KEY, *others), name="windows")


def emulated(spark: SparkSession, rows: int, rounds: int) -> dict[str, Any]:
    balanced_s = rows * COST_S / WORKERS
    say(f"emulated, {rows:,} rows, cost {COST_S * 1e3:g} ms a row; balanced {balanced_s:.2f} s")
    ways = {
        "an owner, none": ("none", (AS_A_WHOLE,)),
        "an owner, reshape": ("reshape", (AS_A_WHOLE,)),
        "shared, reshape": ("reshape", ()),
    }
    totals: dict[str, list[float]] = {way: [] for way in ways}
    loads: dict[str, list[int]] = {}
    for _ in range(rounds):
        for way, (strategy, others) in ways.items():
            run = run_flow(flow(spark, rows, *others), strategy, hosts=2, workers=WORKERS, cost_s_per_row=COST_S)
            port = run.port(0)
            totals[way].append(port.total_s)
            loads[way] = port.received[-1]
            say(f"  {way:17} {port.total_s:6.2f} s, rows per worker {loads[way]}")
    alone, *better = (median(seconds) for seconds in totals.values())
    verdicts = [
        verdict(f"emulated: an owner without load transfer to {way}", alone / spent, AT_LEAST, at_least=True)
        for way, spent in zip(list(ways)[1:], better, strict=True)
    ]
    return {"balanced_s": balanced_s, "total_s": totals, "rows": loads, "verdicts": verdicts}


def finishing(rows: int) -> dict[str, Any]:
    """No host and no Spark: the operators alone, one worker after the other."""
    say(f"finishing, {rows:,} rows, {WORKERS} workers, CPU time")
    found: dict[str, list[float]] = {"an owner": [], "shared": []}
    for _ in range(FINISHING_ROUNDS):
        found["an owner"].append(finished_by(dealt(rows, shared=False), None))
        found["shared"].append(finished_by(dealt(rows, shared=True), HEAVY))
    spent = {way: median(seconds) for way, seconds in found.items()}
    say(f"  until the last one has finished: the heavy key with an owner {spent['an owner']:.2f} s")
    say(f"  shared {spent['shared']:.2f} s, running sums one range after the other")
    ratio = spent["an owner"] / spent["shared"]
    return {"cpu_s": found, "verdicts": [verdict("finishing: an owner to shared", ratio, 1.2, at_least=True)]}


def dealt(rows: int, *, shared: bool) -> list[Window]:
    """Workers that have all of their rows, in sorted runs, as theirs and their helpers' are when an input ends."""
    rng = np.random.default_rng(1)
    keys = np.where(rng.random(rows) < 0.6, 0, rng.integers(1, 40, rows))
    order = rng.integers(-(2**31), 2**31, rows)
    batch = pa.record_batch([keys, np.arange(rows), order, rng.random(rows)], schema=FACTS)
    owner = keys % WORKERS
    if shared:
        owner = np.where(keys == 0, (order + 2**31) * WORKERS >> 32, owner)
    workers = []
    for worker in range(WORKERS):
        operator = Window(SPEC)
        own = batch.filter(pa.array(owner == worker))
        for start in range(0, own.num_rows, RUN_ROWS):
            for _ in operator.add(0, own.slice(start, RUN_ROWS)):
                pass
        for _ in operator.end_port(0):
            pass
        workers.append(operator)
    return workers


def finished_by(workers: list[Window], heavy: pa.RecordBatch | None) -> float:
    """When the last worker has finished, if each has a core: it waits for the others' edges, and for the values that
    the range before has left."""
    now = [0.0] * len(workers)
    edges: list[Edges] = []

    def spend(worker: int, work: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = work()
        now[worker] += time.process_time() - began
        return result

    if heavy is not None:
        for number, worker in enumerate(workers):
            spend(number, partial(worker.share, heavy))
            edges.append(spend(number, partial(worker.edges, 0)))
        now, left = [max(now)] * len(now), None
        for number, (worker, beside) in enumerate(zip(workers, beside_each(edges, 1), strict=True)):
            now[number] = max(now[: number + 1])
            worker.meet(0, beside)
            left = spend(number, partial(worker.carry, 0, left))
    for number, worker in enumerate(workers):
        spend(number, lambda worker=worker: sum(part.num_rows for part in worker.finish()))  # type: ignore[misc]
    return max(now)


def real(spark: SparkSession, rows: int) -> dict[str, Any]:
    say(f"real work, {rows:,} rows of Parquet")
    seconds: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="reshape-benchmark-") as folder:
        rows_of(spark, rows).repartition(8).write.mode("overwrite").parquet(folder)
        for name, window in {"a heavy key": BY_KEY, "one partition": OF_ALL}.items():
            seconds[name] = in_turn(spark, folder, window)
    verdicts = []
    for name, runs in seconds.items():
        spent = {way: median(found) for way, found in runs.items()}
        say(f"  {name:13} spark {spent['spark']:6.2f} s, reshape {spent['reshape']:6.2f} s")
        ratio = spent["spark"] / spent["reshape"]
        verdicts.append(verdict(f"real work, {name}: Spark's time to ours", ratio, 1.0, at_least=True))
    return {"seconds": seconds, "verdicts": verdicts}


def in_turn(spark: SparkSession, folder: str, window: str) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {"spark": [], "reshape": []}
    for turn in range(REAL_ROUNDS):
        for way, runs in seconds.items():
            df = windows(spark.read.parquet(folder), window)
            began = time.perf_counter()
            result = df if way == "spark" else reshape.flow(df).toDF(exchange=False)
            result.write.format("noop").mode("overwrite").save()
            if turn:
                runs.append(time.perf_counter() - began)
    return seconds


def measure(spark: SparkSession, quick: bool, rounds: int) -> dict[str, Any]:
    run_flow(flow(spark, 200), "reshape", hosts=2, workers=WORKERS)  # JIT, Python workers
    return {
        "emulated": emulated(spark, QUICK_ROWS if quick else ROWS, rounds),
        "finishing": finishing(FINISHING_QUICK_ROWS if quick else REAL_ROWS),
        "real": real(spark, REAL_QUICK_ROWS if quick else REAL_ROWS),
    }


if __name__ == "__main__":
    sys.exit(main("windows", __doc__ or "", measure))
