"""A flow that is ready to run: registered with the driver's service, and a lazy DataFrame whose actions run it."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from reshape.driver import shipping
from reshape.driver.attempts import Attempts, unique_name
from reshape.driver.interrupt import stop_flows_on_interrupt
from reshape.driver.lifetime import runnable
from reshape.driver.service import DriverService
from reshape.driver.session import check, driver_address, is_local
from reshape.driver.spark_cluster import HOST_COLUMN, SparkCluster
from reshape.exchange.flight import Tls
from reshape.host.host import HostSettings
from reshape.plan.physical import PhysicalPlan
from reshape.protocol.link import FlowAddress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SERVICES: weakref.WeakKeyDictionary[Any, dict[Tls | None, DriverService]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


class LaunchedFlow:
    """``df`` is the lazy result; ``attempts`` is what has become of the actions on it."""

    def __init__(
        self,
        spark: SparkSession,
        plan: PhysicalPlan,
        sources: tuple[DataFrame, ...],
        settings: HostSettings,
        *,
        exchange: bool,
        tls: Tls | None = None,
        log_directory: str | None = None,
    ) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        check(spark, plan.hosts)
        stop_flows_on_interrupt(_interrupt)
        shipping.ship(spark.sparkContext)

        # No method: what is registered lives until nobody can run the flow, so it must not know the result below.
        def address() -> FlowAddress:
            return FlowAddress(attempts.name, location, attempts.access)

        cluster = SparkCluster(spark, plan, sources, address)
        attempts = Attempts(unique_name(plan.name), plan, cluster, tls, log_directory)
        service = _service(spark, tls)
        service.drop_unneeded()
        location = service.register(attempts.name, attempts)
        result = cluster.hosts(settings, local=is_local(spark), numbered=exchange)
        service.keep_while(attempts.name, runnable(result))
        # Without an exchange behind it, a barrier stage cannot serve actions that want some of its partitions only.
        if exchange:
            result = result.repartitionById(plan.hosts, F.col(HOST_COLUMN)).drop(HOST_COLUMN)
        self.attempts = attempts
        self.df = result


def _interrupt() -> None:
    with _LOCK:
        services = [service for by_tls in _SERVICES.values() for service in by_tls.values()]
    for service in services:
        service.interrupt("Ctrl-C")


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
