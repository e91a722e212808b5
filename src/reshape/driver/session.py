"""What a Spark session offers: slots, addresses, and settings that rule flows out."""

from __future__ import annotations

import socket
import tempfile
from typing import TYPE_CHECKING, Any

from reshape.errors import TooFewSlots, UnsuitableSession
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


def result_folder(spark: SparkSession) -> str | None:
    """A new folder for the rows of a result that all tasks can read; it goes with the application, if not before.
    None where tasks are on several machines, or rows on disk have to be encrypted: there Spark keeps them."""
    context = spark.sparkContext
    if not is_local(spark) or context.getConf().get("spark.io.encryption.enabled", "false") == "true":
        return None
    return tempfile.mkdtemp(prefix="reshape-result-", dir=str(context._temp_dir))


def driver_address(spark: SparkSession) -> str:
    """Where executors reach the driver: loopback when they are in the same process."""
    if is_local(spark):
        return "127.0.0.1"
    return socket.gethostbyname(spark.sparkContext.getConf().get("spark.driver.host", "localhost"))


def check(spark: SparkSession, hosts: int, *, sources: bool = True) -> None:
    """Raise unless this session can run hosts, and sources that Spark reads, at the same time."""
    conf = spark.sparkContext.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise UnsuitableSession(
            "Spark runs no barrier stage, as a flow's hosts are, with executors that come and go: "
            "set spark.dynamicAllocation.enabled to false for this application"
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
