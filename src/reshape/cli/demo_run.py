"""The two flows behind `reshape demo`: covid tweets per month on Spark (Figure 1), and what is seen of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshape.datasets.months import DECEMBER, OCTOBER, WORKERS
from reshape.datasets.tweet_tables import covid_cases, covid_tweets
from reshape.errors import ReshapeError
from reshape.sim.metrics import time_to_representative

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reshape.flows import Flow
    from reshape.query import Query

HOSTS = 2  # of each flow; three workers of the join on each
PARTITIONS = 2
SLOTS = 2 * (HOSTS + PARTITIONS)  # both flows run at the same time

# Written as statisticians do (2020m12), months meet on six workers as in Figure 1: December with June, 26 % of all
# tweets, on one of them, October with April, 7 %, on another.
MONTH = "concat('2020m', month)"

JOIN, PROBE = 0, 1  # the first operator of the plan, and the side that tweets come in by
LOOK_S = 0.1
# Ten times the longest run on two cores: beyond it something hangs.
LIMIT_S = 900.0


@dataclass(frozen=True, slots=True)
class Size:
    """``unmitigated_s``: how long December's worker needs for its own rows, by their emulated cost.

    ``input_s``: in this time all tweets are sent. As in the paper that is a small part of the run, but not none: rows
    that have all arrived before anybody can look at them leave little to be shown early.

    ``sales``: rows of the files that the last part reads.
    """

    tweets: int
    unmitigated_s: float
    input_s: float
    sales: int


FULL = Size(600_000, 45.0, 4.0, 2_000_000)
QUICK = Size(120_000, 8.0, 2.0, 200_000)
PACED_ROWS = 1_000  # a source waits after so many rows; Spark hands on no more of them at a time


class DemoFailed(ReshapeError):
    """The demonstration could not be shown to its end."""


@dataclass(frozen=True, slots=True)
class MovedLoad:
    """What was moved between workers, by the flow's event log."""

    copies: int = 0
    moves: int = 0
    moved_rows: int = 0
    tables: int = 0

    @property
    def all(self) -> int:
        return self.copies + self.moves + self.tables


@dataclass(slots=True)
class DemoRun:
    """One flow and what was shown of it. Seconds count from its first bar: both flows take their time to begin."""

    title: str
    query: Query
    final: dict[int, int]
    log: Path
    shown: dict[int, int] = field(default_factory=dict)
    representativeness: float | None = None
    seconds: float = 0.0
    done: bool = False
    times: list[float] = field(default_factory=list)
    ratios: list[float | None] = field(default_factory=list)
    _began: float | None = None

    def look(self) -> None:
        """Take in what the flow shows now."""
        ended = not self.query.isActive
        shown = None if self.done else self.query.shown()
        if shown is not None:
            if self._began is None:
                self._began = shown.seconds
            self.seconds = shown.seconds - self._began
            self.representativeness = shown.representativeness.overall
            months = [int(month.rpartition("m")[2]) for month in shown.table["month"].to_pylist()]
            counts = dict(zip(months, shown.table["tweets"].to_pylist(), strict=True))
            if counts != self.shown:
                self.shown = counts
                self.times.append(self.seconds)
                self.ratios.append(self.ratio)
            self.done = shown.final
        if ended:
            self.query.awaitTermination()  # raises what it failed with
            self.done = True

    @property
    def ratio(self) -> float | None:
        """December's tweets over October's, as shown."""
        october = self.shown.get(OCTOBER, 0)
        return self.shown.get(DECEMBER, 0) / october if october else None

    @property
    def final_ratio(self) -> float:
        return self.final[DECEMBER] / self.final[OCTOBER]

    @property
    def representative_s(self) -> float:
        """When December : October was right for good."""
        return min(time_to_representative(self.times, self.ratios, self.final_ratio), self.seconds)

    def processed(self) -> dict[int, dict[int, int]]:
        """Tweets that each worker of the join has processed, by the worker whose partition they belong to."""
        progress = self.query.lastProgress
        workers = () if progress is None else progress.workers
        return {worker.worker: dict(worker.rows_of_owner[PROBE]) for worker in workers if worker.operator == JOIN}

    def transfers(self) -> MovedLoad:
        copies = moves = moved = tables = 0
        for file in sorted(self.log.glob("*.jsonl")):
            for line in file.read_text(encoding="utf-8").splitlines():
                event = json.loads(line)
                copies += event.get("what") == "StateTransferred"
                tables += event.get("command") == "SetRouting"
                if event.get("what") == "BacklogMoved" and event["rows"]:
                    moves += 1
                    moved += event["rows"]
        return MovedLoad(copies, moves, moved, tables)

    def result(self) -> dict[int, int]:
        """The flow's answer; Spark has it when the flow has ended."""
        return _by_month(self.query.result(LIMIT_S))


class Demo:
    """The same tweets without and with load transfer, at the same time."""

    def __init__(self, spark: SparkSession, size: Size, directory: Path) -> None:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", PACED_ROWS)
        tweets, cases = covid_tweets(spark, size.tweets, partitions=PARTITIONS), covid_cases(spark)
        self._tables = _with_month(_paced(tweets, size)), _with_month(cases)
        self.final = _by_month(_with_month(tweets).join(self._tables[1], "month").groupBy("month").agg(*_counted()))
        busiest = self.final[DECEMBER] + self.final[DECEMBER // 2]
        self.input_s = size.input_s
        self.cost_s = size.unmitigated_s / busiest
        self.final_ratio = self.final[DECEMBER] / self.final[OCTOBER]
        self.runs: list[DemoRun] = []
        self._directory = directory

    def start(self) -> None:
        for title, strategy in (("no mitigation", "none"), ("reshape", "reshape")):
            log = self._directory / f"events-{strategy}"
            query = self._flow(strategy, log).start()
            self.runs.append(DemoRun(title, query, self.final, log))

    def watch(self, show: Callable[[], None]) -> None:
        """Look at both flows until they have ended; ``show`` is called after each look."""
        deadline = time.monotonic() + LIMIT_S
        while any(run.query.isActive or not run.done for run in self.runs):
            if time.monotonic() > deadline:
                raise DemoFailed(f"the flows have not ended within {LIMIT_S:.0f} s: is the machine very busy?")
            for run in self.runs:
                run.look()
            show()
            time.sleep(LOOK_S)
        for run in self.runs:
            result = run.result()
            if result != self.final:
                raise DemoFailed(f"{run.title}: the flow counted {result}, Spark itself {self.final}")

    def cancel(self) -> None:
        """End what still runs."""
        for run in self.runs:
            run.query.stop()

    def _flow(self, strategy: str, log: Path) -> Flow:
        import reshape

        tweets, cases = self._tables
        counted = tweets.join(cases, "month").groupBy("month").agg(*_counted())
        flow = reshape.flow(
            counted,
            name=f"demo-{strategy}",
            strategy=strategy,
            workers=WORKERS,
            hosts=HOSTS,
            event_log=log,
            joins="all",
        )
        return flow.tuned("join", cost_s_per_row=self.cost_s)


def _with_month(df: DataFrame) -> DataFrame:
    return df.selectExpr("*", f"{MONTH} AS written").drop("month").withColumnRenamed("written", "month")


def _paced(tweets: DataFrame, size: Size) -> DataFrame:
    """The same tweets, at the pace of a source that takes so long."""
    pause_ms = round(1000 * size.input_s * PARTITIONS * PACED_ROWS / size.tweets)
    pause = f"java_method('java.lang.Thread', 'sleep', CAST({pause_ms} AS BIGINT))"
    return tweets.where(f"IF(tweet_id % {PACED_ROWS} = 0, {pause}, '') IS NOT NULL")


def _counted() -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812

    return [F.count("*").alias("tweets"), F.max("cases").alias("cases")]


def _by_month(df: DataFrame) -> dict[int, int]:
    return {int(row["month"].rpartition("m")[2]): row["tweets"] for row in df.collect()}
