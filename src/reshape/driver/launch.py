"""A flow that is ready to run: registered with the driver's service, and a lazy DataFrame whose actions run it."""

from __future__ import annotations

import threading
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reshape.driver import shipping
from reshape.driver.attempts import Attempts, unique_name
from reshape.driver.interrupt import stop_flows_on_interrupt
from reshape.driver.lifetime import runnable
from reshape.driver.packed import HOST_COLUMN, unpacking
from reshape.driver.service import DriverService
from reshape.driver.session import check, driver_address, driver_listening, is_local
from reshape.driver.spark_cluster import SparkCluster
from reshape.exchange.addresses import Listening
from reshape.exchange.flight import Tls
from reshape.host.host import HostSettings
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.link import FlowAddress
from reshape.scan.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SERVICES: weakref.WeakKeyDictionary[Any, dict[tuple[Tls | None, Listening], DriverService]] = (
    weakref.WeakKeyDictionary()
)
_LOCK = threading.Lock()


class LaunchedFlow:
    """``df`` is the lazy result, made of ``kept``, which is cheap to keep; ``attempts`` is what has become of the
    actions on it. ``exchange``: whether actions that want some partitions only are possible."""

    def __init__(
        self,
        spark: SparkSession,
        plan: PhysicalPlan,
        sources: tuple[Source, ...],
        settings: HostSettings,
        *,
        exchange: bool,
        tls: Tls | None = None,
        log_directory: str | None = None,
    ) -> None:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.pandas.types import from_arrow_schema

        scans = {number: source.scan for number, source in enumerate(sources) if source.scan is not None}
        check(spark, plan.hosts, sources=len(scans) < len(sources))
        stop_flows_on_interrupt(_interrupt)
        shipping.ship(spark.sparkContext)

        # No method: what is registered lives until nobody can run the flow, so it must not know the result below.
        def address() -> FlowAddress:
            return FlowAddress(attempts.name, location, attempts.access)

        cluster = SparkCluster(spark, plan, sources, address)
        attempts = Attempts(unique_name(plan.name), plan, cluster, scans, tls, log_directory)
        if is_local(spark):
            settings = replace(settings, listening=settings.listening.on_loopback())
        service = _service(spark, tls, driver_listening(spark, settings.listening))
        service.drop_unneeded()
        location = service.register(attempts.name, attempts)
        hosts = cluster.hosts(settings, local=is_local(spark), packed=exchange)
        service.keep_while(attempts.name, runnable(hosts))
        # Without an exchange behind it, a barrier stage cannot serve actions that want some of its partitions only.
        self.attempts = attempts
        self.kept = hosts.repartitionById(plan.hosts, F.col(HOST_COLUMN)).drop(HOST_COLUMN) if exchange else hosts
        self.df = self.kept.mapInArrow(unpacking(), from_arrow_schema(plan.output)) if exchange else hosts


def _interrupt() -> None:
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
