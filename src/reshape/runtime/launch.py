"""Puts a plan on Spark: the barrier job of the hosts as a lazy DataFrame, and the source jobs behind it."""

from __future__ import annotations

import secrets
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.exchange.flight import Access
from reshape.plan.physical import Edge, PhysicalPlan
from reshape.runtime import shipping
from reshape.runtime.edges import FlowAddress
from reshape.runtime.errors import FlowFailed
from reshape.runtime.execution import Execution, answer
from reshape.runtime.host import Host, HostSettings, own_address
from reshape.runtime.service import DriverService
from reshape.runtime.session import check, driver_address, is_local
from reshape.runtime.source import SourceTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOST_COLUMN = "__reshape_host"

_SERVICES: weakref.WeakKeyDictionary[Any, DriverService] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


class LaunchedFlow:
    """A flow that is ready to run: each action on its DataFrame is one execution, numbered by its hosts' arrival."""

    def __init__(self, spark: SparkSession, plan: PhysicalPlan, sources: tuple[DataFrame, ...]) -> None:
        self.name = f"{plan.name}-{uuid.uuid4().hex[:12]}"
        self.access = Access(secrets.token_hex(32))
        self._spark = spark
        self._plan = plan
        self._sources = sources
        self._lock = threading.Lock()
        self._executions: dict[int, Execution] = {}
        self._stages: dict[int, int] = {}  # stage of the hosts -> its newest attempt

    def told(self, message: dict[str, Any]) -> Any:
        if message["kind"] == "hosts_ready":
            return self._hosts_ready(int(message["stage"]), tuple(message["locations"]))
        answer(self._executions[int(message["attempt"])], message)
        return None

    def orders(self, attempt: int, who: str, after: int, wait_s: float) -> dict[str, Any]:
        return self._executions[attempt].board.read(who, after, wait_s)

    @property
    def failure(self) -> FlowFailed | None:
        """What ended the newest execution, if it failed."""
        newest = self._newest()
        return newest.failure if newest is not None else None

    def progress(self) -> list[dict[str, Any]]:
        newest = self._newest()
        return newest.progress() if newest is not None else []

    def partial(self) -> pa.Table | None:
        newest = self._newest()
        return newest.partial() if newest is not None else None

    def fail(self, where: str, cause: str) -> None:
        """Stop the newest execution."""
        newest = self._newest()
        if newest is not None:
            newest.fail(where, cause)

    def join(self, timeout_s: float) -> None:
        """Wait for the source jobs of the newest execution to be gone."""
        newest = self._newest()
        if newest is not None:
            newest.join(timeout_s)

    def _newest(self) -> Execution | None:
        with self._lock:
            return self._executions[max(self._executions)] if self._executions else None

    def _hosts_ready(self, stage: int, locations: tuple[str, ...]) -> dict[str, Any]:
        """Number the attempt. Spark tries a failed barrier stage again; an error of the flow would only come again."""
        with self._lock:
            before = self._executions.get(self._stages.get(stage, 0))
            if before is not None and before.failure is not None:
                return {"failed": [before.failure.where, before.failure.cause]}
            attempt = len(self._executions) + 1
            self._stages[stage] = attempt
            execution = Execution(self._plan, attempt, locations, self._run_source, self._cancel_sources)
            self._executions[attempt] = execution
        execution.start()
        return {"attempt": attempt}

    def _run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        context = self._spark.sparkContext
        operator, _ = self._plan.source_target(source)
        label = self._plan.operators[operator].label
        context.setJobGroup(self._group(attempt), f"reshape {self._plan.name}: source {source} for {label}", True)
        edge = self._plan.edge(*self._plan.source_target(source))
        task = source_function(edge, source, self._address(), attempt, locations)
        counts = self._sources[source].mapInArrow(task, "rows long").collect()
        return sum(row["rows"] for row in counts)

    def _cancel_sources(self, attempt: int) -> None:
        self._spark.sparkContext.cancelJobGroup(self._group(attempt))

    def _group(self, attempt: int) -> str:
        return f"reshape-{self.name}-{attempt}"

    def _address(self) -> FlowAddress:
        return FlowAddress(self.name, self.location, self.access)

    def launch(self, settings: HostSettings, *, exchange: bool) -> DataFrame:
        """The lazy DataFrame of the result."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.pandas.types import from_arrow_schema

        check(self._spark, self._plan.hosts)
        shipping.ship(self._spark.sparkContext)
        service = _service(self._spark)
        self.location = service.register(self.name, self)
        output = next(operator.output for operator in self._plan.operators if operator.target is None)
        schema = from_arrow_schema(output.append(pa.field(HOST_COLUMN, pa.int32(), nullable=False)))
        function = host_function(self._plan, self._address(), settings, is_local(self._spark))
        hosts = self._spark.range(0, self._plan.hosts, 1, self._plan.hosts)
        raw = hosts.mapInArrow(function, schema, barrier=True)
        # Without an exchange behind it, a barrier stage cannot serve actions that want some of its partitions only.
        if exchange:
            raw = raw.repartitionById(self._plan.hosts, F.col(HOST_COLUMN))
        result = raw.drop(HOST_COLUMN)
        weakref.finalize(result, service.unregister, self.name)
        return result


def _service(spark: SparkSession) -> DriverService:
    with _LOCK:
        context = spark.sparkContext
        if context not in _SERVICES:
            _SERVICES[context] = DriverService(driver_address(spark))
        return _SERVICES[context]


def host_function(
    plan: PhysicalPlan, flow: FlowAddress, settings: HostSettings, local: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a barrier task runs."""

    def host(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        index = context.partitionId()
        for _ in batches:
            pass  # the input only makes the task exist
        address = "127.0.0.1" if local else own_address(context.getTaskInfos()[index].address)
        column = pa.field(HOST_COLUMN, pa.int32(), nullable=False)
        for batch in Host(plan, index, flow, settings, address, context.stageId()).results(context.allGather):
            number = pa.array([index] * batch.num_rows, pa.int32())
            yield pa.RecordBatch.from_arrays([*batch.columns, number], schema=batch.schema.append(column))

    return host


def source_function(
    edge: Edge, source: int, flow: FlowAddress, attempt: int, locations: tuple[str, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a source task runs."""

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task = SourceTask(edge, source, flow, attempt, locations, context.partitionId(), context.attemptNumber())
        yield from task.run(batches)

    return route
