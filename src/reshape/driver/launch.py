"""Puts a plan on Spark: the barrier job of the hosts as a lazy DataFrame, and the source jobs behind it."""

from __future__ import annotations

import secrets
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.driver import shipping, task_errors
from reshape.driver.execution import Execution, FirstPartial, answer
from reshape.driver.host_meeting import LOST, Meeting
from reshape.driver.interrupt import stop_flows_on_interrupt
from reshape.driver.lifetime import runnable
from reshape.driver.service import DriverService
from reshape.driver.session import check, driver_address, is_local
from reshape.driver.task_errors import in_short, is_loss
from reshape.errors import FlowFailed
from reshape.exchange.flight import Access, Tls
from reshape.host.host import Host, HostSettings, own_address
from reshape.machine.task_process import prepare
from reshape.observe.event_log import EventLog
from reshape.observe.representativeness import Shown
from reshape.plan.physical import Edge, PhysicalPlan
from reshape.protocol.link import POLL_S
from reshape.sender.edges import FlowAddress
from reshape.sender.source import SourceTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOST_COLUMN = "__reshape_host"

_SERVICES: weakref.WeakKeyDictionary[Any, dict[Tls | None, DriverService]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


class LaunchedFlow:
    """A flow that is ready to run: each action on its DataFrame is one execution, numbered by its hosts' arrival."""

    def __init__(
        self,
        spark: SparkSession,
        plan: PhysicalPlan,
        sources: tuple[DataFrame, ...],
        tls: Tls | None = None,
        log_directory: str | None = None,
    ) -> None:
        self.name = f"{plan.name}-{uuid.uuid4().hex[:12]}"
        self.access = Access(secrets.token_hex(32), tls)
        self._log_directory = log_directory
        self._spark = spark
        self._plan = plan
        self._sources = sources
        self._lock = threading.Lock()
        self._attempts = 0
        self._executions: dict[int, Execution] = {}  # the newest one, and those that are not over
        self._stages: dict[int, int] = {}  # stage of the hosts -> its newest attempt
        self._meetings: dict[int, Meeting] = {}  # by stage of the hosts
        self._failures: dict[int, FlowFailed] = {}  # stages that are not to be tried again

    def told(self, message: dict[str, Any]) -> Any:
        if message["kind"] == "host_ready":
            meeting = self._meeting(int(message["stage"]))
            return meeting.arrive(int(message["host"]), int(message["task"]), str(message["location"]), POLL_S)
        execution = self._executions.get(int(message["attempt"]))
        if execution is not None and message["kind"] == "retried":
            error = self._first_error(int(message["stage"]))
            execution.fail(str(message["where"]), in_short(error), may_retry=is_loss(error))
        elif execution is not None:
            return answer(execution, message)
        return None

    def orders(self, attempt: int, who: str, after: int, wait_s: float) -> dict[str, Any]:
        execution = self._executions.get(attempt)
        if execution is not None:
            return execution.board.read(who, after, wait_s)
        abort = {"number": after + 1, "kind": "abort", "where": "the driver", "cause": f"attempt {attempt} is over"}
        return {"orders": [abort], "over": True}

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

    def shown(self) -> Shown | None:
        newest = self._newest()
        return newest.shown() if newest is not None else None

    def story(self) -> list[str]:
        newest = self._newest()
        return newest.control.story() if newest is not None else []

    @property
    def first_partial(self) -> FirstPartial | None:
        newest = self._newest()
        return newest.first_partial if newest is not None else None

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

    def _meeting(self, stage: int) -> Meeting:
        with self._lock:
            if stage not in self._meetings:
                kept = {at: known for at, known in self._meetings.items() if at in self._stages or not known.over}
                self._meetings = {**kept, stage: self._new_meeting(stage)}
            return self._meetings[stage]

    def _new_meeting(self, stage: int) -> Meeting:
        return Meeting(self._plan.hosts, partial(self._hosts_ready, stage), partial(self._hosts_lost, stage))

    def _hosts_lost(self, stage: int) -> None:
        before = self._executions.get(self._stages.get(stage, 0))
        if before is not None:
            before.fail(*LOST, may_retry=True)

    def _hosts_ready(self, stage: int, locations: tuple[str, ...]) -> dict[str, Any]:
        """Number the attempt. Spark tries a failed barrier stage again; an error of the flow would only come again."""
        with self._lock:
            before = self._executions.get(self._stages.get(stage, 0))
            if before is not None and before.failure is not None and not before.may_retry:
                self._failures[stage] = before.failure
            failed = self._failures.get(stage)
            if failed is not None:
                return {"failed": [failed.where, failed.cause]}
            self._attempts += 1
            attempt = self._attempts
            execution = self._execution(attempt, locations)
            execution.cancel_hosts = lambda reason: self._cancel_hosts(stage, reason)
            for known, number in self._stages.items():
                if (failure := self._executions[number].failure) and not self._executions[number].may_retry:
                    self._failures[known] = failure
            self._executions = {number: known for number, known in self._executions.items() if not known.over}
            self._stages = {known: number for known, number in self._stages.items() if number in self._executions}
            self._stages[stage] = attempt
            self._executions[attempt] = execution
        execution.start()
        return {"attempt": attempt, "locations": locations}

    def _execution(self, attempt: int, locations: tuple[str, ...]) -> Execution:
        log = EventLog(self._log_directory, f"{self.name}-{attempt}") if self._log_directory else None
        return Execution(self._plan, attempt, locations, self._run_source, self._cancel_sources, log=log)

    def _run_source(self, source: int, attempt: int, locations: tuple[str, ...]) -> int:
        context = self._spark.sparkContext
        context.setJobGroup(self._group(attempt), self._plan.source_job(source), True)
        edge = self._plan.edge(*self._plan.source_target(source))
        task = source_function(edge, source, self._address(), attempt, locations)
        counts = _plainly_named(self._sources[source]).mapInArrow(task, "rows long").collect()
        return sum(row["rows"] for row in counts)

    def _cancel_sources(self, attempt: int) -> None:
        self._spark.sparkContext.cancelJobGroup(self._group(attempt))

    def _first_error(self, stage: int) -> str:
        """Spark books errors with a little delay; a task that is tried again without one was most likely lost."""
        error = task_errors.first_error(self._spark.sparkContext, stage)
        return error or "ExecutorLostFailure: Spark tried the task again and does not say why"

    def _cancel_hosts(self, stage: int, reason: str) -> None:
        """The action that runs the hosts raises at once, with this reason, instead of after Spark's four tries."""
        context: Any = self._spark.sparkContext._jsc.sc()
        context.cancelStage(stage, reason)

    def _group(self, attempt: int) -> str:
        return f"reshape-{self.name}-{attempt}"

    def _address(self) -> FlowAddress:
        return FlowAddress(self.name, self.location, self.access)

    def launch(self, settings: HostSettings, *, exchange: bool) -> DataFrame:
        """The lazy DataFrame of the result."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.pandas.types import from_arrow_schema

        check(self._spark, self._plan.hosts)
        stop_flows_on_interrupt(_interrupt)
        shipping.ship(self._spark.sparkContext)
        service = _service(self._spark, self.access.tls)
        service.drop_unneeded()
        self.location = service.register(self.name, self)
        output = next(operator.output for operator in self._plan.operators if operator.target is None)
        number = pa.field(HOST_COLUMN, pa.int32(), nullable=False) if exchange else None
        function = host_function(self._plan, self._address(), settings, is_local(self._spark), number)
        schema = from_arrow_schema(output if number is None else output.append(number))
        hosts = self._spark.range(0, self._plan.hosts, 1, self._plan.hosts)
        result = hosts.mapInArrow(function, schema, barrier=True)
        service.keep_while(self.name, runnable(result))
        # Without an exchange behind it, a barrier stage cannot serve actions that want some of its partitions only.
        if exchange:
            result = result.repartitionById(self._plan.hosts, F.col(HOST_COLUMN)).drop(HOST_COLUMN)
        return result


def _interrupt() -> None:
    with _LOCK:
        services = [service for known in _SERVICES.values() for service in known.values()]
    for service in services:
        service.interrupt("Ctrl-C")


def _plainly_named(df: DataFrame) -> DataFrame:
    """PySpark's mapInArrow looks columns up by name, which fails for a dot in it and for a name that is there twice."""
    names = df.columns
    if len(set(names)) == len(names) and not any("." in name or "`" in name for name in names):
        return df
    return df.toDF(*(f"c{number}" for number in range(len(names))))


def _service(spark: SparkSession, tls: Tls | None) -> DriverService:
    """The driver's end of all flows of this application that use this certificate, or none."""
    with _LOCK:
        for context, stale in list(_SERVICES.items()):
            if context._jsc is None:  # stopped
                for service in stale.values():
                    service.close()
        services = _SERVICES.setdefault(spark.sparkContext, {})
        if tls not in services:
            services[tls] = DriverService(driver_address(spark), tls)
        return services[tls]


def host_function(
    plan: PhysicalPlan, flow: FlowAddress, settings: HostSettings, local: bool, number: pa.Field | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a barrier task runs; ``number`` is a column for the host's number, if one is wanted behind the result."""

    def host(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import BarrierTaskContext

        prepare()
        context = BarrierTaskContext.get()
        index = context.partitionId()
        for _ in batches:
            pass  # the input only makes the task exist
        address = "127.0.0.1" if local else own_address(context.getTaskInfos()[index].address)
        results = Host(plan, index, flow, settings, address, context.stageId(), context.taskAttemptId()).results()
        if number is None:
            yield from results
            return
        for batch in results:
            column = pa.repeat(pa.scalar(index, pa.int32()), batch.num_rows)
            yield pa.RecordBatch.from_arrays([*batch.columns, column], schema=batch.schema.append(number))

    return host


def source_function(
    edge: Edge, source: int, flow: FlowAddress, attempt: int, locations: tuple[str, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a source task runs."""

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        prepare()
        context = TaskContext.get()
        assert context is not None
        task = SourceTask(
            edge, source, flow, attempt, locations, context.partitionId(), context.attemptNumber(), context.stageId()
        )
        yield from task.run(batches)

    return route
