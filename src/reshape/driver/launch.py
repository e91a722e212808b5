"""A flow that is ready to run: registered with the driver's service, and a lazy DataFrame whose actions run it."""

from __future__ import annotations

import shutil
import threading
import uuid
import weakref
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from reshape.driver import shipping
from reshape.driver.attempts import Attempts, unique_name
from reshape.driver.execution import Execution
from reshape.driver.interrupt import stop_flows_on_interrupt
from reshape.driver.lifetime import runnable
from reshape.driver.packed import Packing, unpacking
from reshape.driver.service import DriverService
from reshape.driver.session import check, driver_address, driver_listening, is_local, result_folder
from reshape.driver.session_flows import SessionFlows, all_sessions, flows_of
from reshape.driver.slot_watch import Watched
from reshape.driver.slots import FlowSlots
from reshape.driver.spark_cluster import SparkCluster
from reshape.exchange.addresses import Listening
from reshape.exchange.transport.access import Tls
from reshape.host.host import HostSettings
from reshape.observe.progress import QueryIdentity
from reshape.plan.physical import PhysicalPlan
from reshape.plan.types import to_spark
from reshape.protocol.link import FlowAddress
from reshape.scan.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# How hosts give their rows to Spark. "exchanged": packed, and unpacked behind an exchange, which serves every action;
# "rows": as they are, for actions that want all partitions; "packed": as packed values, for the driver to unpack.
Giving: TypeAlias = Literal["exchanged", "rows", "packed"]

_SERVICES: weakref.WeakKeyDictionary[Any, dict[tuple[Tls | None, Listening], DriverService]] = (
    weakref.WeakKeyDictionary()
)
_LOCK = threading.Lock()
# Ids of flows are made from this one and what they are made of.
_FLOWS = uuid.UUID("5b0a3f1e-6c0d-4f0e-9a51-7b1d2c9e4f60")


class LaunchedFlow:
    """``df`` is the lazy result, made of ``kept``, which is cheap to keep; ``attempts`` is what has become of the
    actions on it."""

    def __init__(
        self,
        spark: SparkSession,
        plan: PhysicalPlan,
        sources: tuple[Source, ...],
        settings: HostSettings,
        *,
        giving: Giving,
        shown: StructType | None = None,
        tls: Tls | None = None,
        log_directory: str | None = None,
    ) -> None:
        scans = {number: source.scan for number, source in enumerate(sources) if source.scan is not None}
        by_spark = [source.df for source in sources if source.scan is None]
        flows = flows_of(spark.sparkContext)
        run = uuid.uuid4()
        self.identity = QueryIdentity(_flow_id(plan, sources), str(run), plan.name)
        reads = flows.read_by(by_spark)
        slots = FlowSlots(unique_name(plan.name, run), plan.hosts, bool(by_spark), reads, plan.spare_hosts)
        check(spark, slots)
        stop_flows_on_interrupt(_interrupt)
        shipping.ship(spark.sparkContext)

        # No method: what is registered lives until nobody can run the flow, so it must not know the result below.
        def address() -> FlowAddress:
            return FlowAddress(attempts.name, location, attempts.access)

        cluster = SparkCluster(spark, plan, sources, address)
        watch = _Watch(flows, slots, cluster)
        attempts = Attempts(slots.name, plan, cluster, scans, tls, log_directory, watch=watch)
        if is_local(spark):
            settings = replace(settings, listening=settings.listening.on_loopback())
        service = _service(spark, tls, driver_listening(spark, settings.listening))
        service.drop_unneeded()
        location = service.register(attempts.name, attempts)
        folder = None if giving == "rows" else result_folder(spark, encrypt=settings.encrypt)
        packing = None if giving == "rows" else Packing(folder)
        schema = to_spark(plan.output) if shown is None else shown
        hosts = cluster.hosts(settings, schema, local=is_local(spark), packing=packing)
        service.keep_while(attempts.name, runnable(hosts), partial(_remove, folder))
        flows.add(attempts, slots)
        # Without an exchange behind it, a barrier stage cannot serve actions that want some of its partitions only.
        self.flows = flows
        self.slots = slots
        self.attempts = attempts
        if giving == "exchanged":
            self._kept = hosts.exchanged(plan.hosts)
            self.df = self._kept.mapped(unpacking(), schema).dataframe()
        else:
            self._kept = hosts
            self.df = self.kept

    @cached_property
    def kept(self) -> DataFrame:
        return self._kept.dataframe()


def _flow_id(plan: PhysicalPlan, sources: tuple[Source, ...]) -> str:
    """The same for the same flow, in this session and in others: by its name, its operators and what it reads."""
    parts = [plan.name, *(source.df.schema.json() for source in sources)]
    for operator in plan.operators:
        facts = operator.logic.facts(lambda field: f"{field.name} {field.type}")
        parts += [operator.label, *facts, str(operator.target), operator.output.to_string()]
    return str(uuid.uuid5(_FLOWS, "\n".join(parts)))


def _remove(folder: str | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


class _Watch:
    """Brings the attempts of one flow to what watches all of a session."""

    def __init__(self, flows: SessionFlows, slots: FlowSlots, cluster: SparkCluster) -> None:
        self._flows = flows
        self._slots = slots
        self._cluster = cluster

    def begins(self, execution: Execution, stage: int) -> None:
        group = self._cluster.source_group(execution.attempt)
        self._flows.watch.begins(Watched(self._slots, execution, stage, group))

    def over(self, execution: Execution) -> None:
        self._flows.watch.over(execution)


def _interrupt() -> None:
    for flows in all_sessions():
        flows.turns.stop_all("Ctrl-C")
    with _LOCK:
        services = [service for of_context in _SERVICES.values() for service in of_context.values()]
    for service in services:
        service.interrupt("Ctrl-C")


def _service(spark: SparkSession, tls: Tls | None, listening: Listening) -> DriverService:
    """The driver's end of all flows of this application that use this certificate, or none, and these ports."""
    with _LOCK:
        for context, stale in list(_SERVICES.items()):
            if context._jsc is None:  # stopped
                for service in stale.values():
                    service.close()
        services = _SERVICES.setdefault(spark.sparkContext, {})
        if (tls, listening) not in services:
            services[tls, listening] = DriverService(driver_address(spark), tls, listening)
        return services[tls, listening]
