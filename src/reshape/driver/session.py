"""What a Spark session offers: slots, addresses, and settings that rule flows out."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from reshape.errors import TooFewSlots, UnsuitableSession

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
        return "127.0.0.1"
    return socket.gethostbyname(spark.sparkContext.getConf().get("spark.driver.host", "localhost"))


def check(spark: SparkSession, hosts: int) -> None:
    """Raise unless this session can run hosts and sources at the same time."""
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
    if have < hosts + 1:
        advice = (
            f"Start the session with local[{hosts + 2}] or more, or ask for fewer hosts."
            if is_local(spark)
            else "Give the application more executors or cores (spark.executor.instances, spark.executor.cores), or "
            "ask for fewer hosts."
        )
        raise TooFewSlots(have, hosts, advice)


def default_hosts(spark: SparkSession) -> int:
    """Half of the slots, so that sources have the other half."""
    return max(1, slots(spark) // 2)
