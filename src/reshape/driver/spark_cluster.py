"""Spark behind the protocol of a cluster: hosts are one barrier stage, sources are ordinary jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from reshape.driver import kept, task_errors
from reshape.driver.cluster import TaskFate
from reshape.driver.job_properties import JobProperties
from reshape.driver.packed import PACKED, Packing
from reshape.driver.session_flows import hosts_function_name
from reshape.driver.stages import ArrowFunction, Stage
from reshape.exchange.addresses import LOCAL
from reshape.host.host import Host, HostSettings, own_address
from reshape.machine.task_process import prepare
from reshape.observe.page_address import with_page
from reshape.plan.physical import Edge, PhysicalPlan
from reshape.protocol.link import FlowAddress
from reshape.protocol.reports import SourceBegins
from reshape.scan.scan import Scan
from reshape.scan.source import Source
from reshape.sender.source import InputFailed, SourceTask

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


# Calls to a session that has been stopped, or whose JVM was killed: its jobs have ended with it.
GONE = (Py4JError, OSError, AttributeError)


def free(kept: Callable[[], DataFrame]) -> None:
    """Let Spark keep a result no more; where Spark is gone, so is the result."""
    with suppress(*GONE):
        kept().unpersist()


def cancel_group(context: SparkContext, group: str) -> bool:
    """Cancel the jobs of a group, also those that Spark has not heard of yet; False where Spark is gone. Shuffles of
    adaptive plans that it has not heard of are no jobs of that kind."""
    with suppress(*GONE):
        jvm_context: Any = context._jsc.sc()
        jvm_context.cancelJobGroupAndFutureJobs(group)
        return True
    return False


class SparkCluster:
    """Tasks of one flow as tasks of Spark. ``at`` tells where the flow's driver listens, once that is known."""

    def __init__(
        self, spark: SparkSession, plan: PhysicalPlan, sources: tuple[Source, ...], at: Callable[[], FlowAddress]
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._sources = sources
        self._at = at
        self._properties = JobProperties(spark.sparkContext)

    def hosts(self, settings: HostSettings, schema: StructType, *, local: bool, packing: Packing | None) -> Stage:
        """The lazy barrier stage of the hosts, whose output is the result, or the packed result."""
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = schema if packing is None else from_arrow_schema(PACKED)
        scans = {number: source.scan for number, source in enumerate(self._sources) if source.scan is not None}
        function = host_function(self._plan, scans, self._at(), settings, local, packing)
        function.__name__ = hosts_function_name(self._at().name)
        tasks = self._plan.hosts + self._plan.spare_hosts
        return Stage.of_barrier_tasks(self._spark, tasks, function, schema)

    def run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        self._properties.use()
        job = with_page(self._plan.source_job(source))
        self._spark.sparkContext.setJobGroup(self.source_group(attempt), job, True)
        edge = self._plan.edge(*self._plan.source_target(source))
        route = source_function(edge, source, self._at(), attempt, locations)
        counts = _plainly_named(self._sources[source].df).mapInArrow(route, "rows long").collect()
        return sum(row["rows"] for row in counts)

    def cancel_sources(self, attempt: int) -> None:
        cancel_group(self._spark.sparkContext, self.source_group(attempt))

    def cancel_hosts(self, stage: int, reason: str) -> None:
        """The action that runs the hosts raises at once, with this reason, instead of after Spark's four tries."""
        with suppress(*GONE):
            context: Any = self._spark.sparkContext._jsc.sc()
            context.cancelStage(stage, reason)

    def task_count(self, stage: int) -> int | None:
        with suppress(*GONE):
            info = self._spark.sparkContext.statusTracker().getStageInfo(stage)
            return None if info is None else int(info.numTasks)
        return None

    def unsuccessful(self, stage: int) -> Sequence[TaskFate]:
        return task_errors.unsuccessful(self._spark.sparkContext, stage)

    def kept_rows(self, stage: int) -> str | None:
        return kept.kept_rows(self._spark.sparkContext, stage)

    def source_group(self, attempt: int) -> str:
        """The job group of an attempt's sources."""
        return f"reshape-{self._at().name}-{attempt}"


def _plainly_named(df: DataFrame) -> DataFrame:
    """PySpark's mapInArrow looks columns up by name, which fails for a dot in it and for a name that is there twice."""
    names = df.columns
    if len(set(names)) == len(names) and not any("." in name or "`" in name for name in names):
        return df
    return df.toDF(*(f"c{number}" for number in range(len(names))))


def host_function(
    plan: PhysicalPlan,
    scans: Mapping[int, Scan],
    flow: FlowAddress,
    settings: HostSettings,
    local: bool,
    packing: Packing | None,
) -> ArrowFunction:
    """What a barrier task runs."""

    def host(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import BarrierTaskContext

        prepare()
        context = BarrierTaskContext.get()
        index = context.partitionId()
        for _ in batches:
            pass  # the input only makes the task exist
        if index >= plan.hosts:
            return  # Spark has started all of them: this one has kept others from starting, and its slot is for sources
        address = LOCAL if local else own_address(context.getTaskInfos()[index].address, settings.listening.bind)
        task = (context.stageId(), context.taskAttemptId())
        # Closed here: whatever ends the task outside of it would leave it to the garbage collector.
        with closing(Host(plan, index, flow, settings, address, *task, scans=scans).results()) as results:
            yield from results if packing is None else packing.pack(results, plan.output, index, task[1])

    return host


def source_function(
    edge: Edge, source: int, flow: FlowAddress, attempt: int, locations: tuple[str, ...]
) -> ArrowFunction:
    """What a source task runs."""

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        prepare()
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        task = SourceTask(edge, flow, attempt, locations, f"source-{source}-{partition}")
        task.begin(SourceBegins(source, partition, context.stageId(), context.taskAttemptId()))
        yield pa.record_batch({"rows": pa.array([task.run(_guarded(batches))], pa.int64())})

    return route


def _guarded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches; an error in making them, of which a task sees a broken pipe, is told from one in sending."""
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except Exception as error:
            raise InputFailed(error) from error
        yield batch
