"""What a Spark session offers: slots, addresses, and settings that rule flows out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reshape.errors import TooFewSlots, UnsuitableSession
from reshape.exchange.addresses import LOCAL, Listening, resolved
from reshape.machine.resources import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def slots(spark: SparkSession) -> int:
    """Tasks that can run at the same time."""
    context: Any = spark.sparkContext._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def is_local(spark: SparkSession) -> bool:
    master = spark.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def driver_address(spark: SparkSession) -> str:
    """Where executors reach the driver: loopback when they are in the same process."""
    if is_local(spark):
        return LOCAL
    host = spark.sparkContext.getConf().get("spark.driver.host") or ""
    try:
        if host:
            return resolved(host)
        cause = "is not set"
    except OSError as error:
        cause = f"is {host!r}, which has no address here ({error})"
    raise UnsuitableSession(
        f"executors reach the driver at spark.driver.host, which {cause}: set it to a name or address of the driver's "
        "machine"
    )


def driver_listening(spark: SparkSession, listening: Listening) -> Listening:
    """Where the driver listens: as Spark's own listeners do, unless flows have a setting of their own."""
    if is_local(spark):
        return listening.on_loopback()
    bind = listening.bind or spark.sparkContext.getConf().get("spark.driver.bindAddress")
    return replace(listening, bind=bind)


def check(spark: SparkSession, hosts: int, *, sources: bool = True) -> None:
    """Raise unless this session can run hosts, and sources that Spark reads, at the same time."""
    conf = spark.sparkContext.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise UnsuitableSession(
            "flows need executors that stay: set spark.dynamicAllocation.enabled to false for this application"
        )
    if conf.get("spark.speculation", "false") == "true":
        raise UnsuitableSession(
            "flows cannot have a task run twice at a time: set spark.speculation to false for this application"
        )
    have = slots(spark)
    if have < hosts + sources:
        advice = (
            f"Start the session with local[{hosts + 2 * sources}] or more, or ask for fewer hosts."
            if is_local(spark)
            else "Give the application more executors or cores (spark.executor.instances, spark.executor.cores), or "
            "ask for fewer hosts."
        )
        raise TooFewSlots(have, hosts, sources, advice)


def default_hosts(spark: SparkSession, *, sources: bool) -> int:
    """Half of the slots, so that sources that Spark reads have the other half; all of them where there are none, but
    no more than cores: a local session has more slots than cores, and hosts do not wait for each other much."""
    have = slots(spark)
    if sources:
        return max(1, have // 2)
    return min(have, cores().slots) if is_local(spark) else have
